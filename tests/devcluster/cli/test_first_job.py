"""`up` ends well while users' jobs have the nodes, and fails when its own job could have run."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from devcluster.cli import first_job
from devcluster.machine.progress import StepFailed

IDLE = "main* cpu-0 idle\nmain* cpu-1 idle\n"
ONE_TAKEN = "main* cpu-0 allocated\nmain* cpu-1 idle\nother cpu-2 idle\n"
SHARED = "main* cpu-0 mixed\nmain* cpu-1 mixed\n"
ONE_DOWN = "main* cpu-0 allocated\nmain* cpu-1 down*\n"


@dataclass
class Login:
    """A login node on which each program says what the test says."""

    nodes: list[str]
    jobs: str = ""
    status: int = 0
    ran: list[str] = field(default_factory=list)

    def run_command(self, command: list[str]) -> list[str]:
        self.ran.append(command[0])
        if command[0] == "sinfo":
            return ["printf", "%s", self.nodes.pop(0)]
        if command[0] == "squeue":
            return ["printf", "%s", self.jobs]
        return ["sh", "-c", f"echo out of the job; exit {self.status}"]


@pytest.mark.parametrize(
    ("sinfo", "free", "taken"),
    [
        (IDLE, first_job.MAY_HAVE_ROOM, []),
        (ONE_TAKEN, first_job.MAY_HAVE_ROOM, ["cpu-0"]),
        (SHARED, first_job.MAY_HAVE_ROOM, []),
        (SHARED, first_job.IDLE, ["cpu-0", "cpu-1"]),
        ("main* cpu-0 draining*\nmain* cpu-1 idle\n", first_job.MAY_HAVE_ROOM, ["cpu-0"]),
        ("main* cpu-0 allocated+\nmain* cpu-1 planned\n", first_job.MAY_HAVE_ROOM, ["cpu-0", "cpu-1"]),
        (ONE_DOWN, first_job.MAY_HAVE_ROOM, []),
        ("main* cpu-0 drained\nmain* cpu-1 idle\n", first_job.MAY_HAVE_ROOM, []),
    ],
)
def test_jobs_are_in_the_way_only_where_there_are_enough_nodes_without_them(sinfo, free, taken):
    assert first_job.in_the_way(first_job.states(sinfo), free) == taken


def test_the_job_runs_on_free_nodes(capsys):
    login = Login([IDLE])
    first_job.run(login)
    assert login.ran == ["sinfo", "timeout"]
    assert "out of the job" in capsys.readouterr().err


def test_nodes_that_jobs_have_are_not_waited_for(capsys):
    login = Login([ONE_TAKEN], jobs="12 train\n14_3 first of many\n")
    first_job.run(login)
    assert login.ran == ["sinfo", "squeue"]
    assert "not run, since the nodes are taken by jobs 12, 14_3\n" in capsys.readouterr().err


def test_nodes_that_became_taken_while_the_job_waited_are_no_failure(capsys):
    first_job.run(Login([IDLE, ONE_TAKEN], jobs="12 train\n", status=first_job.TIMED_OUT))
    assert "taken by jobs 12\n" in capsys.readouterr().err


@pytest.mark.parametrize(
    "login",
    [
        Login([IDLE, IDLE], status=first_job.TIMED_OUT),
        Login([ONE_DOWN, ONE_DOWN], jobs="12 train\n", status=first_job.TIMED_OUT),
        Login([IDLE, "main* cpu-0 completing\nmain* cpu-1 completing\n"], f"9 {first_job.NAME}\n", first_job.TIMED_OUT),
        Login([SHARED], jobs="12 train\n", status=7),
    ],
    ids=["idle nodes", "a node that is down", "it hangs itself", "its own failure"],
)
def test_a_job_that_does_not_run_though_no_other_job_is_in_its_way_fails(login):
    with pytest.raises(StepFailed, match=f"status {login.status}"):
        first_job.run(login)
