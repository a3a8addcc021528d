"""Promises about jobs that hang: which do, what follows, and that none is ended unless its partition says so."""

from __future__ import annotations

import datetime
from typing import Any

import pytest
from node_health import notes
from slurm_operator.decide.nodes import hanging_jobs
from slurm_operator.decide.nodes.hanging_jobs import Hang, Ledger, Release, Requeue, Step, Suspect, Tell
from slurm_operator.state.resources import HangPolicy
from slurm_operator.state.slurm import SeenQuietJob, SlurmNode

NOW = datetime.datetime(2026, 11, 26, 14, tzinfo=datetime.UTC)
LONG_AGO, LATELY = NOW - datetime.timedelta(hours=2), NOW - datetime.timedelta(minutes=20)
TELLS, REQUEUES = HangPolicy("main", 3600, requeues=False), HangPolicy("main", 3600, requeues=True)
NODES = {name: SlurmNode(name, frozenset({"ALLOCATED"})) for name in ("cpu-0", "cpu-1", "cpu-2", "gpu-0")}
QUIET = {812: {"cpu-0": LONG_AGO}}
NOTHING_KNOWN = Ledger()
HANG = Hang(812, "main", LONG_AGO, frozenset({"cpu-0"}))


def job(*states: str, **more: Any) -> SeenQuietJob:
    usual: dict[str, Any] = {"partition": "main", "nodes": frozenset({"cpu-0"}), "requeues": True}
    return SeenQuietJob(812, frozenset(states or {"RUNNING"}), **{**usual, **more})


def decide(
    seen: SeenQuietJob | None,
    policy: HangPolicy = TELLS,
    ledger: Ledger = NOTHING_KNOWN,
    told: Ledger | None = None,
    quiet: dict[int, dict[str, datetime.datetime]] = QUIET,
    nodes: dict[str, SlurmNode] = NODES,
) -> tuple[Ledger, tuple[Step, ...]]:
    record = ledger if told is None else told
    decided = hanging_jobs.decide([policy], quiet, {812: seen}, ledger, record, nodes, NOW)
    return decided.ledger, decided.steps


def known(hang: Hang = HANG) -> Ledger:
    return Ledger({812: hang}, {"cpu-0": Suspect(1, NOW)})


@pytest.mark.parametrize(
    ("seen", "quiet"),
    [
        (job(), {}),
        (job(), {812: {"cpu-0": LATELY}}),
        (job(nodes=frozenset({"cpu-0", "cpu-1"})), QUIET),
        (job(nodes=frozenset({"cpu-0", "cpu-1"})), {812: {"cpu-0": LONG_AGO, "cpu-1": LATELY}}),
        (job(resumed=LATELY), QUIET),
        (job("SUSPENDED"), QUIET),
        (job("RUNNING", "COMPLETING"), QUIET),
        (job("PENDING", nodes=frozenset()), QUIET),
        (job(partition="side"), QUIET),
        (None, QUIET),
    ],
    ids=[
        "works", "quiet for minutes", "one node works", "one works until lately", "resumed lately", "suspended",
        "ends", "waits", "of a partition without a policy", "forgotten",
    ],
)  # fmt: skip
def test_a_job_hangs_only_if_it_runs_and_was_quiet_on_all_nodes_for_long_enough(
    seen: SeenQuietJob | None, quiet: dict[int, dict[str, datetime.datetime]]
) -> None:
    assert decide(seen, REQUEUES, quiet=quiet) == (Ledger(), ())


def test_a_job_that_hangs_is_told_once_and_its_nodes_count_once() -> None:
    ledger, steps = decide(job())
    assert ledger == known()
    assert steps == (Tell(812, HANG.comment),)
    assert decide(job(comment=HANG.comment), ledger=ledger) == (ledger, ())


def test_without_the_policy_a_job_is_never_queued_again() -> None:
    assert decide(job(comment=HANG.comment), TELLS, known())[1] == ()


def test_an_administrators_comment_stays() -> None:
    assert decide(job(comment="ticket 7"))[1] == ()


def test_a_job_is_queued_again_only_after_the_status_has_said_so() -> None:
    seen = job(comment=HANG.comment)
    assert decide(seen, REQUEUES, known(), Ledger())[0] == known(), "the status does not know of the hang"
    ledger, steps = decide(seen, REQUEUES, known())
    (marked,) = ledger.jobs.values()
    assert marked.requeued
    assert [type(step) for step in steps] == [Tell], "the status does not know that it is queued again"
    again, steps = decide(job(comment=marked.comment), REQUEUES, ledger)
    assert (again, steps) == (ledger, (Requeue(marked),))


def test_it_runs_without_the_nodes_on_which_it_hung_once_its_processes_are_gone() -> None:
    marked = Ledger({812: Hang(812, "main", LONG_AGO, frozenset({"cpu-0"}), requeued=True)})
    ends = job("PENDING", "COMPLETING", held=True)
    waits = job("PENDING", held=True, nodes=frozenset(), excluded=frozenset({"cpu-9"}))
    assert decide(waits, REQUEUES, marked) == (marked, (Release(812, ("cpu-0", "cpu-9")),))
    assert decide(ends, REQUEUES, marked)[1] == ()
    assert decide(job("PENDING", nodes=frozenset()), REQUEUES, marked) == (Ledger(), ())


def test_a_job_that_a_user_holds_is_not_released() -> None:
    assert decide(job("PENDING", held=True, nodes=frozenset()), REQUEUES, known())[1] == ()


@pytest.mark.parametrize(
    ("seen", "nodes"),
    [
        (job(requeues=False), NODES),
        (job(node_count=3), NODES),
        (job(excluded=frozenset({"cpu-1", "cpu-2"})), NODES),
        (job(), {**NODES, **{name: SlurmNode(name, frozenset({"IDLE", "DRAIN"})) for name in ("cpu-1", "cpu-2")}}),
    ],
    ids=["it may not be", "it needs more nodes", "it excludes the others", "the others are drained"],
)
def test_a_job_that_could_not_run_elsewhere_is_only_told(seen: SeenQuietJob, nodes: dict[str, SlurmNode]) -> None:
    ledger, steps = decide(seen, REQUEUES, known(), nodes=nodes)
    assert ledger == known()
    assert not any(isinstance(step, Requeue) for step in steps)


def test_a_job_that_works_again_is_no_longer_told_of_and_its_node_stays_a_suspect() -> None:
    ledger, steps = decide(job(comment=HANG.comment), ledger=known(), quiet={})
    assert ledger == Ledger({}, known().suspects)
    assert steps == (Tell(812, ""),)


def test_a_job_that_was_not_read_in_this_look_stays_as_it_is() -> None:
    decided = hanging_jobs.decide([TELLS], QUIET, {}, known(), known(), NODES, NOW)
    assert decided.ledger == known()


def test_suspects_are_listed_most_often_first_and_with_a_bound() -> None:
    suspects = {f"cpu-{number}": Suspect(number % 7, NOW) for number in range(200)}
    rows = hanging_jobs.written(Ledger({}, suspects))["suspects"]
    assert len(rows) == hanging_jobs.MOST_SUSPECTS
    assert [row["jobs"] for row in rows] == sorted((row["jobs"] for row in rows), reverse=True)


def test_the_ledger_survives_being_written_down() -> None:
    marked = Hang(813, "main", LONG_AGO, frozenset({"cpu-0", "cpu-1"}), requeued=True)
    ledger = Ledger({812: HANG, 813: marked}, {"cpu-0": Suspect(2, NOW), "cpu-1": Suspect(1, NOW)})
    assert hanging_jobs.read(hanging_jobs.written(ledger)) == ledger
    assert hanging_jobs.read(None) == Ledger()
    assert hanging_jobs.written(Ledger()) == {}


def test_what_nodes_note_is_read_and_words_of_others_in_it_are_not() -> None:
    note = notes.quiet({812: "2026-11-26T12:00:00Z", 813: "2026-11-26T12:30:00Z"})
    forged = "pulumi-slurm:warning left processes: 1 processes belong to no job: pulumi-slurm:quiet 9 since 2020-01-01"
    extras = {
        "cpu-0": notes.joined([notes.failed("gpus", "", "2026-11-26T12:00:00Z"), note]),
        "cpu-1": notes.joined([notes.quiet({812: "2026-11-26T12:00:00Z"}), forged]),
        "cpu-2": forged + "T00:00:00Z",
        "cpu-3": "pulumi-slurm:quiet then",
        "cpu-4": "",
    }
    nodes = {name: SlurmNode(name, frozenset({"IDLE"}), extra=extra) for name, extra in extras.items()}
    assert hanging_jobs.quiet_jobs(nodes) == {
        812: {"cpu-0": LONG_AGO, "cpu-1": LONG_AGO},
        813: {"cpu-0": LONG_AGO + datetime.timedelta(minutes=30)},
    }


def test_jobs_that_were_found_before_are_looked_at_first() -> None:
    quiet: dict[int, object] = {number: {} for number in range(300)}
    looked = hanging_jobs.to_look_at(known(), quiet)
    assert (looked[0], len(looked)) == (812, hanging_jobs.MOST_JOBS)
