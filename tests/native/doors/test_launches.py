"""A user's launch is read by a child of slurmd first (native/doors/launch_reader.c and those beside it)."""

from __future__ import annotations

import pytest

from tests.native.message_programs import (
    ALICE,
    LAUNCH,
    PING,
    ROOT,
    SLURM,
    Ask,
    launch,
    signed,
)


@pytest.mark.parametrize(
    "sound",
    [
        launch(1, "a"),
        launch(2, "a,b"),
        launch(2, "a,b", het=3),
        launch(3, "a,b,c", 2, (2, 1)),
    ],
    ids=["one", "two", "heterogeneous", "counts of CPUs"],
)  # fmt: skip
def test_a_launch_that_has_tasks_for_each_node_is_read(ask: Ask, sound: str) -> None:
    assert ask("slurmd", LAUNCH, ALICE, sound) == "read"


@pytest.mark.parametrize(
    "forged",
    [
        launch(0, "a"),
        launch(1, "a,b"),
        launch(2, "a,b", 1, (1,)),
        launch(2, "a,b", 2, (2,)),
        launch(2, "a,b", 0xFFFFFF),
    ],
    ids=["of no nodes", "of more nodes", "CPUs of too few", "arrays of two lengths", "longer than it is"],
)
def test_a_launch_that_leads_slurmd_past_its_arrays_is_refused(ask: Ask, forged: str) -> None:
    assert ask("slurmd", LAUNCH, ALICE, forged) == "refused"
    assert ask("slurmd", LAUNCH, ROOT, forged) == "read", "Slurm's own are not asked"


@pytest.mark.parametrize("step", [0xFFFFFFFC, 0xFFFFFFFB, 0xFFFFFFFD], ids=["extern", "batch", "pending"])
def test_a_user_starts_no_step_that_slurm_alone_starts(ask: Ask, step: int) -> None:
    assert ask("slurmd", LAUNCH, ALICE, launch(1, "a", credential=signed(step=step))) == "refused"
    assert ask("slurmd", LAUNCH, SLURM, launch(1, "a", credential=signed(step=step))) == "read"


@pytest.mark.parametrize("step", [0xFFFFFFF0, 0xFFFFFFFA], ids=["the last number", "interactive"])
def test_a_user_starts_steps_and_the_interactive_one(ask: Ask, step: int) -> None:
    assert ask("slurmd", LAUNCH, ALICE, launch(1, "a", credential=signed(step=step))) == "read"


@pytest.mark.parametrize(
    "credential", [signed(user=1001), signed(node="other"), signed(node="?")], ids=["user", "node", "time"]
)
def test_a_user_sends_no_launch_whose_credential_is_for_another(ask: Ask, credential: str) -> None:
    assert ask("slurmd", LAUNCH, ALICE, launch(1, "a", credential=credential)) == "refused"
    assert ask("slurmd", LAUNCH, ROOT, launch(1, "a", credential=credential)) == "read", "slurmctld's are its own"


@pytest.mark.parametrize("reading", ["ends", "hangs"])
def test_a_launch_that_ends_or_hangs_who_reads_it_is_read_by_a_child_alone(ask: Ask, reading: str) -> None:
    assert ask("slurmd", LAUNCH, ALICE, reading) == "refused"


def test_a_launch_is_read_although_another_thread_held_a_lock_at_the_fork(ask: Ask) -> None:
    assert ask("slurmd", LAUNCH, ALICE, launch(1, "a"), "locked") == "read"


def test_a_launch_with_a_jobs_record_is_refused(ask: Ask) -> None:
    assert ask("slurmd", LAUNCH, ALICE, "record") == "refused"
    assert ask("slurmctld", PING, SLURM, "record") == "read", "slurmctld reads those of its own state"
