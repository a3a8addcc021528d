"""A worker that must end under its jobs lets them run on for a while, without asking slurmctld."""

from __future__ import annotations

from pathlib import Path

import pytest
from slurm_node.roles import worker


def process(proc: Path, number: int, *words: str) -> None:
    (proc / str(number)).mkdir(parents=True)
    (proc / str(number) / "cmdline").write_bytes(b"\0".join(word.encode() for word in words) + b"\0")


@pytest.fixture
def proc(tmp_path: Path) -> Path:
    process(tmp_path, 1, "/usr/bin/tini", "--")
    process(tmp_path, 2, "/opt/slurm/sbin/slurmd", "-D")
    process(tmp_path, 3, "/opt/slurm/sbin/slurmstepd", "infinity")
    process(tmp_path, 4)
    (tmp_path / "self").mkdir()
    return tmp_path


def test_slurmds_own_processes_are_no_jobs(proc: Path) -> None:
    assert worker.steps(proc) == 0
    worker.wait_for_jobs(60, proc, lambda: 0.0, pytest.fail)


def test_a_step_is_waited_for(proc: Path) -> None:
    process(proc, 5, "slurmstepd: [7.extern]")
    assert worker.steps(proc) == 1
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == 3:
            (proc / "5" / "cmdline").write_bytes(b"")

    worker.wait_for_jobs(60, proc, lambda: sum(slept), sleep)
    assert len(slept) == 3


def test_not_for_ever(proc: Path) -> None:
    process(proc, 5, "slurmstepd: [7.0]")
    slept: list[float] = []
    worker.wait_for_jobs(30, proc, lambda: sum(slept), slept.append)
    assert sum(slept) == 30
