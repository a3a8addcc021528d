"""User programs of the kernel's NFS server and client: the machine's own, else Debian's, unpacked and not installed.

An installed nfs-kernel-server would start on the machine; the tests start their own in namespaces.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from devcluster.machine.bootstrap import cache_folder, run_logged
from devcluster.machine.progress import Step

PACKAGES = (
    "nfs-kernel-server", "nfs-common", "rpcbind", "keyutils", "kmod", "libkmod2", "libtirpc3", "libtirpc-common",
    "libnfsidmap1", "libevent-core-2.1-7", "libwrap0",
)  # fmt: skip


def folder() -> Path | None:
    """Return the folder into which they are unpacked; None if the machine has them installed."""
    if shutil.which("rpc.nfsd") and shutil.which("mount.nfs4"):
        return None
    return cache_folder() / "vm" / "nfs-tools"


def unpack() -> None:
    """Unpack them into the cache unless the machine or the cache has them."""
    target = folder()
    if target is None or target.exists():
        return
    log = cache_folder() / "log" / "vm-nfs-tools.log"
    unfinished = target.with_suffix(".part")
    shutil.rmtree(unfinished, ignore_errors=True)
    packages = unfinished / "packages"
    packages.mkdir(parents=True)
    with Step("NFS programs for the tests"):
        run_logged(["apt-get", "-o", "APT::Sandbox::User=root", "download", *PACKAGES], log, folder=packages)
        for package in packages.glob("*.deb"):
            run_logged(["dpkg-deb", "-x", str(package), str(unfinished)], log, append=True)
        shutil.rmtree(packages)
        unfinished.rename(target)
