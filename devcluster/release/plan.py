"""Decides what a release consists of, and what prevents it: pure functions of what was read."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

UNRELEASED = "Not released yet"
_VERSION = re.compile(r"\d+\.\d+\.\d+")
_SECTION = re.compile(r"^## (.+)$", re.MULTILINE)
_NAMED_CHANGES = 3


@dataclass(frozen=True, slots=True)
class Checkout:
    """State of the checkout.

    Attributes:
        version: `project.version` of pyproject.toml, the one place that names it.
        changes: files that differ from the last commit, or that git does not know.
        tags: git's tags.
        changelog: text of CHANGELOG.md.
    """

    version: str
    changes: tuple[str, ...]
    tags: frozenset[str]
    changelog: str

    @property
    def tag(self) -> str:
        """Git's tag of this version."""
        return f"v{self.version}"


@dataclass(frozen=True, slots=True)
class Registry:
    """A registry's answers about this version.

    Attributes:
        name: such as registry.example/team.
        digests: image → digest of the image that has this version there already.
        errors: image → why the registry could not be asked.
    """

    name: str
    digests: Mapping[str, str] = field(default_factory=dict)
    errors: Mapping[str, str] = field(default_factory=dict)


def problems(checkout: Checkout, registry: Registry | None, made: Mapping[str, str]) -> list[str]:
    """Return everything that prevents a release, one sentence each.

    Args:
        checkout: Its state.
        registry: What the registry to push to said, if one was named.
        made: image → digest of this version's images that an earlier `make release` left in build/release/.
    """
    return [
        *_problems_of_git(checkout),
        *_problems_of_changelog(checkout),
        *(_problems_of_registry(checkout, registry, made) if registry else []),
    ]


def notes(changelog: str, version: str) -> str:
    """Return the section of CHANGELOG.md about `version`, without its heading; empty if there is none."""
    return next((text for heading, text in _sections(changelog) if _version_of(heading) == version), "")


def _problems_of_git(checkout: Checkout) -> list[str]:
    obstacles = []
    if not _VERSION.fullmatch(checkout.version):
        obstacles.append(f"pyproject.toml: project.version is {checkout.version!r}; write three numbers, such as 1.0.0")
    if checkout.changes:
        named = ", ".join(checkout.changes[:_NAMED_CHANGES])
        more = len(checkout.changes) - _NAMED_CHANGES
        rest = f" and {more} more" if more > 0 else ""
        obstacles.append(
            f"the working tree differs from the last commit ({named}{rest}): commit or remove what differs"
        )
    if checkout.tag in checkout.tags:
        obstacles.append(f"git has tag {checkout.tag} already: raise project.version in pyproject.toml")
    return obstacles


def _problems_of_changelog(checkout: Checkout) -> list[str]:
    sections = _sections(checkout.changelog)
    released = [version for heading, _ in sections if (version := _version_of(heading))]
    obstacles = []
    if not _VERSION.fullmatch(checkout.version):
        return []
    if checkout.version not in released:
        obstacles.append(
            f"CHANGELOG.md has no section {checkout.version}: write '## {checkout.version} (YYYY-MM-DD)' "
            f"in place of '## {UNRELEASED}'"
        )
    else:
        if not notes(checkout.changelog, checkout.version).strip():
            obstacles.append(f"CHANGELOG.md: section {checkout.version} is empty; say what changed")
        if released[0] != checkout.version:
            obstacles.append(
                f"CHANGELOG.md's newest version is {released[0]}: make it project.version in pyproject.toml"
            )
        if any(heading == UNRELEASED and text.strip() for heading, text in sections):
            obstacles.append(
                f"CHANGELOG.md has changes under '{UNRELEASED}', which this release would hold: "
                f"move them to section {checkout.version}"
            )
    return obstacles


def _problems_of_registry(checkout: Checkout, registry: Registry, made: Mapping[str, str]) -> list[str]:
    there = [
        f"{registry.name}/{image}:{checkout.version} is another image already ({digest}): "
        "raise project.version in pyproject.toml"
        for image, digest in registry.digests.items()
        if made.get(image) != digest
    ]
    return there + [
        f"{registry.name}/{image}: the registry gives no answer ({error}); try `skopeo login`"
        for image, error in registry.errors.items()
    ]


def _sections(changelog: str) -> list[tuple[str, str]]:
    _, *parts = _SECTION.split(changelog)
    return list(zip(parts[::2], parts[1::2], strict=True))


def _version_of(heading: str) -> str:
    word = heading.split(" ")[0]
    return word if _VERSION.fullmatch(word) else ""
