"""Promises of passes in which calls conflict or take long: neither holds up what else there is to do and to tell."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Mapping, Sequence

import pytest
from slurm_operator import execute, metrics
from slurm_operator.clients.slurm import dry_run, job_listing
from slurm_operator.decide.cluster import config
from slurm_operator.decide.cluster.requeue import Outcome
from slurm_operator.findings import Finding, lasting
from slurm_operator.reconcile import cluster
from slurm_operator.reconcile.configuration import Configuration
from slurm_operator.reconcile.node_sets import UNTOLD_SECONDS

from contract import names, reasons
from contract.conditions import Reason
from tests.operator.worlds.slow_world import SlowWorld, VirtualLoop, at_once, passes

NODES = 50
TOLD_WITHIN = 30.0


def played(
    sizes: Mapping[str, int],
    wanted: Mapping[str, int | None],
    minutes: float,
    *,
    seconds: float = 2.0,
    jobs: int = 0,
    removed: int = 0,
    refused: Mapping[tuple[str, str], int] | None = None,
    updated: Sequence[str] = (),
) -> SlowWorld:
    """Let the operator pass over node sets that somebody scales.

    Args:
        sizes: of node sets, by name.
        wanted: what they are scaled to.
        minutes: of virtual time.
        seconds: what each call of slurmrestd takes.
        jobs: how many run, on the first node.
        removed: how many partitions the declared configuration has no more.
        refused: by kind and name, with which HTTP status changes of objects are refused.
        updated: node sets that get a new template.
    """

    async def work(loop: VirtualLoop) -> SlowWorld:
        world = SlowWorld(loop, sizes, seconds)
        world.api.refused |= refused or {}
        for name, replicas in wanted.items():
            world.scale(name, replicas)
        for name in updated:
            world.change_template(name)
        world.remove_partitions(removed)
        for _ in range(jobs):
            world.slurm.run_job(next(iter(world.slurm.nodes)))
        await passes(world, minutes)
        return world

    return at_once(work)


def drained(world: SlowWorld, node_set: str = "cpu") -> int:
    records = world.slurm.nodes.values()
    return sum("DRAIN" in each["state"] and each["name"].startswith(f"{node_set}-") for each in records)


@pytest.mark.parametrize("seconds", [2.0, 4.9])
def test_a_pass_of_slow_calls_tells_its_status_before_its_deadline_and_gets_on(
    seconds: float, caplog: pytest.LogCaptureFixture
) -> None:
    world = played({"cpu": NODES}, {"cpu": 0}, minutes=6, seconds=seconds, jobs=60)
    assert not [record for record in caplog.records if record.getMessage().startswith("pass ")], "a pass was cut"
    told = len(world.api.told)
    assert told > 6
    assert drained(world) >= 7, "each pass goes on where the one before ended"


def test_fifty_changes_of_two_seconds_a_call_tell_progress_every_thirty_seconds() -> None:
    world = played({"cpu": NODES}, {"cpu": 0}, minutes=7)
    told = [(moment, status["message"]) for moment, name, status in world.api.told if name == "cpu"]
    moments = [0.0, *(moment for moment, _ in told), 7 * 60]
    assert max(later - earlier for earlier, later in itertools.pairwise(moments)) <= TOLD_WITHIN
    assert "of 50 that leave are drained" in told[-1][1]
    assert drained(world) > 7 * 5


def test_a_reservation_whose_nodes_cannot_be_read_is_told() -> None:
    async def work(loop: VirtualLoop) -> SlowWorld:
        world = SlowWorld(loop, {"cpu": 1}, seconds=0.1)
        world.slurm.reservations.reserve("odd", "cpu-[0-")
        await passes(world, minutes=1)
        return world

    status = at_once(work).api.there[names.SLURM_CLUSTERS, "test"]["status"]
    (told,) = (each for each in status["conditions"] if each["type"] == "Degraded")
    assert (told["status"], told["reason"]) == ("True", Reason.RESERVATION_UNREADABLE)
    assert "odd (no node list expression: 'cpu-[0-')" in told["message"]


def test_whatever_a_configuration_waits_for_status_is_told_with_the_partitions_that_may_be_closed(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def accept(*_: object) -> config.Verdict:
        return config.Verdict(True, "")

    async def never(*_: object) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(dry_run, "ask", accept)
    monkeypatch.setattr(Configuration, "ask_nodes", never)
    world = played({"cpu": 3}, {"cpu": 3}, minutes=4, removed=3)
    assert not [record for record in caplog.records if record.getMessage().startswith("pass ")], "a pass was cut"
    closed = {name for name, state in world.slurm.partitions.items() if state == "DRAIN"}
    status = world.api.there[names.SLURM_CLUSTERS, "test"]["status"]
    assert closed
    assert closed <= set(status["configuration"]["closed"]), "they would stay closed"
    assert "takes longer than a pass may" in status["conditions"][1]["message"]


def test_all_of_fifty_nodes_leave_however_slow_the_calls_are() -> None:
    world = played({"cpu": NODES}, {"cpu": 0}, minutes=20)
    assert world.size("cpu") == 0


def test_a_node_set_whose_changes_are_slow_holds_up_no_other() -> None:
    world = played({"a": NODES, "b": NODES}, {"a": 0, "b": 0}, minutes=3)
    assert drained(world, "a") >= 5
    assert drained(world, "b") >= 5


def test_a_conflict_over_one_node_set_holds_up_no_other() -> None:
    conflicting = {("statefulsets", "a"): 409}
    world = played({"a": 1, "b": 1}, {"a": 2, "b": 2}, minutes=1, seconds=0.1, refused=conflicting)
    assert (world.size("a"), world.size("b")) == (1, 2)
    degraded = world.api.there[names.SLURM_CLUSTERS, "test"]["status"]["conditions"][2]
    assert degraded["message"] == "SetReplicas: a is refused", "it lasts"


def test_a_refused_node_set_keeps_no_other_from_the_size_that_autoscalers_read() -> None:
    world = played({"a": 1, "b": 1}, {"a": None, "b": None}, 1, seconds=0.1, refused={(names.NODE_SETS, "a"): 403})
    assert world.api.there[names.NODE_SETS, "b"]["spec"]["replicas"] == 1


@pytest.mark.parametrize("answer", [403, 500, 0])
def test_a_node_set_whose_status_is_refused_holds_up_no_node_set(answer: int) -> None:
    unwritten = {(names.NODE_SETS, "a"): answer}
    world = played({"a": 1, "b": 1}, {"a": 2, "b": 2}, 1, seconds=0.1, refused=unwritten)
    assert (world.size("a"), world.size("b")) == (2, 2)
    degraded = world.api.there[names.SLURM_CLUSTERS, "test"]["status"]["conditions"][2]
    assert "WriteStatus: a is refused" in degraded["message"]


def test_a_status_without_an_answer_costs_a_deadline_now_and_then() -> None:
    world = played({"a": 1, "b": 1}, {"a": 2, "b": 2}, 2, seconds=0.1, refused={(names.NODE_SETS, "a"): 0})
    tries = [moment for moment, name, _ in world.api.told if name == "a"]
    assert len(tries) > 1
    assert min(later - earlier for earlier, later in itertools.pairwise(tries)) >= UNTOLD_SECONDS


def test_a_cluster_whose_status_is_refused_grows_and_is_no_success(caplog: pytest.LogCaptureFixture) -> None:
    unwritten = {(names.SLURM_CLUSTERS, "test"): 403}
    world = played({"a": 1}, {"a": 2}, 1, seconds=0.1, refused=unwritten)
    assert world.size("a") == 2
    assert "pass ended: subject=slurm outcome=kubernetes_error error=test is refused" in caplog.text


def test_an_update_takes_no_node_that_its_status_cannot_remember() -> None:
    unwritten = {(names.NODE_SETS, "a"): 403}
    sizes = {"a": 1, "b": 1}
    world = played(sizes, sizes, 1, seconds=0.1, refused=unwritten, updated=["a", "b"])
    assert (drained(world, "a"), drained(world, "b")) == (0, 1), "its slots would be forgotten"


CALL_SECONDS = 0.03
"""Time of slurmrestd for a job's record, among 10,000 jobs (docs/operator.md)."""


def test_a_pass_takes_three_seconds_whatever_there_is_to_ask_about_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    """A node leaves, a record may go, an autoscaler and a preview want counts: each asks about hundreds of jobs."""
    passed: list[float] = []

    async def work(loop: VirtualLoop) -> SlowWorld:
        world = SlowWorld(loop, {"a": 50}, CALL_SECONDS)
        run = world.reconciler.run

        async def timed() -> Outcome:
            began = loop.time()
            outcome = await run()
            passed.append(loop.time() - began)
            return outcome

        monkeypatch.setattr(world.reconciler, "run", timed)
        world.slurm.memory = True
        for number in range(job_listing.MOST_LOOKED_AT - 1):
            world.slurm.run_job(f"a-{number % 40}")
        world.slurm.run_job("a-49", state="COMPLETING")
        world.slurm.register("a-77")
        world.slurm.drain("a-77", reasons.SCALE_IN, names.SLURM_USER)
        for _ in range(3 * job_listing.MOST_LOOKED_AT):
            world.slurm.run_job("", state="PENDING", names="a-77")
        world.scale("a", 49)
        await passes(world, 2)
        return world

    world = at_once(work)
    assert (world.size("a"), "a-77" in world.slurm.nodes) == (50, True), "each pass asks again"
    assert max(passed) <= 3
    assert metrics.PENDING_NODES.labels("main")._value.get() == 3 * job_listing.MOST_LOOKED_AT
    assert world.api.there[names.SLURM_CLUSTERS, "test"]["status"]["jobs"], "previews have counts, too"


def test_a_conflict_is_told_when_it_lasts() -> None:
    conflict, other = Finding(execute.CONFLICT, "AddFinalizer: changed"), Finding(Reason.ACTION_FAILED, "Drain: away")
    before: dict[str, int] = {}
    for _ in range(cluster.CONFLICTS_TOLD - 1):
        told, before = lasting([conflict, other], execute.CONFLICT, before, cluster.CONFLICTS_TOLD)
        assert told == [other]
    told, _ = lasting([conflict, other], execute.CONFLICT, before, cluster.CONFLICTS_TOLD)
    assert told == [conflict, other]
    _, before = lasting([other], execute.CONFLICT, before, cluster.CONFLICTS_TOLD)
    told, _ = lasting([conflict, other], execute.CONFLICT, before, cluster.CONFLICTS_TOLD)
    assert told == [other], "it was over in between"
