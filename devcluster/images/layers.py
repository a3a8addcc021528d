"""Entries of a built image."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Iterator

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
