"""`make test`: every test in phases, each with its time; nothing is left running, however it ends."""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from devcluster.images import images
from devcluster.machine import lock
from devcluster.machine.bootstrap import CHECKOUT, cache_folder
from devcluster.machine.progress import StepFailed, say
from devcluster.node import node_cli, toolchain
from devcluster.suite import early_kernel, memory_files
from devcluster.suite.lanes import INTERRUPTED, Programs, side_by_side
from devcluster.suite.phases import (
    A_JOBS_LIFE_ON_V2,
    ALL_ON_V2,
    DEV_CLUSTER,
    LATER_IMAGE,
    OPERATOR,
    PHASES,
    THE_GUEST_ITSELF,
    UNIT_AND_NATIVE,
    WITH_CLUSTERS,
    Phase,
)
from devcluster.suite.tally import KEPT, SHOWN, Tally, Test, Watch, join_reports
from devcluster.vm import kernel
from devcluster.vm import tests as vm_tests

CHOSEN_ON_V2 = "chosen tests"
KERNEL = "kernel and roots"
"""Roots of jails for tests/vm, and a guest's kernel unless it is there or this machine's own one will do."""
Result = TypeVar("Result")
BUILD_BUDGET_MINUTES = {"toolchain": 15, "images": 12, KERNEL: 15}
WITHOUT_KERNEL_MINUTES = 65.0
"""After so many minutes no test waits for the guest's kernel any longer: CI ends a run after 90."""
PYTEST_FAILED = 1
PYTEST_NO_TESTS = 5
ALL_MINUTES = 33
"""Budget of all tests. With `make check` and the Python packages it makes 35 minutes of CI."""
PATIENCE = 5
"""Niceness of patient phases, a third of the weight: an instance's group has that of a few processes (cgroups.py)."""
REPORTS = "build/tests"
"""Where the JUnit reports of a run stay."""
SLOWEST = "slowest.txt"
"""The report beside them: the slowest tests of a run, and what the cores did meanwhile."""
LOCK = "build/test.lock"
"""A run holds it: all runs of a checkout have instances of the same names."""
_PROGRAMS = Programs()


def test_instance_name() -> str:
    """Name of this checkout's test instance: never the one of `make up`, never another checkout's."""
    return f"test-{hashlib.sha256(str(CHECKOUT).encode()).hexdigest()[:6]}"


def run(paths: list[str]) -> int:
    """Run the tests and return 0 only if all passed. `paths` narrows them down.

    Raises:
        StepFailed: Another process runs tests of this checkout.
    """
    try:
        with lock.held_alone(CHECKOUT / LOCK):
            return _run(paths)
    except lock.HeldError as held:
        raise StepFailed(
            f"process {held.pid} runs tests of this checkout, on the same instances: wait for its end, or end it by "
            f"`kill {held.pid}`"
        ) from None


def _run(paths: list[str]) -> int:
    tally = Tally()
    status = 0
    if not paths:
        shutil.rmtree(CHECKOUT / REPORTS, ignore_errors=True)
    _end_leftovers()
    clean_up_when_killed()
    try:
        if paths:
            status |= _phase(tally, _chosen(paths), _built(tally))
        else:
            with early_kernel.built_beside(tally) as building:
                binaries = _built(tally)
                watch = Watch()
                status |= _everything(tally, binaries, building)
                tally.parts["all tests"] = watch.spent(ALL_MINUTES)
        say(
            f"reports: {REPORTS}, with the {KEPT} slowest tests in {SLOWEST}; "
            "python3 -m devcluster.suite.renew takes the order of the files from them"
        )
    except KeyboardInterrupt:
        say("interrupted: ending what the tests started")
        _PROGRAMS.end()
        status = INTERRUPTED
    finally:
        _end_leftovers()
    _print(tally)
    return status


def _built(tally: Tally) -> Path:
    """Build toolchain and images, side by side if both may be missing, and return the toolchain's folder.

    Raises:
        StepFailed: one of them could not be built.
    """
    if toolchain.is_built():
        binaries = _timed(tally, "toolchain", toolchain.build)
        _timed(tally, "images", lambda: images.build_all(cache_folder()))
        return binaries
    folders: list[Path] = []

    def build_images() -> int:
        # In a process of its own, which an interrupt ends, also in a shell's background.
        command = ["env", "--default-signal=INT", sys.executable, "-m", "devcluster", "images"]
        return _timed(tally, "images", lambda: _PROGRAMS.run(command, CHECKOUT, os.environ))

    def build_toolchain() -> int:
        folders.append(_timed(tally, "toolchain", toolchain.build))
        return 0

    say("▸ images: built beside the toolchain; their output comes when they are built")
    if side_by_side([build_images], build_toolchain, _PROGRAMS):
        raise StepFailed("the images could not be built: their words are above")
    return folders[0]


def _chosen(paths: list[str]) -> Phase:
    """The phase of these folders, or one for whatever else they are."""
    return next((phase for phase in PHASES if [*phase.folders] == paths), Phase("tests", 60, tuple(paths)))


def clean_up_when_killed() -> None:
    """Makes SIGHUP and SIGTERM clean up like Ctrl-C."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)


def _everything(tally: Tally, binaries: Path, building: early_kernel.KernelBuild) -> int:
    """Run two lanes side by side: the phases with clusters, and all others with those on cgroup v2.

    Each of the last phases is run by the lane that is free first.
    """
    last = iter(LATER_IMAGE)  # A tuple's iterator gives each to one thread.

    def one_by_one(phases: Iterable[Phase]) -> int:
        status = 0
        for phase in phases:
            status |= _phase(tally, phase, binaries)
        return status

    def with_clusters() -> int:
        return one_by_one(WITH_CLUSTERS) | one_by_one(last)

    def beside_clusters() -> int:
        status = one_by_one((OPERATOR, UNIT_AND_NATIVE))
        if building.has_ended():
            return status | _with_cgroup_v2(tally, binaries, building) | one_by_one((DEV_CLUSTER,)) | one_by_one(last)
        return status | one_by_one((DEV_CLUSTER,)) | one_by_one(last) | _with_cgroup_v2(tally, binaries, building)

    return side_by_side([with_clusters], beside_clusters, _PROGRAMS)


def _with_cgroup_v2(tally: Tally, binaries: Path, building: early_kernel.KernelBuild) -> int:
    """Run the tests that need cgroup v2 once a guest's kernel is there, unless it fails or time is short."""
    needing = f"a job's life on cgroup v2, and then {', '.join(THE_GUEST_ITSELF.folders)}"
    if not building.has_ended():
        say(f"waiting for the guest's kernel, at most until minute {WITHOUT_KERNEL_MINUTES:.0f}")
    built = building.wait(60 * (WITHOUT_KERNEL_MINUTES - tally.minutes()))
    if built is None:
        say(f"left out after {tally.minutes():.0f} minutes, run make test-vm: {needing} (no kernel in the cache)")
        return 0
    if built:
        say(f"failed, since the guest's kernel could not be built (its words are above): {needing}")
        return built
    _timed(tally, KERNEL, vm_tests.prepare)
    status = _phase(tally, A_JOBS_LIFE_ON_V2, binaries)
    if kernel.is_built():
        return status | _phase(tally, THE_GUEST_ITSELF, binaries)
    say(f"left out, since this machine needs no guest: {', '.join(THE_GUEST_ITSELF.folders)}")
    return status


def run_on_v2(paths: list[str], junit: Path | None) -> int:
    """Run the tests that need cgroup v2 and NFS, or those at `paths`; 0 only if all passed.

    Args:
        paths: below tests/vm.
        junit: where pytest's report goes, if anybody wants it.
    """
    clean_up_when_killed()
    tally = Tally()
    _timed(tally, "images", lambda: images.build_all(cache_folder()))
    _timed(tally, KERNEL, lambda: vm_tests.prepare(paths))
    try:
        status = _on_v2(tally, paths, junit)
    except KeyboardInterrupt:
        say("interrupted: the tests have ended")
        return INTERRUPTED
    _print(tally)
    return status


def _on_v2(tally: Tally, paths: list[str], junit: Path | None) -> int:
    if not paths and vm_tests.take_two_guests():
        return _in_two_guests(tally, junit)
    if not paths:
        return _phase(tally, ALL_ON_V2, CHECKOUT, junit)
    retries = int(len(paths) > 1)  # Who runs one path looks for its failures.
    chosen = replace(ALL_ON_V2, name=CHOSEN_ON_V2, folders=tuple(paths), retries=retries)
    return _phase(tally, chosen, CHECKOUT, junit)


def _in_two_guests(tally: Tally, junit: Path | None) -> int:
    """Run the halves of tests/vm in a guest each; the output of the first is shown when it ends."""
    first, second = vm_tests.halves()
    say(f"two guests side by side, since this machine has room; shown later: {', '.join(first)}")
    watch = Watch()
    with tempfile.TemporaryDirectory() as folder:
        reports = [Path(folder) / name for name in ("first.xml", "second.xml")]

        def lane() -> int:
            command = [sys.executable, "-m", "devcluster", "test-vm", "--junit", str(reports[0]), *first]
            return _PROGRAMS.run(command, CHECKOUT, os.environ)

        here = replace(ALL_ON_V2, name="the second half", folders=tuple(second))
        status = side_by_side([lane], lambda: _phase(tally, here, CHECKOUT, reports[1]), _PROGRAMS)
        if reports[0].exists():
            tally.add_report(reports[0])
        if junit:
            join_reports([report for report in reports if report.exists()], junit)
    tally.parts["both guests"] = watch.spent(ALL_ON_V2.minutes)
    return status


def _print(tally: Tally) -> None:
    report = CHECKOUT / REPORTS / SLOWEST
    report.parent.mkdir(parents=True, exist_ok=True)
    report.write_text("".join(f"{line}\n" for line in tally.lines(KEPT)))
    for line in tally.lines(SHOWN):
        say(f"  {line}")
    for name in tally.flaky():
        say(f"passed only in a second run, repair this (its failure is above): {name}")
    counts = ", ".join(f"{tally.count(outcome)} {outcome}" for outcome in ("passed", "failed", "skipped"))
    print(f"tests: {counts}", flush=True)


def _timed(tally: Tally, name: str, work: Callable[[], Result]) -> Result:
    watch = Watch()
    result = work()
    tally.parts[name] = watch.spent(BUILD_BUDGET_MINUTES[name])
    return result


def _phase(tally: Tally, phase: Phase, binaries: Path, junit: Path | None = None) -> int:
    present = [folder for folder in phase.folders if (CHECKOUT / folder.split("::")[0]).exists()]
    if not present:
        return 0
    say(f"▸ tests: {phase.name}{f' {vm_tests.place()}' if phase.on_v2 else ''} ({', '.join(present)})")
    watch, reports = Watch(), list[Path]()
    status, failed = _pytest(tally, phase, present, binaries, reports)
    ever_failed = set(failed)
    for _ in range(phase.retries):
        files = sorted({file for file, _ in failed})
        if status != PYTEST_FAILED or not all(files):
            break
        if phase.has_instances:
            _end_leftovers()
        say(f"▸ once more, in a run of its own: {', '.join(files)}")
        status, failed = _pytest(tally, phase, files, binaries, reports)
        ever_failed |= failed
    # Of a failed test that no later run has, the failure is what is known.
    if any(tally.outcomes[test] == "failed" for test in ever_failed):
        status = PYTEST_FAILED if status in (0, PYTEST_NO_TESTS) else status
    if junit:
        join_reports(reports, junit)
    tally.parts[phase.name] = watch.spent(phase.minutes)
    return 0 if status == PYTEST_NO_TESTS else status


def _pytest(tally: Tally, phase: Phase, paths: list[str], binaries: Path, reports: list[Path]) -> tuple[int, set[Test]]:
    """Run tests, and add their report; returned are pytest's exit status and what failed."""
    report = _new_report(phase)
    if phase.on_v2:
        return _counted(tally, vm_tests.run(paths, report), report, reports)
    left_out = [f"--ignore={path}" for path in phase.without]
    environment = {**os.environ, "PULUMI_SLURM_BINARIES": str(binaries)}
    how = ["--dist", "loadfile", "--no-loadscope-reorder"] if phase.by_file else ["--dist", "worksteal"]
    workers = ["-n", str(phase.workers), *how] if phase.workers > 1 else []
    # Only the first of the two forms of a report names files.
    reported = [f"--junit-xml={report}", "-o", "junit_family=xunit1"]
    patience = ["nice", "-n", str(PATIENCE)] if phase.is_patient else []
    with memory_files.place() if phase.is_in_memory else contextlib.nullcontext(memory_files.Place()) as place:
        status = _PROGRAMS.run(
            [
                *place.words, *patience,
                sys.executable, "-m", "pytest", "-q", "-rfE", *reported, *workers, *left_out, *paths,
            ],
            CHECKOUT,
            {**environment, **dict(place.variables)},
        )  # fmt: skip
    return _counted(tally, status, report, reports)


def _counted(tally: Tally, status: int, report: Path, reports: list[Path]) -> tuple[int, set[Test]]:
    if not report.exists():
        return status, set()
    reports.append(report)
    return status, tally.add_report(report)


def _new_report(phase: Phase) -> Path:
    """Path of a JUnit report that is not there yet: a phase's second run has one of its own."""
    folder = CHECKOUT / REPORTS
    folder.mkdir(parents=True, exist_ok=True)
    names = (f"{phase.name.replace(' ', '-')}-{number}.xml" for number in itertools.count(1))
    return next(folder / name for name in names if not (folder / name).exists())


def _end_leftovers() -> None:
    """End this checkout's test instances, of this run or of a killed one."""
    prefix = test_instance_name()
    for instance in node_cli.instances():
        if instance.name == prefix or instance.name.startswith(f"{prefix}-"):
            node_cli.remove(instance)
