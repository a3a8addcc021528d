"""`make test-vm`: the tests of tests/vm on a kernel that has what they need: the machine's own, or the guest's."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from devcluster import images
from devcluster.bootstrap import CHECKOUT, cache_folder, run_logged
from devcluster.progress import Step, say
from devcluster.vm import guest, kernel, nfs_tools

FOLDER = "tests/vm"
KUBELET = "tests/vm/kubelet"
"""The whole dev cluster in the guest: only when its path is given, since its start alone takes ten minutes."""
FOR_A_KUBELET = guest.Size(memory_mib=9216, disk_gib=40)
CONTROLLERS = frozenset({"cpuset", "cpu", "memory", "pids", "io"})
HIERARCHY = Path("/sys/fs/cgroup")
SECONDS = 2700.0
ROOTS = ("bookworm", "mpich")
"""Of tests/image/roots.py, which tests/vm uses."""
PASSED_ON = ("PULUMI_SLURM_SEED", "PULUMI_SLURM_WHOLE")
"""Variables of whoever starts tests that a test in the guest reads."""


def lacking(hierarchy: Path = HIERARCHY, file_systems: Path = Path("/proc/filesystems")) -> list[str]:
    """What this machine's kernel lacks of what the tests need; empty where they run without a guest."""
    listed = hierarchy / "cgroup.controllers"
    controllers = set(listed.read_text().split()) if listed.exists() else set()
    known = {line.split()[-1] for line in file_systems.read_text().splitlines()}
    without = sorted(CONTROLLERS - controllers)
    away = [name for name in ("nfs", "nfs4", "nfsd") if name not in known]
    return [
        *([f"cgroup v2 with the controllers {', '.join(without)}"] if without else []),
        *([f"the file systems {', '.join(away)}"] if away else []),
    ]


def prepare() -> None:
    """Make what the guest cannot fetch, since it has no network: images, the tests' roots and the kernel."""
    images.build_all(cache_folder())
    nfs_tools.unpack()
    with Step("roots of the tests"):
        make = [sys.executable, "-m", "tests.image.roots", *ROOTS]
        run_logged(make, cache_folder() / "log" / "vm-roots.log", folder=CHECKOUT)
    if lacking():
        kernel.build()


def command(paths: Sequence[str], report: Path, options: Sequence[str] = ()) -> list[str]:
    """The pytest run of some of the tests."""
    quiet = ["-q", "-rfE", "--color=no", "-p", "no:terminalprogress", "-p", "no:cacheprovider"]
    reported = [f"--junit-xml={report}", "-o", "junit_family=xunit1"]
    return [sys.executable, "-m", "pytest", *quiet, *reported, *options, *(paths or [FOLDER])]


def _only_named(paths: Sequence[str]) -> list[str]:
    return [] if any(path.startswith(KUBELET) for path in paths) else [f"--ignore={KUBELET}"]


def environment() -> dict[str, str]:
    """What programs in a guest are told: the caches lie where they do on the machine, and nothing is written there."""
    return {
        "PULUMI_SLURM_CACHE": str(cache_folder()),
        "PULUMI_SLURM_NFS_TOOLS": str(nfs_tools.folder() or ""),
        "PYTHONDONTWRITEBYTECODE": "1",
        **{name: os.environ[name] for name in PASSED_ON if name in os.environ},
    }


def run(paths: Sequence[str], report: Path, seconds: float = SECONDS) -> int:
    """Run tests of tests/vm and return pytest's exit status, 124 if they took too long; `report` is pytest's JUnit one.

    Raises:
        StepFailed: the guest could not be started.
    """
    missing = lacking()
    if not missing:
        say("tests of cgroup v2 and NFS: on this machine's own kernel")
        own = {**os.environ, "PULUMI_SLURM_NFS_TOOLS": str(nfs_tools.folder() or "")}
        try:
            return subprocess.run(
                command(paths, report, _only_named(paths)), cwd=CHECKOUT, env=own, timeout=seconds, check=False
            ).returncode
        except subprocess.TimeoutExpired:
            return guest.TIMED_OUT
    say(f"tests of cgroup v2 and NFS: in a guest, since this machine's kernel lacks {', '.join(missing)}")
    with guest.shared_folder() as folder:
        inside = folder / "report.xml"
        status = guest.run(
            command(paths, inside, [f"--basetemp={guest.SCRATCH}/pytest", *_only_named(paths)]),
            folder, directory=CHECKOUT, environment=environment(), seconds=seconds,
            size=None if _only_named(paths) else FOR_A_KUBELET,
        )  # fmt: skip
        if inside.exists():
            shutil.copy(inside, report)
    return status
