"""Promises of `make test` without a guest's kernel in the cache: it is built on idle cores, and its failure shows."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from devcluster.images.images import ImageError
from devcluster.machine import progress
from devcluster.machine.bootstrap import CHECKOUT
from devcluster.suite import early_kernel, testing
from devcluster.suite.early_kernel import KernelBuild
from devcluster.suite.lanes import INTERRUPTED
from devcluster.suite.phases import (
    A_JOBS_LIFE_ON_V2,
    BESIDE_CLUSTERS,
    DEV_CLUSTER,
    LATER_IMAGE,
    THE_GUEST_ITSELF,
    WITH_CLUSTERS,
    Phase,
)
from devcluster.vm import kernel, own_kernel
from devcluster.vm import tests as vm_tests

GUESTS = (A_JOBS_LIFE_ON_V2, THE_GUEST_ITSELF)
ALL = sorted(phase.name for phase in (*WITH_CLUSTERS, *BESIDE_CLUSTERS, *LATER_IMAGE))


@pytest.fixture
def phases(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the phases that a run comes to, in place of their tests."""
    begun: list[str] = []

    def phase(_: testing.Tally, phase: Phase, *__: object) -> int:
        begun.append(phase.name)
        return 0

    monkeypatch.setattr(testing, "_phase", phase)
    return begun


@pytest.fixture
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A folder that holds `kernel` once a played build is through; this machine needs a guest."""
    monkeypatch.setattr(kernel, "is_built", (tmp_path / "kernel").exists)
    monkeypatch.setattr(vm_tests, "prepare", lambda *_: None)
    monkeypatch.setattr(own_kernel, "lacking", lambda: ["cgroup v2"])
    return tmp_path


def play(monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """Have a shell script be the kernel's build."""
    monkeypatch.setattr(early_kernel, "COMMAND", ["sh", "-ec", script])


def after(minutes: float) -> testing.Tally:
    return testing.Tally(began=time.monotonic() - minutes * 60)


def test_with_a_kernel_in_the_cache_its_tests_run_beside_e2e(phases: list[str], cache: Path) -> None:
    (cache / "kernel").touch()
    tally = after(0)
    with early_kernel.built_beside(tally) as building:
        assert testing._everything(tally, cache, building) == 0
    assert sorted(phases) == ALL
    assert phases.index(A_JOBS_LIFE_ON_V2.name) < phases.index(DEV_CLUSTER.name)
    assert early_kernel.PART not in tally.parts


def test_tests_of_the_guest_wait_for_a_kernel_that_is_built_beside_all_others(
    phases: list[str], cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The build ends after the last phase of its lane. It would wait forever for a phase that waits for it.
    pipe = cache / "pipe"
    os.mkfifo(pipe)
    play(monkeypatch, f"read word < {pipe}; touch {cache}/kernel")
    played = testing._phase

    def phase(tally: testing.Tally, phase: Phase, *others: Path) -> int:
        if phase is DEV_CLUSTER:
            pipe.write_text("go on\n")
        assert phase not in GUESTS or kernel.is_built()
        return played(tally, phase, *others)

    monkeypatch.setattr(testing, "_phase", phase)
    tally = after(0)
    with early_kernel.built_beside(tally) as building:
        assert testing._everything(tally, cache, building) == 0
    assert sorted(phases) == ALL
    assert phases.index(DEV_CLUSTER.name) < phases.index(A_JOBS_LIFE_ON_V2.name)
    assert tally.parts[early_kernel.PART].minutes > 0
    assert tally.parts[testing.KERNEL].minutes < tally.parts[early_kernel.PART].minutes, "a wait counts once"


def test_a_kernel_that_is_not_there_in_time_ends_and_the_run_says_what_it_leaves_out(
    phases: list[str], cache: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    play(monkeypatch, "exec sleep 600")
    tally = after(testing.WITHOUT_KERNEL_MINUTES + 1)
    with early_kernel.built_beside(tally) as building:
        assert testing._with_cgroup_v2(tally, cache, building) == 0
    said = capsys.readouterr().err
    assert "left out after 66 minutes, run make test-vm: a job's life on cgroup v2" in said
    assert "tests/devcluster/vm/test_guest.py" in said
    assert phases == []


def test_a_kernel_that_cannot_be_built_fails_the_run_in_its_words_and_all_other_tests_run(
    phases: list[str], cache: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    play(monkeypatch, "echo error: the played compiler has no memory; exit 1")
    tally = after(0)
    with early_kernel.built_beside(tally) as building:
        assert testing._everything(tally, cache, building) == 1
    told = capsys.readouterr()
    assert "error: the played compiler has no memory" in told.out
    assert "failed, since the guest's kernel could not be built" in told.err
    assert sorted([*phases, *(phase.name for phase in GUESTS)]) == ALL


@pytest.fixture
def interruptible() -> Iterator[None]:
    """In the background of a shell script, programs begin without SIGINT, and no shell could trap it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
def test_an_interrupt_of_the_run_ends_the_build(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pipe = cache / "pipe"
    os.mkfifo(pipe)
    play(monkeypatch, f'sleep 600 & trap "kill $!; touch {cache}/ended; exit 130" INT; echo began > {pipe}; wait')
    with pytest.raises(KeyboardInterrupt), early_kernel.built_beside(after(0)):
        assert pipe.read_text() == "began\n"
        raise KeyboardInterrupt
    assert (cache / "ended").exists()


def test_a_machine_that_needs_no_guest_says_that_the_guests_own_tests_are_left_out(
    phases: list[str], cache: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(own_kernel, "lacking", list)
    tally = after(testing.WITHOUT_KERNEL_MINUTES + 1)
    with early_kernel.built_beside(tally) as building:
        assert building == KernelBuild()
        assert testing._with_cgroup_v2(tally, cache, building) == 0
    assert phases == [A_JOBS_LIFE_ON_V2.name]
    assert "left out, since this machine needs no guest: tests/devcluster/vm/test_guest.py" in capsys.readouterr().err


BUILDS = """
import os, subprocess, sys
from devcluster.suite import early_kernel

def build():
    session = open("/proc/self/autogroup").read() if os.path.exists("/proc/self/autogroup") else ""
    print(os.getsid(0) == os.getpid(), session.split()[1:], flush=True)
    script = "import os; print(os.sched_getscheduler(0) == os.SCHED_IDLE, flush=True)"
    subprocess.run([sys.executable, "-S", "-c", script])
    subprocess.run(["sh", "-c", "(echo begun; cat); :"])

early_kernel.kernel.build = build
sys.exit(early_kernel.main())
"""


def test_all_programs_of_the_build_take_idle_cores_only_and_end_by_an_interrupt_in_the_background() -> None:
    background = ["env", "--ignore-signal=INT"]
    reading, writing = os.pipe()
    with (
        os.fdopen(reading) as nothing,
        os.fdopen(writing, "w"),
        subprocess.Popen(
            [*background, sys.executable, "-c", BUILDS], cwd=CHECKOUT, stdin=nothing, stdout=subprocess.PIPE, text=True
        ) as child,
    ):
        assert child.stdout
        assert child.stdout.readline() in ("True ['nice', '19']\n", "True []\n")
        assert child.stdout.readline() == "True\n"
        assert child.stdout.readline() == "begun\n"
        child.send_signal(signal.SIGINT)
        child.communicate(timeout=60)  # Its output ends with the last of its programs.
        assert child.returncode == INTERRUPTED


def test_a_machine_that_names_no_archive_is_told_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def build() -> None:
        raise ImageError("no package mirror")

    monkeypatch.setattr(kernel, "build", build)
    monkeypatch.setattr(early_kernel, "take_only_idle_cores", lambda: None)
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    monkeypatch.setattr(progress, "HEARTBEAT_SECONDS", progress.HEARTBEAT_SECONDS)
    with pytest.raises(SystemExit, match="1"):
        early_kernel.main()
    assert "error: no package mirror" in capsys.readouterr().err
