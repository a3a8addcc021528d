"""`make test-vm`: the tests of tests/vm on a kernel that has what they need: the machine's own, or the guest's."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from devcluster.images import images
from devcluster.machine.bootstrap import CHECKOUT, cache_folder
from devcluster.machine.progress import Step, StepFailed, say
from devcluster.vm import guest, kernel, nfs_tools, own_kernel

FOLDER = "tests/vm"
NFS = "tests/vm/nfs"
KUBELET = "tests/vm/kubelet"
"""Tests of the whole dev cluster in the guest. They run only by path, since its start alone takes ten minutes."""
FOR_A_KUBELET = guest.Size(memory_mib=9216, disk_gib=40, mappings=262_144)
"""The API server alone takes 400 MiB, in more than 65,530 mappings: Linux' default."""
ROOTS = ("bookworm", "mpich")
"""Roots of tests/image/roots.py that tests in the guest use."""
SECONDS = 2700.0
KUBELET_SECONDS = 7200.0
"""Clusters on a disk, on NFS, and with a worker that owns a CPU: half an hour each, and longer on a busy machine."""
INTERRUPT_GRACE_SECONDS = 90.0
"""Time for fixtures to clean up after their tests' deadline, and for pytest to write its report."""
START_SECONDS = 30.0
"""Most seconds that a guest takes before its tests begin."""
PASSED_ON = ("PULUMI_SLURM_SEED", "PULUMI_SLURM_WHOLE", "PULUMI_SLURM_PART")
"""Environment variables that are passed on to tests in the guest."""


def prepare(paths: Sequence[str] = ()) -> None:
    """Make images, roots and the kernel, which the guest cannot fetch without a network.

    Args:
        paths: of the tests; those below KUBELET have a jail image of their own.

    Raises:
        StepFailed: a part of it cannot be had here.
    """
    images.build_all(cache_folder())
    with Step("roots of the tests"):
        _make("tests.image.roots", *ROOTS)
        if not _only_named(paths):
            _make("tests.vm.kubelet.small_jail")
    nfs_tools.unpack()
    if own_kernel.lacking():
        kernel.build()


def _make(module: str, *names: str) -> None:
    making = [sys.executable, "-m", module, *names]
    done = subprocess.run(making, cwd=CHECKOUT, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise StepFailed(f"the roots of the tests could not be made: {done.stderr.strip().splitlines()[-1]}")


def command(paths: Sequence[str], report: Path, options: Sequence[str] = ()) -> list[str]:
    """Return the command line of a pytest run that an interrupt ends; a shell's background job would ignore one."""
    quiet = ["-q", "-rfE", "--color=no", "-p", "no:terminalprogress", "-p", "no:cacheprovider"]
    reported = [f"--junit-xml={report}", "-o", "junit_family=xunit1"]
    heeding = ["env", "--default-signal=INT"]
    return [*heeding, sys.executable, "-m", "pytest", *quiet, *reported, *options, *(paths or [FOLDER])]


def bounded(pytest: Sequence[str], seconds: float) -> list[str]:
    """A run of pytest that is interrupted after some seconds, so that the report names the tests that had ended."""
    # In the foreground: an interrupt of all that tests started would leave fixtures nothing to end in order.
    return ["timeout", "--foreground", "-s", "INT", "-k", str(INTERRUPT_GRACE_SECONDS), str(seconds), *pytest]


def _only_named(paths: Sequence[str]) -> list[str]:
    return [] if any(path.startswith(KUBELET) for path in paths) else [f"--ignore={KUBELET}"]


def environment() -> dict[str, str]:
    """Return the environment of programs in a guest. The caches have the machine's paths, read-only."""
    return {
        "PULUMI_SLURM_CACHE": str(cache_folder()),
        "PULUMI_SLURM_NFS_TOOLS": str(nfs_tools.folder() or ""),
        "PYTHONDONTWRITEBYTECODE": "1",
        **{name: os.environ[name] for name in PASSED_ON if name in os.environ},
    }


def run(paths: Sequence[str], report: Path, seconds: float | None = None) -> int:
    """Run tests of tests/vm and return pytest's exit status.

    Args:
        paths: below tests/vm.
        report: pytest's JUnit report goes there.
        seconds: after which they are interrupted, and 124 is returned; left out, what these tests take at most.

    Raises:
        StepFailed: the guest could not be started.
    """
    if FOLDER in (path.rstrip("/") for path in paths or [FOLDER]):
        say(f"  left out: {KUBELET}, which takes half an hour: make test-vm TESTS={KUBELET}")
    missing = own_kernel.lacking()
    seconds = seconds or (SECONDS if _only_named(paths) else KUBELET_SECONDS)
    if not missing:
        say("tests of cgroup v2 and NFS: on this machine's own kernel")
        return _run_here(command(paths, report, _only_named(paths)), seconds)
    say(f"tests of cgroup v2 and NFS: in a guest, since this machine's kernel lacks {', '.join(missing)}")
    with guest.shared_folder() as folder:
        inside = folder / "report.xml"
        pytest = command(paths, inside, [f"--basetemp={guest.SCRATCH}/pytest", *_only_named(paths)])
        status = guest.run(
            bounded(pytest, seconds), folder, directory=CHECKOUT, environment=environment(),
            seconds=START_SECONDS + seconds + INTERRUPT_GRACE_SECONDS,
            size=None if _only_named(paths) else FOR_A_KUBELET,
        )  # fmt: skip
        if inside.exists():
            shutil.copy(inside, report)
    return status


def place() -> str:
    """Return in words on which kernel `run` has the tests: this machine's own, or a guest's."""
    return "in a guest" if own_kernel.lacking() else "on this machine's own kernel"


def halves() -> tuple[list[str], list[str]]:
    """Return the files of tests/vm that need NFS, and all others: about as many minutes each."""
    files = sorted(str(path.relative_to(CHECKOUT)) for path in (CHECKOUT / FOLDER).glob("**/test_*.py"))
    nfs = [path for path in files if path.startswith(f"{NFS}/")]
    return nfs, [path for path in files if not path.startswith((f"{NFS}/", f"{KUBELET}/"))]


def take_two_guests() -> bool:
    """Return whether the tests need a guest, and the machine has two processors and room for two guests at once.

    A guest's tests leave half of two processors idle.
    """
    return bool(own_kernel.lacking()) and (os.cpu_count() or 1) > 1 and guest.has_room(2)


def _run_here(pytest: Sequence[str], seconds: float) -> int:
    environment = {**os.environ, "PULUMI_SLURM_NFS_TOOLS": str(nfs_tools.folder() or "")}
    process = subprocess.Popen(pytest, cwd=CHECKOUT, env=environment)
    try:
        return process.wait(seconds)
    except subprocess.TimeoutExpired:
        return guest.TIMED_OUT
    finally:
        _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Interrupt pytest if it runs: without a guest, nothing else ends what its fixtures mounted and started."""
    if process.poll() is not None:
        return
    process.send_signal(signal.SIGINT)
    try:
        process.wait(INTERRUPT_GRACE_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
