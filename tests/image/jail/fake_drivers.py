"""Fake drivers of two nodes, brought into pods as the container toolkit does it: each file by a mount of its own."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from slurm_node.jail import driver

from tests.image.pods import SECOND, WORKER

DRIVERS = {WORKER: "570.86.15", SECOND: "535.230.02"}
LIBRARIES = Path(driver.library_folders()[0])


def compile_c(source: str, *options: str) -> None:
    subprocess.run(["gcc", "-x", "c", "-", *options], input=source, text=True, check=True, timeout=60)


def make_driver(folder: Path, version: str) -> list[str]:
    """A driver's libraries, and their names."""
    folder.mkdir(parents=True, exist_ok=True)
    source = f"int cuInit(unsigned f) {{ return f; }} int version(void) {{ return {version.partition('.')[0]}; }}"
    for name in ("libcuda", "libnvidia-ml"):
        compile_c(source, "-shared", "-fPIC", f"-Wl,-soname,{name}.so.1", "-o", str(folder / f"{name}.so.{version}"))
    return [file.name for file in folder.iterdir()]


@contextmanager
def driver_files(image: Path) -> Iterator[Callable[[Path], None]]:
    """Yield a function that makes the drivers in a cluster's folder, and their mount points in the image.

    A runtime makes the points in the pod's own layer; here the image is below all pods. They go with the context.
    """
    points: list[Path] = []

    def make(folder: Path) -> None:
        for version in DRIVERS.values():
            points.extend(image / LIBRARIES / name for name in make_driver(folder / f"keys/driver-{version}", version))
        for point in points:
            point.touch()

    try:
        yield make
    finally:
        for point in points:
            point.unlink(missing_ok=True)


def bring(node: str) -> str:
    """Shell that brings a node's driver into its pod."""
    folder = f"/run/secrets/slurm/driver-{DRIVERS[node]}"
    return f"for file in {folder}/*; do mount --bind $file /{LIBRARIES}/${{file##*/}}; done; "
