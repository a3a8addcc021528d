"""Inputs of an image's build, and its tag.

The tag is a hash of the build's inputs, not of its result. Package archives change daily, but equal sources must give
the same tag on another machine or day.
"""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
IMAGES = REPOSITORY / "images"
SUITE_FILE = IMAGES / "suite"
"""The only file that names the Debian suite, which decides Slurm's version."""
NAMES = ("slurm", "jail", "operator", "database")
REFERENCE_PREFIX = "localhost/pulumi-slurm"
MMDEBSTRAP_OPTIONS = (
    "--variant=minbase",
    # A testing suite's archive may be a snapshot whose release file has expired.
    '--aptopt=Acquire::Check-Valid-Until "false"',
    # mmdebstrap leaves the build machine's files there.
    '--customize-hook=rm -f "$1/etc/resolv.conf" "$1/etc/hostname"',
)


class ImageError(Exception):
    """An image could not be built or pushed; the text names the log."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """Inputs of one image's build.

    Attributes:
        name: folder under images/.
        containerfile: its text.
        package_lists: build argument that names a base → the packages which that base must hold.
        inputs: every file that the build copies, in a fixed order.
        suite: the Debian suite of the bases.
    """

    name: str
    containerfile: str
    package_lists: Mapping[str, tuple[str, ...]]
    inputs: tuple[Path, ...]
    suite: str

    @property
    def tag(self) -> str:
        """Returns the content tag: a hash of all inputs, file modes included."""
        digest = hashlib.sha256()
        for part in (self.containerfile, self.suite, *MMDEBSTRAP_OPTIONS):
            digest.update(part.encode() + b"\0")
        for argument, packages in sorted(self.package_lists.items()):
            digest.update(f"{argument}={','.join(packages)}\0".encode())
        for path in self.inputs:
            executable = "x" if path.stat().st_mode & 0o100 else "-"
            digest.update(f"{path.relative_to(REPOSITORY)} {executable}\0".encode())
            digest.update(hashlib.sha256(path.read_bytes()).digest())
        return digest.hexdigest()[:16]

    @property
    def reference(self) -> str:
        """Returns the image's full name with its content tag."""
        return f"{REFERENCE_PREFIX}/{self.name}:{self.tag}"


def read_recipe(name: str) -> Recipe:
    """Reads the recipe of one image from images/NAME.

    A file ``packages`` describes the base given as build argument BASE, ``packages.build`` the one given as BUILD_BASE.
    An option (a folder with ``packages``) adds its own to BASE when its ``source`` is there.
    """
    folder = IMAGES / name
    containerfile = (folder / "Containerfile").read_text()
    options = sorted(source.with_name("packages") for source in folder.glob("*/source"))
    lists = {"BASE": [folder / "packages", *options], "BUILD_BASE": [folder / "packages.build"]}
    return Recipe(
        name=name,
        containerfile=containerfile,
        package_lists={
            argument: tuple(word for path in paths for word in path.read_text().split())
            for argument, paths in lists.items()
            if paths[0].exists()
        },
        inputs=tuple(sorted(_copied_files(containerfile))),
        suite=SUITE_FILE.read_text().strip(),
    )


def _copied_files(containerfile: str) -> Iterator[Path]:
    joined = containerfile.replace("\\\n", " ")
    for line in joined.splitlines():
        words = shlex.split(line, comments=True)
        if not words or words[0].upper() not in ("COPY", "ADD") or any(word.startswith("--from=") for word in words):
            continue
        sources = [word for word in words[1:-1] if not word.startswith("--")]
        for source in sources:
            yield from _files_below(REPOSITORY / source)


def _files_below(path: Path) -> Iterator[Path]:
    if path.is_file():
        yield path
        return
    if not path.is_dir():
        raise ImageError(f"a Containerfile copies {path}, which is not there")
    for below in path.rglob("*"):
        if below.is_file() and not _ignored(below):
            yield below


def _ignored(path: Path) -> bool:
    return not {"__pycache__", "build", ".git"}.isdisjoint(path.relative_to(REPOSITORY).parts) or path.suffix == ".pyc"


def root_reference(suite: str, packages: tuple[str, ...]) -> str:
    """Returns the name under which a base root is kept in the build storage."""
    key = hashlib.sha256("\0".join((suite, *MMDEBSTRAP_OPTIONS, *packages)).encode()).hexdigest()[:16]
    return f"{REFERENCE_PREFIX}/root:{key}"
