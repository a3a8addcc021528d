"""Promises about outages of nodes: what begins and ends one, and what is measured."""

from __future__ import annotations

import dataclasses
import datetime
import itertools
from collections.abc import Callable
from typing import Any

import pytest
from node_health import notes
from slurm_operator import metrics
from slurm_operator.decide.nodes import outages
from slurm_operator.decide.nodes.outages import MOST_ENDED, MOST_OPEN, Outage, Span
from slurm_operator.reconcile.health.outages import Outages
from slurm_operator.state.kubernetes import Pod
from slurm_operator.state.slurm import SlurmNode

from contract import names, node_notes
from tests.operator.states import sets

NOW = datetime.datetime(2026, 11, 26, 12, tzinfo=datetime.UTC)
LOST = "pulumi-slurm:health gpus: 7 of 8 GPUs answer"


def at(seconds: float) -> datetime.datetime:
    return NOW + datetime.timedelta(seconds=seconds)


def node(name: str = "gpu-0", reason: str = "", user: str = "root", **more: Any) -> SlurmNode:
    states = frozenset({"IDLE", "DRAIN"} if reason else {"IDLE"})
    return SlurmNode(name, states, reason, user, **{"reason_set": NOW if reason else None, **more})


def follow(
    before: tuple[Outage, ...], *nodes: SlurmNode, seconds: float = 60, wanted: Callable[[str], bool] = lambda _: True
) -> tuple[Outage, ...]:
    return outages.follow(before, {each.name: each for each in nodes}, wanted, at(seconds))


@pytest.mark.parametrize(
    ("reason", "user", "check"),
    [
        (LOST, "root", "gpus"),
        ("pulumi-slurm:repair health gpus: 7 of 8", names.SLURM_USER, "gpus"),
        ("pulumi-slurm:jail: storage hangs", "root", "jail"),
        ("pulumi-slurm:health long all-reduce: job 8 TIMEOUT", names.SLURM_USER, "long all-reduce"),
        ("pulumi-slurm:node vm-1 says KernelDeadlock=True", names.SLURM_USER, "kubernetes node"),
        ("pulumi-slurm:node vm-1 is not ready", names.SLURM_USER, "kubernetes node"),
        ("pulumi-slurm:node vm-1 is cordoned", names.SLURM_USER, ""),
        ("pulumi-slurm:node vm-1 is tainted gpu", names.SLURM_USER, ""),
        ("pulumi-slurm:update", names.SLURM_USER, ""),
        ("pulumi-slurm:new", "root", ""),
        ("new fan", "alice", ""),
        (LOST, "alice", ""),
        ("", "", ""),
    ],
)
def test_an_outage_begins_with_a_drain_for_a_fault_and_with_no_other(reason: str, user: str, check: str) -> None:
    begun = follow((), node(reason=reason, user=user))
    assert [outage.check for outage in begun] == ([check] if check else [])


def test_it_lasts_until_the_node_takes_jobs_whoever_drains_it_meanwhile() -> None:
    begun = follow((), node(reason=LOST))
    assert begun == (Outage("gpu-0", "gpus", "health gpus: 7 of 8 GPUs answer", NOW),)
    for reason, user in (
        ("pulumi-slurm:repair health gpus: 7 of 8 GPUs answer", names.SLURM_USER),
        ("under my hands", "alice"),
        ("pulumi-slurm:new", "root"),
    ):
        assert follow(begun, node(reason=reason, user=user, reason_set=at(30))) == begun
    assert follow(begun) == begun, "its record went, and is to come back"
    (ended,) = follow(begun, node(), seconds=3600)
    assert ended.until == at(3600)
    assert follow((ended,), node(), seconds=7200) == (ended,)


def test_the_outage_of_a_node_that_was_removed_is_forgotten() -> None:
    assert follow(follow((), node(reason=LOST)), wanted=lambda name: False) == ()


def test_each_span_is_measured_once() -> None:
    note = notes.failed("gpus", "2026-11-26T11:59:20Z", "2026-11-26T11:59:50Z")
    begun = follow((), node(reason=LOST))
    noted = follow(begun, node(reason=LOST, extra=f"{note}; pulumi-slurm:warning clock: late"))
    again = follow(noted, node(reason=LOST, extra=notes.failed("gpus", "", "2026-11-26T12:30:00Z")))
    ended = follow(again, node(), seconds=3600)
    looks = ((), begun, noted, again, ended, follow(ended, node(), seconds=7200))
    measured = [[*outages.measured(before, after)] for before, after in itertools.pairwise(looks)]
    assert measured == [
        [],
        [(Span.DETECT, "gpus", 30), (Span.DRAIN, "gpus", 10)],
        [],
        [(Span.REPAIR, "gpus", 3600.0)],
        [],
    ]


def test_a_note_about_another_check_measures_nothing_and_clocks_that_differ_no_negative_span() -> None:
    (other,) = follow((), node(reason=LOST, extra=notes.failed("nvlink", "", "2026-11-26T11:59:50Z")))
    assert (other.detect_seconds, other.drain_seconds) == (None, None)
    (ahead,) = follow((), node(reason=LOST, extra=notes.failed("gpus", "", "2026-11-26T12:00:09Z")))
    assert (ahead.detect_seconds, ahead.drain_seconds) == (None, 0)


def test_the_status_has_a_bound_and_says_all_that_it_has() -> None:
    down = [node(f"gpu-{number}", LOST, reason_set=at(number)) for number in range(MOST_OPEN + 5)]
    begun = follow((), *down)
    assert len(begun) == MOST_OPEN + 5
    rows = outages.written(begun)
    assert (len(rows), rows[0]["node"]) == (MOST_OPEN, "gpu-5")
    ended = follow(begun, *(node(each.name) for each in down), seconds=3600)
    assert len(ended) == MOST_ENDED
    note = notes.failed("gpus", "2026-11-26T11:59:20Z", "2026-11-26T11:59:50Z")
    both = (*ended, *follow((), node(reason=LOST, extra=note)))
    assert outages.read(outages.written(both)) == both


def body(*rows: dict[str, Any]) -> dict[str, Any]:
    return {"metadata": {"uid": "u"}, "status": {"outages": [*rows]}}


def numbers(metric: Any, suffix: str = "") -> dict[tuple[str, ...], float]:
    samples = [each for family in metric.collect() for each in family.samples]
    return {tuple(each.labels.values()): each.value for each in samples if each.name.endswith(suffix)}


def test_an_operator_that_takes_over_counts_nothing_twice_and_shows_each_node() -> None:
    metrics.forget_cluster()
    pods = [Pod(name, "worker", ready=True, running=True) for name in ("cpu-0", "cpu-1")]
    cluster = [sets.node_set(2, 2, pods, NOW)]
    down = {"cpu-0": node("cpu-0", LOST, extra=notes.failed("gpus", "", "2026-11-26T11:59:50Z"))}
    nodes = {**down, "cpu-1": node("cpu-1")}
    before = numbers(metrics.TIME_TO_DRAIN, "_count").get(("gpus",), 0)
    first, second = Outages(), Outages()
    first.look(body(), nodes, cluster, pods, at(5))
    rows = first.told(body())
    assert rows == [
        {"node": "cpu-0", "check": "gpus", "reason": LOST.removeprefix("pulumi-slurm:"),
         "since": "2026-11-26T12:00:00Z", "drainSeconds": 10}
    ]  # fmt: skip
    assert numbers(metrics.NODE_UNFIT_SINCE) == {("cpu-0", "gpus"): NOW.timestamp()}
    assert numbers(metrics.NODE_VERDICT) == {("cpu-0", "FAIL"): 1, ("cpu-1", "PASS"): 1}
    second.look(body(*rows), nodes, cluster, pods, at(10))
    assert numbers(metrics.TIME_TO_DRAIN, "_count")["gpus",] == before + 1
    repaired = numbers(metrics.TIME_TO_REPAIR, "_count").get(("gpus",), 0)
    second.look(body(*rows), {"cpu-0": node("cpu-0"), "cpu-1": node("cpu-1")}, cluster, pods, at(600))
    assert numbers(metrics.TIME_TO_REPAIR, "_count")["gpus",] == repaired + 1
    assert numbers(metrics.NODE_UNFIT_SINCE) == {}
    assert numbers(metrics.NODE_VERDICT) == {("cpu-0", "PASS"): 1, ("cpu-1", "PASS"): 1}
    (row,) = second.told(body(*rows)) or [{}]
    assert row["until"] == "2026-11-26T12:10:00Z"


def test_checks_that_did_not_pass_are_shown_of_each_node_and_slow_runs_until_the_note_changes() -> None:
    metrics.forget_cluster()
    pods = [Pod(name, "worker", ready=True, running=True) for name in ("cpu-0", "cpu-1", "cpu-2")]
    cluster = [sets.node_set(3, 3, pods, NOW)]
    said = notes.checks({"clock": "UNKNOWN", "gpu power": "WARNING"}, 6.5, "clock")
    many = notes.checks({f"check {chr(97 + n)}": "WARNING" for n in range(26)}, 1.9, "clock")
    forged = "pulumi-slurm:warning left processes: pulumi-slurm:checks FAIL gpus"
    looks = Outages()

    def show(*extras: str) -> dict[tuple[str, ...], float]:
        nodes = {pod.name: node(pod.name, extra=extra) for pod, extra in zip(pods, extras, strict=True)}
        looks.look(body(), nodes, cluster, pods, NOW)
        return numbers(metrics.NODE_CHECK)

    first = show(f"{said}; pulumi-slurm:warning clock: could not be checked: no", "", forged)
    assert first == {("cpu-0", "clock", "UNKNOWN"): 1, ("cpu-0", "gpu power", "WARNING"): 1}
    assert numbers(metrics.NODE_CHECK_RUN) == {("cpu-0", "clock"): 10, ("cpu-1", ""): 2, ("cpu-2", ""): 2}
    assert len(show("", many, "rack 7, pulumi-slurm:checks FAIL gpus")) == node_notes.MOST_CHECKS
    assert numbers(metrics.NODE_CHECK_RUN) == {("cpu-0", ""): 2, ("cpu-1", ""): 2}, "nobody knows of another's text"
    assert show("", "", "") == {}
    pods[0] = dataclasses.replace(pods[0], ready=False)
    show("", "", "")
    assert numbers(metrics.NODE_CHECK_RUN) == {("cpu-1", ""): 2, ("cpu-2", ""): 2}, "its checks may not have run yet"
