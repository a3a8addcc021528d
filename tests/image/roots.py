"""Roots that are no Debian of the image's suite: one with an older glibc, one with none at all.

`python -m tests.image.roots NAME...` puts those into the build cache, for a guest, which has no network.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tempfile
from pathlib import Path

from devcluster.images.image_builder import apt_mirror
from devcluster.images.image_recipe import MMDEBSTRAP_OPTIONS
from devcluster.machine.bootstrap import cache_folder

OPTIONS = tuple(option for option in MMDEBSTRAP_OPTIONS if not option.startswith("--variant"))
SUITE = "bookworm"
UNREAD = ("doc", "info", "lintian", "locale", "man")
"""Below /usr/share: a third of the files of a root, which a guest copies slowly."""
PACKAGES = {
    "bookworm": ("--variant=essential", "--include=libc-bin,openssh-client,rsync"),
    "mpich": ("--variant=essential", "--include=libc-bin,mpich,crun,python3,mount,sudo"),
    "jail": (
        "--variant=essential",
        "--include=libc-bin,crun,mount,numactl,passwd,python3,sudo",
        *(f"--dpkgopt=path-exclude=/usr/share/{folder}/*" for folder in UNREAD),
    ),
    "tools": (
        "--variant=essential",
        "--include=libc-bin,fio,iperf3",
        *(f"--dpkgopt=path-exclude=/usr/share/{folder}/*" for folder in UNREAD),
    ),
    "directory": ("--variant=essential", "--include=slapd,ldap-utils"),
    "busybox": ("--variant=extract", "--include=busybox-static"),
}


def packed(name: str) -> Path:
    """Debian's part of the root of that name, in the build cache; it is made there first if it is missing."""
    options = PACKAGES[name]
    key = hashlib.sha256(" ".join((*OPTIONS, *options, SUITE)).encode()).hexdigest()[:16]
    archive = cache_folder() / f"test-root-{name}-{key}.tar"
    if not archive.exists():
        archive.parent.mkdir(parents=True, exist_ok=True)
        # A folder of its own: another checkout's tests may make the same one now.
        with tempfile.TemporaryDirectory(dir=archive.parent) as scratch:
            unfinished = Path(scratch) / "root.tar"
            _run("mmdebstrap", "--quiet", *OPTIONS, *options, SUITE, str(unfinished), apt_mirror())
            unfinished.rename(archive)
    return archive


def make(name: str, root: Path) -> Path:
    """Makes the root of that name, one of PACKAGES."""
    archive = packed(name)
    root.mkdir()
    _run("tar", "--numeric-owner", "-C", str(root), "-xpf", str(archive))
    if name == "busybox":
        _furnish(root)
    return root


def _furnish(root: Path) -> None:
    for folder in ("etc", "tmp", "root", "home"):
        (root / folder).mkdir(exist_ok=True)
    (root / "etc/passwd").write_text("root:x:0:0:root:/root:/bin/sh\n")
    (root / "etc/group").write_text("root:x:0:\n")
    _run("chroot", str(root), "/bin/busybox", "--install", "-s", "/bin")


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, f"{command[0]}: {done.stderr[-2000:]}"


if __name__ == "__main__":
    for wanted in sys.argv[1:]:
        packed(wanted)
