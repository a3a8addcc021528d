"""An image's root in a folder, as a container runtime would unpack it."""

from __future__ import annotations

import shutil
import tarfile
from pathlib import Path

from devcluster.images import layers


def unpack_image(folder: Path, name: str = "slurm") -> Path:
    """The root of the image of that name in a folder, built first if its inputs changed."""
    folder.chmod(0o755)
    for layer, entry in layers.entries(name):
        _extract(layer, entry, folder)
    return folder


def _extract(layer: tarfile.TarFile, member: tarfile.TarInfo, folder: Path) -> None:
    """One entry of a layer over those below it; a name that begins with .wh. takes something away (OCI image-spec)."""
    target = folder / member.name
    hidden = target.with_name(target.name.removeprefix(".wh."))
    if hidden.is_dir() and not hidden.is_symlink() and not member.isdir():
        shutil.rmtree(hidden)
    elif hidden != target:
        hidden.unlink(missing_ok=True)
    if hidden == target:
        layer.extract(member, folder, filter="fully_trusted")
