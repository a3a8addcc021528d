"""Roots that are no Debian of the image's suite: one with an older glibc, one with none at all."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tempfile
from pathlib import Path

from devcluster.bootstrap import cache_folder
from devcluster.image_builder import apt_mirror
from devcluster.image_recipe import MMDEBSTRAP_OPTIONS

OPTIONS = tuple(option for option in MMDEBSTRAP_OPTIONS if not option.startswith("--variant"))
SUITE = "bookworm"
PACKAGES = {
    "bookworm": ("--variant=essential", "--include=libc-bin,openssh-client,rsync"),
    "mpich": ("--variant=essential", "--include=libc-bin,mpich,crun,python3,mount"),
    "directory": ("--variant=essential", "--include=slapd,ldap-utils"),
    "busybox": ("--variant=extract", "--include=busybox-static"),
}


def make(name: str, root: Path) -> Path:
    """Makes the root of that name."""
    root.mkdir()
    _run("tar", "--numeric-owner", "-C", str(root), "-xpf", str(archive(name)))
    if name == "busybox":
        _furnish(root)
    return root


def archive(name: str) -> Path:
    """Returns Debian's part of a root, from the build cache, or makes it, for which it takes packages."""
    options = PACKAGES[name]
    key = hashlib.sha256(" ".join((*OPTIONS, *options, SUITE)).encode()).hexdigest()[:16]
    made = cache_folder() / f"test-root-{name}-{key}.tar"
    if not made.exists():
        made.parent.mkdir(parents=True, exist_ok=True)
        # A folder of its own: another checkout's tests may make the same one now.
        with tempfile.TemporaryDirectory(dir=made.parent) as scratch:
            unfinished = Path(scratch) / "root.tar"
            _run("mmdebstrap", "--quiet", *OPTIONS, *options, SUITE, str(unfinished), apt_mirror())
            unfinished.rename(made)
    return made


def _furnish(root: Path) -> None:
    for folder in ("etc", "tmp", "root", "home"):
        (root / folder).mkdir(exist_ok=True)
    (root / "etc/passwd").write_text("root:x:0:0:root:/root:/bin/sh\n")
    (root / "etc/group").write_text("root:x:0:\n")
    _run("chroot", str(root), "/bin/busybox", "--install", "-s", "/bin")


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, f"{command[0]}: {done.stderr[-2000:]}"


if __name__ == "__main__":  # What a guest without a network finds in the cache (devcluster/vm/tests.py).
    for each in sys.argv[1:]:
        archive(each)
