"""Promises of carrying decisions out: each against what is there at that moment, and only while the lease is ours."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import cast

import pytest
from slurm_operator import actions
from slurm_operator.clients import lease
from slurm_operator.clients.kubernetes import KubernetesApi

from contract import names, reasons
from tests.operator.fakes.fake_slurm import FakeSlurm
from tests.operator.fakes.fake_slurmrestd import FakeSlurmrestd
from tests.operator.played.carried_out import (
    NODE,
    REPAIR,
    UNFIT,
    Meanwhile,
    at_work,
    by_somebody,
    carry_out,
    gone,
    in_our_words,
    undrained,
)

UNTESTED = f"{reasons.UNTESTED}diag"
NOTE = f"{reasons.NODE}m is not ready"

ACTIONS: dict[str, actions.Action] = {
    "drain": actions.Drain(NODE),
    "undrain": actions.Undrain(NODE),
    "keep out": actions.DrainDown(NODE),
    "take jobs": actions.RequeueJobs(NODE),
    "give a reason back": actions.RestoreReason(NODE, "alice: bad fan"),
    "comment": actions.Comment(NODE, NOTE),
    "update node": actions.UpdateNode(NODE, ("cpu", "avx512"), 7),
    "place node": actions.UpdateNode(NODE, topology="fabric:rack1"),
    "delete record": actions.DeleteRecord(NODE),
}


def prepare(slurm: FakeSlurm, action: actions.Action) -> None:
    """Set the node as it was when the action was decided."""
    slurm.register(NODE)
    if isinstance(action, actions.DrainDown):
        slurm.take_down(NODE, "bad DIMM", "root")
    if isinstance(action, actions.RestoreReason):
        slurm.drain(NODE, "Low RealMemory", names.SLURM_USER)
        slurm.nodes[NODE]["state"].append("INVALID_REG")
    if isinstance(action, actions.Undrain | actions.RequeueJobs | actions.DeleteRecord):
        slurm.drain(NODE, reasons.SCALE_IN, names.SLURM_USER)
    if isinstance(action, actions.RequeueJobs):
        slurm.run_job(NODE)
        slurm.nodes[NODE]["state"].append("DRAIN")


@pytest.fixture
def perform(slurm: FakeSlurmrestd, tmp_path: Path) -> Callable[[actions.Action, int], str]:
    return lambda action, checks: carry_out(slurm, tmp_path, cast(KubernetesApi, None), action, checks)


@pytest.mark.parametrize("action", ACTIONS.values(), ids=ACTIONS)
def test_what_was_decided_is_done_while_nothing_has_changed(
    slurm: FakeSlurmrestd, perform: Callable[[actions.Action, int], str], action: actions.Action
) -> None:
    prepare(slurm.slurm, action)
    assert NODE in perform(action, 9)
    assert len(slurm.slurm.changes()) == 1


@pytest.mark.parametrize("checks", [0, 1])
@pytest.mark.parametrize("action", ACTIONS.values(), ids=ACTIONS)
def test_nothing_is_done_once_the_lease_is_lost_even_between_the_look_and_the_change(
    slurm: FakeSlurmrestd, perform: Callable[[actions.Action, int], str], action: actions.Action, checks: int
) -> None:
    prepare(slurm.slurm, action)
    with pytest.raises(lease.NotLeading):
        perform(action, checks)
    assert slurm.slurm.changes() == []


def failing(slurm: FakeSlurm) -> None:
    slurm.nodes[NODE].update(state=["IDLE", "FAIL", "DYNAMIC_NORM"], reason="rma-123", reason_set_by_user="root")


def set_down(slurm: FakeSlurm) -> None:
    slurm.take_down(NODE, "bad DIMM", "root")


def updated(slurm: FakeSlurm) -> None:
    slurm.nodes[NODE].update(features=["avx512", "cpu"], weight=7)


def commented(slurm: FakeSlurm) -> None:
    slurm.nodes[NODE]["comment"] = "a fan is broken"


@pytest.mark.parametrize(
    ("action", "meanwhile"),
    [
        ("drain", by_somebody),
        ("drain", failing),
        ("drain", set_down),
        ("drain", gone),
        ("keep out", by_somebody),
        ("keep out", failing),
        ("keep out", gone),
        ("undrain", by_somebody),
        ("undrain", in_our_words),
        ("undrain", gone),
        ("take jobs", by_somebody),
        ("take jobs", in_our_words),
        ("take jobs", gone),
        ("delete record", by_somebody),
        ("delete record", failing),
        ("delete record", set_down),
        ("delete record", gone),
        ("delete record", undrained),
        ("comment", commented),
        ("comment", gone),
        ("update node", updated),
        ("update node", gone),
    ],
)
def test_what_somebody_else_has_done_meanwhile_stays(
    slurm: FakeSlurmrestd, perform: Callable[[actions.Action, int], str], action: str, meanwhile: Meanwhile
) -> None:
    prepare(slurm.slurm, ACTIONS[action])
    meanwhile(slurm.slurm)
    assert perform(ACTIONS[action], 9) == ""
    assert slurm.slurm.changes() == []


@pytest.mark.parametrize(("behind", "taken"), [(0, True), (3600, False)])
def test_jobs_are_taken_by_the_clock_that_set_the_drains_time(
    slurm: FakeSlurmrestd, perform: Callable[[actions.Action, int], str], behind: int, taken: bool
) -> None:
    action = actions.RequeueJobs(NODE, 600)
    prepare(slurm.slurm, action)
    drained = int(time.time()) - behind - (900 if taken else 60)
    slurm.slurm.nodes[NODE]["reason_changed_at"] = {"set": True, "infinite": False, "number": drained}
    slurm.slurm.behind = behind
    assert bool(perform(action, 9)) is taken
    assert bool(slurm.slurm.changes()) is taken


def test_a_node_that_a_person_set_down_is_drained_in_his_name(
    slurm: FakeSlurmrestd, perform: Callable[[actions.Action, int], str]
) -> None:
    prepare(slurm.slurm, ACTIONS["keep out"])
    assert perform(ACTIONS["keep out"], 9) == f"drained {NODE} under the reason of root, who set it DOWN: bad DIMM"
    record = slurm.slurm.nodes[NODE]
    assert (record["reason"], record["reason_set_by_user"]) == ("bad DIMM", "root")
    assert {"DOWN", "DRAIN"} <= {*record["state"]}


@pytest.mark.parametrize("meanwhile", [by_somebody, in_our_words, undrained, at_work])
@pytest.mark.parametrize("purpose", [actions.Purpose.UPDATE, actions.Purpose.ANEW])
def test_a_pod_stays_whose_node_is_no_longer_idle_under_the_same_drain(
    slurm: FakeSlurmrestd,
    perform: Callable[[actions.Action, int], str],
    purpose: actions.Purpose,
    meanwhile: Meanwhile,
) -> None:
    slurm.slurm.register(NODE)
    reason, why = (reasons.UPDATE, "why") if purpose is actions.Purpose.UPDATE else (REPAIR, UNFIT)
    slurm.slurm.drain(NODE, reason, names.SLURM_USER)
    meanwhile(slurm.slurm)
    # There is no API server here, so that a deletion would fail.
    assert perform(actions.DeletePod(NODE, "7", purpose, why), 9) == ""


@pytest.mark.parametrize(
    ("reason", "by"),
    [
        (UNFIT, "root"),
        (UNFIT, names.SLURM_USER),
        (UNFIT, "alice"),
        (REPAIR, "alice"),
        (REPAIR, "root"),
        (NOTE, "alice"),
    ],
)
def test_a_repair_asks_who_wrote_the_drain_and_not_only_what_it_says(
    slurm: FakeSlurmrestd, perform: Callable[[actions.Action, int], str], reason: str, by: str
) -> None:
    slurm.slurm.register(NODE)
    slurm.slurm.drain(NODE, reason, by)
    why = NOTE if reason == NOTE else UNFIT
    assert perform(actions.DeletePod(NODE, "7", actions.Purpose.ANEW, why), 9) == ""


def test_a_drain_for_a_repair_takes_the_nodes_own_over_and_writes_over_nothing_else(
    slurm: FakeSlurmrestd, perform: Callable[[actions.Action, int], str]
) -> None:
    slurm.slurm.register(NODE)
    assert perform(actions.Drain(NODE, REPAIR), 9) == "", "it recovered"
    for reason, by in (("bad disk", "alice"), (UNFIT, "alice"), (f"{UNFIT}, or 2", "root"), (reasons.UPDATE, "slurm")):
        slurm.slurm.drain(NODE, reason, by)
        assert perform(actions.Drain(NODE, REPAIR), 9) == ""
    slurm.slurm.drain(NODE, UNFIT, "root")
    assert perform(actions.Drain(NODE, REPAIR), 9) == f"drained {NODE}: repair health gpus: 3 of 4 GPUs answer"
    record = slurm.slurm.nodes[NODE]
    assert (record["reason"], record["reason_set_by_user"]) == (REPAIR, names.SLURM_USER)
    assert perform(actions.Undrain(NODE), 9) == f"undrained {NODE}: its pod is ready again"


def test_an_event_says_why_a_drain_ends_and_whose_word_stays(
    slurm: FakeSlurmrestd, perform: Callable[[actions.Action, int], str]
) -> None:
    slurm.slurm.register(NODE)
    slurm.slurm.drain(NODE, reasons.UPDATE, names.SLURM_USER)
    assert perform(actions.Undrain(NODE), 9) == f"undrained {NODE}: it waits for no update any more"
    slurm.slurm.take_down(NODE, "bad DIMM", "")
    kept = f"drained {NODE} under the reason of somebody, who set it DOWN: bad DIMM"
    assert perform(actions.DrainDown(NODE), 9) == kept, "slurmrestd knows no name of most users"


def test_a_pod_stays_whose_repair_was_for_a_node_that_slurm_no_longer_tells_of(
    perform: Callable[[actions.Action, int], str],
) -> None:
    assert perform(actions.DeletePod(NODE, "7", actions.Purpose.ANEW, UNFIT), 9) == ""


@pytest.mark.parametrize(
    ("reason", "user", "wanted", "becomes"),
    [
        (reasons.NEW, "root", reasons.UPDATE, True),
        (UNFIT, "root", reasons.UPDATE, True),
        ("bad disk", "root", reasons.UPDATE, False),
        (reasons.UPDATE, names.SLURM_USER, reasons.SCALE_IN, True),
        (reasons.UPDATE, "root", reasons.SCALE_IN, False),
        (reasons.SCALE_IN, names.SLURM_USER, reasons.UPDATE, True),
        (f"{reasons.SCALE_IN}{reasons.DEADLINE_PASSED}", names.SLURM_USER, reasons.UPDATE, True),
        (reasons.SCALE_IN, "root", reasons.UPDATE, False),
        (UNFIT, "root", reasons.SCALE_IN, True),
        (NOTE, names.SLURM_USER, reasons.SCALE_IN, True),
        (NOTE, "root", reasons.SCALE_IN, False),
        (f"{reasons.SCALE_IN}{reasons.DEADLINE_PASSED}", names.SLURM_USER, reasons.SCALE_IN, False),
        ("bad disk", "root", reasons.SCALE_IN, False),
        (UNFIT, "root", NOTE, True),
        ("bad disk", "root", NOTE, False),
        (reasons.NEW, "root", NOTE, True),
        (reasons.SCALE_IN, names.SLURM_USER, NOTE, True),
        (f"{reasons.UPDATE}{reasons.DEADLINE_PASSED}", names.SLURM_USER, NOTE, True),
        (reasons.UPDATE, "root", NOTE, False),
        (reasons.UPDATE, names.SLURM_USER, reasons.NEW, True),
        (NOTE, names.SLURM_USER, reasons.NEW, True),
        (NOTE, "root", reasons.NEW, False),
        (UNFIT, "root", reasons.NEW, False),
        (reasons.NEW, "root", UNTESTED, True),
        (NOTE, names.SLURM_USER, UNTESTED, True),
        (UNFIT, "root", UNTESTED, False),
        ("bad disk", "root", UNTESTED, False),
        (UNTESTED, names.SLURM_USER, reasons.NEW, True),
        (UNTESTED, names.SLURM_USER, reasons.UPDATE, True),
        (UNTESTED, names.SLURM_USER, reasons.SCALE_IN, True),
        (UNTESTED, names.SLURM_USER, NOTE, True),
        (UNTESTED, names.SLURM_USER, f"{reasons.LONG_CHECK}diag: job 7 TIMEOUT", True),
        (reasons.UPDATE, names.SLURM_USER, f"{reasons.LONG_CHECK}diag: job 7 TIMEOUT", False),
    ],
)
def test_a_drain_of_ours_and_an_unfit_nodes_own_may_get_another_reason_of_ours(
    slurm: FakeSlurmrestd,
    perform: Callable[[actions.Action, int], str],
    reason: str,
    user: str,
    wanted: str,
    becomes: bool,
) -> None:
    slurm.slurm.register(NODE)
    slurm.slurm.drain(NODE, reason, user)
    assert bool(perform(actions.Drain(NODE, wanted), 9)) is becomes
    assert slurm.slurm.nodes[NODE]["reason"] == (wanted if becomes else reason)
