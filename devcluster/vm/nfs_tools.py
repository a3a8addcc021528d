"""User programs of the kernel's NFS server and client: the machine's own, else Debian's, unpacked and not installed.

An installed nfs-kernel-server would start on the machine; the tests start their own in namespaces.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from devcluster.machine.bootstrap import cache_folder, run_logged
from devcluster.machine.progress import Step, StepFailed
from devcluster.vm.kernel import locked_cache

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
    """Unpack them into the cache unless the machine or the cache has them. Several processes may call it at once.

    Raises:
        StepFailed: apt has no such packages, or they could not be unpacked.
    """
    target = folder()
    if target is None:
        return
    with locked_cache():
        if not target.exists():
            _unpack(target, cache_folder() / "log" / "vm-nfs-tools.log")


def _unpack(target: Path, log: Path) -> None:
    unfinished = target.with_suffix(".part")
    shutil.rmtree(unfinished, ignore_errors=True)
    packages = unfinished / "packages"
    packages.mkdir(parents=True)
    with Step("NFS programs for the tests"):
        _download(packages, log)
        for package in packages.glob("*.deb"):
            run_logged(["dpkg-deb", "-x", str(package), str(unfinished)], log, append=True)
        shutil.rmtree(packages)
        unfinished.rename(target)


def _download(packages: Path, log: Path) -> None:
    try:
        run_logged(["apt-get", "-o", "APT::Sandbox::User=root", "download", *PACKAGES], log, folder=packages)
    except (StepFailed, FileNotFoundError) as error:
        raise StepFailed(
            "apt-get could not download the NFS programs of the tests: give apt a mirror that has them, or install "
            "nfs-kernel-server and nfs-common",
            log,
        ) from error
