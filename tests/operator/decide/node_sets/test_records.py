"""Promises about Slurm's node records: they stay while anything names them, and change when a node's size did."""

from __future__ import annotations

import dataclasses
import datetime

import pytest
from slurm_operator.actions import Action, DeleteRecord, Drain, Undrain
from slurm_operator.decide.node_sets import preconditions, records, undrain, update
from slurm_operator.decide.nodes.workers import NodeSetState
from slurm_operator.state.slurm import Facts, FullListing, SlurmJob, SlurmNode

from tests.operator.states.record_sizes import LARGE, SMALL, declares, forget, seen, sized
from tests.operator.states.sets import NOW, changed, job, leaving, node, state
from tests.operator.states.updates import NEW, REASON, restarted, updating

WAITS = job(7, "PENDING")


def naming(name: str, each: SlurmJob = WAITS) -> SlurmJob:
    return dataclasses.replace(each, names=frozenset({name}))


def restarts(size: NodeSetState, record: SlurmNode, *jobs: SlurmJob, reserved: str = "") -> list[Action]:
    listing = {record.name: record}
    there = size.seen(listing, seen(listing, jobs, reserved))
    return [*undrain.actions(there), *update.actions(there)]


def test_a_removed_nodes_record_goes_when_nothing_names_it() -> None:
    assert forget(state(0, 0), [leaving("cpu-0")]) == [DeleteRecord("cpu-0")]
    assert records.needs_full_listing(state(0, 0).seen({"cpu-0": leaving("cpu-0")}))
    assert records.actions(state(0, 0).seen({"cpu-0": leaving("cpu-0")})) == []
    assert records.actions(state(0, 0).seen({}, FullListing({"cpu-0": leaving("cpu-0")}, ()))) == [], (
        "nobody knows who names it"
    )


def test_a_record_stays_that_a_newer_slurmd_has_taken_over() -> None:
    seen = dataclasses.replace(leaving("cpu-0"), started=NOW)
    (action,) = forget(state(0, 0), [seen])
    assert isinstance(action, DeleteRecord)
    assert preconditions.hold(action, seen)
    assert not preconditions.hold(action, dataclasses.replace(seen, started=NOW + datetime.timedelta(seconds=1)))


@pytest.mark.parametrize("is_now", ["PENDING", "RUNNING", "SUSPENDED", "REQUEUE_HOLD", "A_STATE_OF_TOMORROW"])
def test_a_removed_nodes_record_stays_while_a_job_asks_for_it_or_excludes_it(is_now: str) -> None:
    assert forget(state(0, 0), [leaving("cpu-0")], naming("cpu-0", job(7, is_now))) == []
    assert forget(state(0, 0), [leaving("cpu-0")], naming("cpu-1", job(7, is_now))) == [DeleteRecord("cpu-0")]


def test_a_job_that_has_ended_keeps_no_record() -> None:
    assert forget(state(0, 0), [leaving("cpu-0")], naming("cpu-0", job(7, "COMPLETED"))) == [DeleteRecord("cpu-0")]


def test_a_removed_nodes_record_stays_while_a_reservation_names_it() -> None:
    assert forget(state(0, 0), [leaving("cpu-0")], reserved="cpu-0") == []


def test_a_record_that_stays_without_a_node_says_why_it_takes_no_jobs() -> None:
    silent = node("cpu-0", "DOWN", reason="Not responding", reason_user="slurm")
    assert forget(state(0, 0), [silent], naming("cpu-0")) == [Drain("cpu-0")]
    assert forget(state(0, 0), [silent]) == [DeleteRecord("cpu-0")]


def test_a_record_with_work_or_of_a_wanted_node_is_not_deleted() -> None:
    assert forget(state(0, 0), [leaving("cpu-0")], job(1, "RUNNING", "cpu-0")) == []
    assert forget(state(0, 0), [leaving("cpu-0", "MIXED", cpus=1)]) == []
    assert forget(state(1, 0), [leaving("cpu-0")]) == []


@pytest.mark.parametrize("facts", [SMALL, None], ids=["the same size", "a template of another program"])
def test_an_update_that_leaves_the_size_as_it_is_keeps_the_record(facts: Facts | None) -> None:
    assert restarts(declares(facts), sized(updating("cpu-0"), SMALL)) == [restarted("cpu-0")]


@pytest.mark.parametrize("facts", [LARGE, Facts(4, 999), Facts(4, 1000, "gpu:h100:8")])
def test_the_record_goes_with_the_pod_when_the_size_has_changed(facts: Facts) -> None:
    (action,) = restarts(declares(facts), sized(updating("cpu-0"), SMALL))
    assert action == dataclasses.replace(restarted("cpu-0"), forget=True)


NONE = tuple((key, 0) for key in ("CoreSpecCount", "MemSpecLimit", "RestrictedCoresPerGPU", "TmpDisk"))
FILLED_IN = (("Sockets", 4), ("CoresPerSocket", 1), ("ThreadsPerCore", 1))
SHOWN = Facts(4, 1000, options=NONE + FILLED_IN)


@pytest.mark.parametrize(
    ("declared", "shown"),
    [
        ((("MemSpecLimit", 64),), ()),
        ((("TmpDisk", 9),), ()),
        ((), (("CoreSpecCount", 1),)),
        ((("ThreadsPerCore", 2),), ()),
    ],
)
def test_the_record_goes_with_the_pod_when_options_have_changed(
    declared: tuple[tuple[str, int], ...], shown: tuple[tuple[str, int], ...]
) -> None:
    has = dataclasses.replace(SHOWN, options=tuple({**dict(SHOWN.options), **dict(shown)}.items()))
    other = declares(dataclasses.replace(SMALL, options=declared))
    assert restarts(other, sized(updating("cpu-0"), has)) == [dataclasses.replace(restarted("cpu-0"), forget=True)]
    assert restarts(other, sized(node("cpu-0"), has), naming("cpu-0")) == [], "slurmctld would refuse the new slurmd"


def test_what_slurm_fills_in_is_no_option() -> None:
    assert restarts(declares(SMALL), sized(updating("cpu-0"), SHOWN)) == [restarted("cpu-0")]


@pytest.mark.parametrize("reserved", ["", "cpu-0"], ids=["a job", "a reservation"])
def test_a_larger_node_that_is_named_moves_under_its_old_record_and_gets_another_when_nothing_names_it(
    reserved: str,
) -> None:
    names = [] if reserved else [naming("cpu-0")]
    assert restarts(declares(LARGE), sized(updating("cpu-0"), SMALL), *names, reserved=reserved) == [restarted("cpu-0")]
    moved = declares(LARGE, NEW)
    drained, serving = sized(updating("cpu-0"), SMALL), sized(node("cpu-0"), SMALL)
    assert restarts(moved, drained, *names, reserved=reserved) == [Undrain("cpu-0")]
    assert restarts(moved, serving, *names, reserved=reserved) == []
    assert [each.reason for each in records.findings(moved.seen({"cpu-0": serving}))] == ["RecordKept"]
    assert records.needs_full_listing(moved.seen({"cpu-0": serving}))
    assert restarts(moved, serving) == [Drain("cpu-0", REASON)]
    assert update.actions(moved.seen({"cpu-0": drained})) == [], "nobody knows yet"
    assert restarts(moved, drained) == [dataclasses.replace(restarted("cpu-0"), forget=True)]


def test_a_kept_record_is_told_with_the_jobs_that_keep_it_as_far_as_they_are_known() -> None:
    moved, runs = declares(LARGE, NEW), dataclasses.replace(job(8, "RUNNING", "cpu-0"), ends=NOW)
    serving, drained = sized(node("cpu-0"), SMALL), sized(updating("cpu-0"), SMALL)
    waits, both = "job 7 (waits)", "jobs 7 (waits), 8 (ends by 2026-01-01 00:00 UTC)"
    for record, words in ((serving, waits), (drained, both)):
        (kept,) = records.findings(moved.seen({"cpu-0": record}, jobs=(naming("cpu-0"), runs)))
        assert kept.message.endswith(f"names it: {words}"), "jobs come and go on a node that serves"
    (kept,) = records.findings(moved.seen({"cpu-0": serving}))
    assert kept.message.endswith("; kubectl -n slurm exec slurm-controller-0 -- scontrol show reservation)")


def test_a_smaller_node_that_is_named_keeps_its_pod_under_which_the_job_can_run() -> None:
    shrinks = declares(SMALL)
    serving = sized(node("cpu-0"), LARGE)
    assert update.needs_full_listing(shrinks.seen({"cpu-0": serving}))
    assert restarts(shrinks, serving, naming("cpu-0")) == []
    assert update.actions(shrinks.seen({"cpu-0": serving})) == []
    assert update.actions(shrinks.seen({"cpu-0": serving}, FullListing({"cpu-0": serving}, ()))) == []
    assert restarts(shrinks, serving) == [Drain("cpu-0", REASON)]
    work = sized(node("cpu-0", "MIXED", cpus=1), LARGE)
    assert restarts(shrinks, work, naming("cpu-0", job(7, "RUNNING", "cpu-0"))) == [Drain("cpu-0", REASON)], "it ends"
    assert restarts(shrinks, work, naming("cpu-0", job(7, "RUNNING", "cpu-1"))) == [], "it asked for either"
    assert restarts(shrinks, sized(updating("cpu-0"), LARGE), naming("cpu-0")) == [Undrain("cpu-0")], (
        "it was named later"
    )


def test_a_node_that_slurm_refused_under_a_record_of_a_larger_one_is_repaired() -> None:
    words = "Low RealMemory (reported:1000 < 100.00% of configured:2000)"
    refused = node("cpu-0", "IDLE", "DRAIN", "INVALID_REG", reason=words, reason_user="slurm")
    assert restarts(declares(SMALL, NEW, ready=True), sized(refused, LARGE)) == [Drain("cpu-0", REASON)]
    again = dataclasses.replace(updating("cpu-0", "IDLE", "INVALID_REG"), facts=LARGE)
    assert restarts(declares(SMALL, NEW), again) == [dataclasses.replace(restarted("cpu-0"), forget=True)]
    assert restarts(declares(LARGE, NEW), sized(refused, LARGE)) == [], "its Kubernetes node lacks something"


@pytest.mark.parametrize("words", ["Low TmpDisk", "gres/gpu count reported lower than configured (3 < 4)"])
def test_a_drain_that_slurm_leaves_after_it_refused_a_node_is_lifted(words: str) -> None:
    taken = node("cpu-0", "IDLE", "DRAIN", reason=words, reason_user="slurm")
    size = declares(SMALL, NEW, ready=True)
    assert restarts(size, taken) == [Undrain("cpu-0")]
    assert preconditions.hold(Undrain("cpu-0"), taken)
    first = dataclasses.replace(size, first_checks=("bandwidth",))
    assert restarts(first, taken) == [Drain("cpu-0", "pulumi-slurm:untested bandwidth")], "it may be new"
    assert restarts(declares(SMALL, NEW, ready=False), taken) == []
    refused = node("cpu-0", "IDLE", "DRAIN", "INVALID_REG", reason=words, reason_user="slurm")
    by_alice = dataclasses.replace(taken, reason_user="alice")
    for stays in (refused, by_alice, dataclasses.replace(taken, reason=f"{words}, says alice")):
        assert restarts(size, stays) == []
        assert not preconditions.hold(Undrain("cpu-0"), stays)


def test_a_record_that_its_own_slurmd_just_made_is_not_made_again() -> None:
    fresh = sized(node("cpu-0", "IDLE", "DRAIN", reason="pulumi-slurm:new", reason_user="root"), LARGE)
    assert restarts(declares(SMALL, NEW), fresh) == [Undrain("cpu-0")]


def test_slurms_own_names_for_the_kind_of_a_gpu_are_no_other_size() -> None:
    declared, shown = Facts(4, 1000, "gpu:h100:8"), Facts(4, 1000, "gpu:nvidia_h100_80gb_hbm3:8")
    assert not records.is_misread(declares(declared, NEW), sized(node("cpu-0"), shown))
    assert records.is_misread(declares(declared, NEW), sized(node("cpu-0"), Facts(4, 1000, "gpu:h100:7")))


def test_while_updates_are_paused_no_record_is_exchanged() -> None:
    paused = changed(declares(LARGE, NEW), update=dataclasses.replace(declares(LARGE).node_set.update, paused=True))
    assert restarts(paused, sized(node("cpu-0"), SMALL)) == []
    assert restarts(paused, sized(updating("cpu-0"), SMALL)) == [Undrain("cpu-0")]
