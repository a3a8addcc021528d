"""Makes an archive for the tests of tests/gpu on a machine with GPUs and without network."""

from __future__ import annotations

import importlib.util
import tarfile
from pathlib import Path

from devcluster.images import layers
from devcluster.machine.bootstrap import CHECKOUT
from devcluster.machine.progress import say
from devcluster.suite import gpu

PACKAGES = ("pytest", "_pytest", "py", "pluggy", "iniconfig", "packaging", "pygments")
"""pytest and what it imports: Python alone, for any machine."""


def write(bundle: Path) -> None:
    """Write the archive, compressed by xz."""
    with tarfile.open(bundle, "w:xz", preset=6) as packed:
        for name in gpu.SOURCES:
            packed.add(CHECKOUT / name, name, filter=_plain)
        for name in PACKAGES:
            package = _package(name)
            packed.add(package, f"packages/{package.name}", filter=_plain)
        _copy_prefix(packed)
    say(f"wrote {bundle}: {bundle.stat().st_size / 2**20:.1f} MiB")


def unpack_prefix(folder: Path) -> Path:
    """Return the slurm image's /opt/slurm below a folder."""
    archive = folder / "prefix.tar"
    with tarfile.open(archive, "w") as packed:
        _copy_prefix(packed)
    with tarfile.open(archive) as packed:
        packed.extractall(folder, filter="tar")
    archive.unlink()
    return folder / gpu.PREFIX


def _copy_prefix(packed: tarfile.TarFile) -> None:
    """Add the image's prefix; it lies in one layer (images/slurm/Containerfile)."""
    for layer, member in layers.entries("slurm"):
        if member.name == gpu.PREFIX or member.name.startswith(f"{gpu.PREFIX}/"):
            packed.addfile(member, layer.extractfile(member) if member.isreg() else None)


def _package(name: str) -> Path:
    spec = importlib.util.find_spec(name)
    assert spec is not None, name
    assert spec.origin is not None, name
    return Path(spec.origin).parent if spec.submodule_search_locations else Path(spec.origin)


def _plain(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    """Leaves out compiled files, and makes root the owner."""
    if "__pycache__" in member.name:
        return None
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member
