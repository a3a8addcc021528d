"""Limits that slurmstepd sets for its job, with files that stand for groups; tests/vm has real ones."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

MIB = 1 << 20
SPARE = 32 * MIB + 4096
STEP = "system.slice/scope/job_1/step_0"


class Groups:
    """A job's group with its limits, and what /proc/self/cgroup says."""

    def __init__(self, folder: Path, probe: Path) -> None:
        self.job = folder / STEP.rpartition("/")[0]
        self.own = folder / "own"
        self._probe = probe
        self.job.mkdir(parents=True, exist_ok=True)
        self.all_jobs = self.job.parent.parent

    def run(self, own: str, memory: str) -> tuple[str, str, str]:
        """Returns what was said, and the job's memory.max and memory.high afterwards."""
        self.own.write_text(own)
        (self.job / "memory.max").write_text(memory)
        (self.job / "memory.high").write_text(memory)
        done = subprocess.run([str(self._probe)], capture_output=True, text=True, timeout=20, check=False)
        high, most = ((self.job / name).read_text() for name in ("memory.high", "memory.max"))
        return done.stdout + done.stderr, most, high


@pytest.fixture(scope="module")
def groups(tmp_path_factory: pytest.TempPathFactory, make: Callable[..., Path]) -> Groups:
    folder = tmp_path_factory.mktemp("limits")
    (folder / "cgroup.controllers").touch()
    return Groups(folder, make("job_limits_probe", folder))


def test_the_jobs_limit_has_room_for_slurmstepd_once(groups: Groups) -> None:
    own, raised = f"0::/{STEP}/slurm\n", str(30 * MIB + SPARE)
    assert groups.run(own, f"{30 * MIB}") == ("", raised, "max")
    assert groups.run(own, raised) == ("", raised, raised), "a later step of the job"


@pytest.mark.parametrize(
    "own",
    ["", "4:memory:/slurm/uid_1000/job_1\n", "0::/\n", "0::/pod\n", "0::/slurm\n"],
    ids=["none", "version 1", "the top", "another group", "no job above"],
)
def test_without_a_group_of_slurmstepds_own_nothing_changes(groups: Groups, own: str) -> None:
    assert groups.run(own, f"{30 * MIB}") == ("", f"{30 * MIB}", f"{30 * MIB}")


def test_where_groups_are_of_version_1_nothing_changes(groups: Groups) -> None:
    mark = groups.own.with_name("cgroup.controllers")
    mark.unlink()
    try:
        assert groups.run(f"0::/{STEP}/slurm\n", f"{30 * MIB}") == ("", f"{30 * MIB}", f"{30 * MIB}")
    finally:
        mark.touch()


def test_a_job_without_a_limit_keeps_none(groups: Groups) -> None:
    assert groups.run(f"0::/{STEP}/slurm\n", "max") == ("", "max", "max")


@pytest.mark.parametrize(
    ("of_all", "of_tasks", "of_job"), [("200", "100", "164"), ("max", "max", "max"), ("1", "max", "max")]
)
def test_tasks_have_half_of_all_jobs_processes_and_slurmstepd_some_besides(
    groups: Groups, of_all: str, of_tasks: str, of_job: str
) -> None:
    tasks = groups.job / "step_0/user"
    tasks.mkdir(parents=True, exist_ok=True)
    (groups.all_jobs / "pids.max").write_text(of_all)
    for group in (groups.job, tasks):
        (group / "pids.max").write_text("max")
    assert groups.run(f"0::/{STEP}/slurm\n", "max") == ("", "max", "max")
    assert [(group / "pids.max").read_text() for group in (tasks, groups.job)] == [of_tasks, of_job]


def test_a_job_whose_group_cannot_count_processes_goes_on(groups: Groups) -> None:
    (groups.all_jobs / "pids.max").write_text("200")
    (groups.job / "pids.max").unlink(missing_ok=True)
    (groups.job / "step_0/user/pids.max").unlink(missing_ok=True)
    assert groups.run(f"0::/{STEP}/slurm\n", "max") == ("", "max", "max")
    assert not (groups.job / "pids.max").exists()
