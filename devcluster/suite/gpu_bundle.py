"""Makes an archive for the tests of tests/gpu on a machine with GPUs and without network."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

from devcluster.images import layers
from devcluster.machine.bootstrap import CHECKOUT
from devcluster.machine.progress import Step, say
from devcluster.suite import gpu

PACKAGES = ("pytest", "_pytest", "py", "pluggy", "iniconfig", "packaging", "pygments", "pynvml")
"""pytest and what it imports, and NVIDIA's binding of NVML: Python alone, for any machine."""


UNREAD = ("doc", "info", "lintian", "locale", "man")
"""Below /usr/share of the image: a fifth of its files, which no test reads."""


def write(bundle: Path) -> None:
    """Write the archive, compressed by xz."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        make(Path(folder))
        with Step("a bundle, in about two minutes"), tarfile.open(bundle, "w:xz", preset=6) as packed:
            for name in gpu.SOURCES:
                packed.add(CHECKOUT / name, name, filter=_plain)
            for name in PACKAGES:
                package = _package(name)
                packed.add(package, f"packages/{package.name}", filter=_plain)
            packed.add(Path(folder) / gpu.RENDERED, gpu.RENDERED, filter=_plain)
            packed.add(Path(folder) / gpu.IMAGE, gpu.IMAGE, filter=_source)
    say(f"wrote {bundle}: {bundle.stat().st_size / 2**20:.1f} MiB")


def make(folder: Path) -> None:
    """Write to a folder what the tests need besides the checkout: the slurm image's root, and a configuration."""
    image = folder / gpu.IMAGE
    image.mkdir()
    layers.unpack_image(image)
    for name in UNREAD:
        shutil.rmtree(image / "usr/share" / name)
    # Of the tests' own modules, which this package must not import.
    command = [sys.executable, "-m", "tests.gpu.rendered", str(folder / gpu.RENDERED)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(str(CHECKOUT / path) for path in gpu.IMPORTED_FROM)}
    subprocess.run(command, cwd=CHECKOUT, env=environment, timeout=gpu.SECONDS, check=True)


def _package(name: str) -> Path:
    spec = importlib.util.find_spec(name)
    assert spec is not None, name
    assert spec.origin is not None, name
    return Path(spec.origin).parent if spec.submodule_search_locations else Path(spec.origin)


def _source(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    """Leaves out what Python compiled."""
    return None if "__pycache__" in member.name else member


def _plain(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    """The same, and root is the owner."""
    if _source(member) is None:
        return None
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member
