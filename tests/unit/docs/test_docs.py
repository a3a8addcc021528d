"""The docs name files and headings that are there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from devcluster.machine.bootstrap import CHECKOUT

PAGES = sorted([*CHECKOUT.glob("*.md"), *CHECKOUT.glob("docs/**/*.md")])
MAPS = [CHECKOUT / "CONTRIBUTING.md", CHECKOUT / "docs/architecture.md"]
CODE = re.compile(r"```.*?```|`[^`]*`", re.DOTALL)
LINK = re.compile(r"\]\(([^)#\s]*)(?:#([^)\s]*))?\)")
RECORDS = [CHECKOUT / f"docs/{name}.md" for name in ("tested", "nfs", "doors", "jail")]
TEST = re.compile(r"`(?:tests/)?((?:\w+/)+test_\w+|vm(?:/\w+)*)(?:\.py)?`")
SHORTENED = re.compile(r"`(?:…(\w+)|(\w+)_…)`")
PATH = re.compile(r"`((?:[\w.-]+/)+(?:[\w.-]+\.\w+)?)`")
DECLARED = re.compile(r"^\| \**`([^`]+)`", re.MULTILINE)
KEY = re.compile(r"`([a-z]\w*(?:\[\])?(?:\.(?!pod\.|files\.)[a-z]\w*(?:\[\])?)+)[`:]")
"""A key, but for those of pods and of Slurm's files, which each site names."""
OF_FILES = (".com", ".conf", ".json", ".key", ".local", ".py", ".yaml")
"""Ends of names of files and hosts, which look like keys."""


def anchors(page: Path) -> set[str]:
    """Anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def broken(page: Path) -> list[str]:
    found = []
    for target, anchor in LINK.findall(CODE.sub("", page.read_text())):
        file = (page.parent / target).resolve() if target else page
        if target.startswith(("http:", "https:", "mailto:")):
            continue
        if not file.exists() or (anchor and anchor not in anchors(file)):
            found.append(f"{target}#{anchor}")
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(CHECKOUT)))
def test_every_link_leads_to_a_page_and_its_heading(page: Path) -> None:
    assert broken(page) == []


@pytest.mark.parametrize("page", MAPS, ids=lambda page: page.name)
def test_the_map_names_files_that_are_there(page: Path) -> None:
    named = set(PATH.findall(page.read_text()))
    assert len(named) > 10
    made_later = {"build/release/"}
    assert {path for path in named - made_later if not (CHECKOUT / path).exists()} == set()


@pytest.mark.parametrize("page", RECORDS, ids=lambda page: page.name)
def test_each_test_that_a_record_names_is_there(page: Path) -> None:
    """A file or a folder below tests, such as `vm/test_v2_jobs`."""
    named = set(TEST.findall(page.read_text()))
    assert len(named) > 5
    missing = {name for name in named if not any((CHECKOUT / "tests" / f"{name}{end}").exists() for end in ("", ".py"))}
    assert missing == set()


def test_each_name_of_a_test_that_a_record_shortens_is_of_one_that_is_there() -> None:
    """Such as `…_speaks_no_http`, which stands for test_slurmd_speaks_no_http."""
    parts = {"".join(part) for page in RECORDS for part in SHORTENED.findall(page.read_text())}
    assert len(parts) > 10
    files = (CHECKOUT / "tests").rglob("test_*.py")
    there = " ".join(name for file in files for name in re.findall(r"def (test_\w+)", file.read_text()))
    assert {part for part in parts if part not in there} == set()


def test_each_key_that_a_page_names_is_in_the_configuration() -> None:
    """Such as `nodeSets[].resources.cpu`."""
    keys = {key.replace("[]", "") for key in DECLARED.findall((CHECKOUT / "docs/config.md").read_text())}
    known = {".".join(key.split(".")[:depth]) for key in keys for depth in range(1, key.count(".") + 2)}
    named = [(page.name, key) for page in (CHECKOUT / "docs").glob("*.md") for key in KEY.findall(page.read_text())]
    ours = [(page, key.replace("[]", "")) for page, key in named if key.partition(".")[0].rstrip("[]") in known]
    assert len(ours) > 100
    assert [(page, key) for page, key in ours if key not in known and not key.endswith(OF_FILES)] == []


def test_each_limit_is_in_a_group_and_says_one_thing() -> None:
    """Two sentences at most: what is more is another limit, or belongs on the page of its subject."""
    text = (CHECKOUT / "docs/limits.md").read_text()
    groups = re.findall(r"^## (.+)$", text, re.MULTILINE)
    assert groups == ["By design", "Not tried here", "Not built yet"]
    limits = re.findall(r"^\* (.+?)(?=^\* |^#|^$|\Z)", text, re.MULTILINE | re.DOTALL)
    plain = [re.sub(r"`[^`]*`|\([^)]*\)", "x", " ".join(limit.split())) for limit in limits]
    assert len(plain) > 100
    assert [limit for limit in plain if len(re.findall(r"\.\**(?= |$)", limit)) > 2] == []
