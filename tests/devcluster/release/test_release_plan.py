"""Promises of `make release` about when there is none: every reason at once, a sentence each."""

from __future__ import annotations

import dataclasses

import pytest

from devcluster.release import plan

CHANGELOG = """# Changelog

## Not released yet

## 1.2.0 (2026-11-23)

### New
* Nodes are blue.

## 1.1.0 (2026-01-01)

* Nodes are green.
"""
READY = plan.Checkout(version="1.2.0", changes=(), tags=frozenset({"v1.1.0"}), changelog=CHANGELOG)
OURS = {"slurm": "sha256:aa", "jail": "sha256:bb"}


def refused(registry: plan.Registry | None = None, **changes: object) -> str:
    return "\n".join(plan.problems(dataclasses.replace(READY, **changes), registry, OURS))


def test_a_clean_checkout_with_notes_of_its_version_can_be_released():
    assert refused() == ""
    assert refused(plan.Registry("registry.example/team")) == ""


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"changes": ("README.md",)}, "differs from the last commit (README.md): commit"),
        ({"changes": tuple("abcde")}, "(a, b, c and 2 more)"),
        ({"tags": frozenset({"v1.2.0"})}, "git has tag v1.2.0 already: raise project.version"),
        ({"version": "1.3.0"}, "CHANGELOG.md has no section 1.3.0: write '## 1.3.0 (YYYY-MM-DD)'"),
        ({"version": "1.2"}, "project.version is '1.2'; write three numbers"),
        ({"version": "1.1.0", "tags": frozenset()}, "newest version is 1.2.0: make it project.version"),
        ({"changelog": CHANGELOG.replace("### New\n* Nodes are blue.\n", "")}, "section 1.2.0 is empty"),
        (
            {"changelog": CHANGELOG.replace("released yet\n", "released yet\n* More.\n")},
            "changes under 'Not released yet', which this release would hold: move them to section 1.2.0",
        ),
        ({"changelog": CHANGELOG.replace("## 1.2.0 (", "## 1.2.0-rc1 (")}, "has no section 1.2.0"),
    ],
)
def test_what_stands_against_a_release_is_named_with_what_to_do(changes, said):
    assert said in refused(**changes)
    assert len(refused(**changes).splitlines()) == 1


def test_all_reasons_come_at_once():
    registry = plan.Registry("registry.example/team", {"slurm": "sha256:cc"}, {"jail": "unauthorized"})
    said = refused(registry, changes=("README.md",), tags=frozenset({"v1.3.0"}), version="1.3.0")
    assert [line.split(" ", 1)[0] for line in said.splitlines()] == [
        "the",
        "git",
        "CHANGELOG.md",
        "registry.example/team/slurm:1.3.0",
        "registry.example/team/jail:",
    ]


def test_a_push_that_was_cut_off_goes_on_with_the_same_digests():
    assert refused(plan.Registry("registry.example/team", {"slurm": OURS["slurm"]})) == ""
    assert "is another image already (sha256:cc)" in refused(plan.Registry("r", {"slurm": "sha256:cc"}))


def test_the_notes_are_the_versions_section():
    assert plan.notes(CHANGELOG, "1.2.0").strip() == "### New\n* Nodes are blue."
    assert plan.notes(CHANGELOG, "1.1.0").strip() == "* Nodes are green."
    assert plan.notes(CHANGELOG, "1.0.0") == ""
