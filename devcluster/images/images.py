"""Builds the container images, with no registry needed, and only when their inputs changed."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from devcluster.images.image_builder import Builder, run_step
from devcluster.images.image_recipe import NAMES, ImageError, Recipe, read_recipe, root_reference
from devcluster.machine.lock import locked

__all__ = ["NAMES", "Image", "ImageError", "build_all", "planned", "push"]

ARCHIVES_KEPT = 3
USED_SECONDS = 7200.0
"""An archive that was used so lately stays: a run of tests may yet load it, in a guest that cannot build it again."""


@dataclass(frozen=True, slots=True)
class Image:
    """A built image: how Kubernetes names it, and the docker-archive to import."""

    reference: str
    archive: Path


def build_all(cache: Path, names: Iterable[str] = NAMES) -> dict[str, Image]:
    """Builds the images whose inputs changed since the archives in the cache were made.

    Args:
        cache: folder that outlives the checkout; archives lie in its ``images`` folder.
        names: which images; all by default.

    Returns:
        name → image, each with an archive that exists.

    Raises:
        ImageError: a build failed; the text names its log.
    """
    folder = cache / "images"
    (folder / "logs").mkdir(parents=True, exist_ok=True)
    images = planned(cache, names)
    # Existing archives need not wait for another checkout's build.
    if not all(image.archive.exists() for image in images.values()):
        with locked(folder / ".lock", "images: waiting for another build in the same cache"):
            return {name: _build(read_recipe(name), Builder(folder)) for name in images}
    return images


def planned(cache: Path, names: Iterable[str] = NAMES) -> dict[str, Image]:
    """Return the images of this checkout, with or without an archive. Nothing is built."""
    return {name: _image(read_recipe(name), cache / "images") for name in names}


def push(registry: str, images: Mapping[str, Image]) -> dict[str, str]:
    """Copies built images to a registry.

    Args:
        registry: host and path, for instance ``registry.example.org/hpc``; skopeo's own login is used.
        images: what build_all returned.

    Returns:
        name → reference in the registry.
    """
    pushed: dict[str, str] = {}
    for name, image in images.items():
        target = f"{registry.rstrip('/')}/{name}:{image.reference.rpartition(':')[2]}"
        log = image.archive.parent / "logs" / f"{name}-push.log"
        copy = ["skopeo", "copy", f"docker-archive:{image.archive}", f"docker://{target}"]
        run_step(copy, log, f"pushing {target}")
        pushed[name] = target
    return pushed


def _image(recipe: Recipe, folder: Path) -> Image:
    return Image(recipe.reference, folder / f"{recipe.name}-{recipe.tag}.tar")


def _build(recipe: Recipe, builder: Builder) -> Image:
    image = _image(recipe, builder.folder)
    if image.archive.exists():
        with suppress(OSError):  # A guest sees the cache read-only.
            os.utime(image.archive)
        return image
    started = time.monotonic()
    builder.build(recipe, image.archive)
    _prune(builder.folder, recipe.name)
    builder.remove_roots_but(
        {
            root_reference(recipe.suite, packages)
            for recipe in map(read_recipe, NAMES)
            for packages in recipe.package_lists.values()
        }
    )
    print(f"images: {recipe.reference} built in {time.monotonic() - started:.0f} s", flush=True)
    return image


def _prune(folder: Path, name: str) -> None:
    archives = sorted(folder.glob(f"{name}-*.tar"), key=lambda path: path.stat().st_mtime, reverse=True)
    for old in archives[ARCHIVES_KEPT:]:
        if time.time() - old.stat().st_mtime > USED_SECONDS:
            old.unlink()
