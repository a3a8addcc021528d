"""Entries of a built image, and its root in a folder."""

from __future__ import annotations

import json
import shutil
import tarfile
from collections.abc import Iterator
from pathlib import Path

from devcluster.images import images
from devcluster.machine.bootstrap import cache_folder


def entries(name: str) -> Iterator[tuple[tarfile.TarFile, tarfile.TarInfo]]:
    """Yield each entry of an image with its layer, the lowest first; the image is built if its inputs changed.

    Args:
        name: Name of the image, such as slurm.
    """
    archive = images.build_all(cache_folder(), [name])[name].archive
    with tarfile.open(archive) as whole:
        listed = whole.extractfile("manifest.json")
        assert listed is not None, f"{archive} has no manifest"
        (manifest,) = json.load(listed)
        for layer in manifest["Layers"]:
            with tarfile.open(fileobj=whole.extractfile(layer)) as part:
                for entry in part:
                    yield part, entry


def unpack_image(folder: Path, name: str = "slurm") -> Path:
    """Return the folder with an image's root, as a container runtime would unpack it."""
    folder.chmod(0o755)
    for layer, entry in entries(name):
        _extract(layer, entry, folder)
    return folder


def _extract(layer: tarfile.TarFile, member: tarfile.TarInfo, folder: Path) -> None:
    """Put an entry of a layer over those below it; a name with .wh. takes something away (OCI image-spec)."""
    target = folder / member.name
    hidden = target.with_name(target.name.removeprefix(".wh."))
    if hidden.is_dir() and not hidden.is_symlink() and not member.isdir():
        shutil.rmtree(hidden)
    elif hidden != target:
        hidden.unlink(missing_ok=True)
    if hidden == target:
        layer.extract(member, folder, filter="fully_trusted")
