"""Promises about `scontrol reboot`: the pod starts anew once, when no job is there, and what a person said stays."""

from __future__ import annotations

import dataclasses
import datetime
import json
from typing import Any

import msgspec
import pytest
from slurm_operator.actions import Action, DeletePod, DrainDown, Purpose, Undrain
from slurm_operator.clients.slurm import slurmrestd_records
from slurm_operator.decide.cluster import status
from slurm_operator.decide.node_sets import full_listing, reboot, update
from slurm_operator.decide.node_sets.node_set import decide
from slurm_operator.decide.nodes.workers import NodeSetState
from slurm_operator.state.kubernetes import K8sNode
from slurm_operator.state.slurm import FullListing, SlurmJob, SlurmNode

from contract.conditions import Reason
from tests.operator.states.sets import NOW, changed, job, node
from tests.operator.states.updates import NEW, pod, state

MINUTE = datetime.timedelta(minutes=1)


def rebooted(*states: str, **changes: Any) -> SlurmNode:
    """A node that Slurm has rebooted now; its slurmd started when its pod did."""
    there = node("cpu-0", *(states or ("DOWN",)), "REBOOT_ISSUED", reason="reboot requested", reason_user="slurm")
    return dataclasses.replace(there, started=NOW, reason_set=NOW, **changes)


def there(**changes: Any) -> NodeSetState:
    return state([pod("cpu-0", NEW, **{"created": NOW - MINUTE, "k8s_node": "m", **changes})])


def decided(size: NodeSetState, seen: SlurmNode, *jobs: SlurmJob, hold: str = "") -> list[Action]:
    listing = {seen.name: seen}
    return decide(dataclasses.replace(size.seen(listing, FullListing(listing, jobs)), hold=hold)).actions


RESTART = [DeletePod("cpu-0", "7", Purpose.REBOOT, "as scontrol reboot asked")]


@pytest.mark.parametrize("states", [("DOWN",), ("DOWN", "DRAIN"), ("DOWN", "MAINTENANCE", "RESERVED")])
def test_a_node_that_slurm_has_rebooted_gets_a_new_pod(states: tuple[str, ...]) -> None:
    assert reboot.needs_full_listing(there().seen({"cpu-0": rebooted(*states)}))
    assert full_listing.is_needed(there().seen({"cpu-0": rebooted(*states)}))
    assert decided(there(), rebooted(*states)) == RESTART
    person = rebooted("DOWN", "DRAIN", reason="bad fan", reason_user="alice")
    assert decided(there(), person) == RESTART, "and his drain is nobody else's"


@pytest.mark.parametrize(
    "busy",
    [rebooted("DOWN", "COMPLETING"), rebooted(allocated_cpus=1), rebooted(allocated_memory=1), rebooted(busy=True)],
)
def test_no_pod_goes_under_a_job(busy: SlurmNode) -> None:
    assert decided(there(), busy) == []


@pytest.mark.parametrize("kind", ["RUNNING", "SUSPENDED", "COMPLETING"])
def test_a_job_that_only_the_listing_of_jobs_shows_keeps_the_pod(kind: str) -> None:
    assert decided(there(), rebooted(), job(1, kind, "cpu-0")) == []


def test_it_waits_until_slurm_has_rebooted_the_node() -> None:
    for states in (("IDLE", "REBOOT_REQUESTED"), ("IDLE", "DRAIN", "REBOOT_REQUESTED"), ("MIXED", "REBOOT_REQUESTED")):
        asked = node("cpu-0", *states, reason="Reboot ASAP", reason_user="alice")
        assert not reboot.needs_full_listing(there().seen({"cpu-0": asked}))
        assert decided(there(), asked) == []


def test_the_new_pod_is_left_alone_until_its_slurmd_registers() -> None:
    after = NOW + MINUTE
    assert decided(there(created=after, ready=False), rebooted()) == [], "it is younger than the reboot"
    assert decided(there(created=after, ready=True), rebooted()) == []
    assert decided(there(ready=False, created=NOW, terminating=True), rebooted()) == []
    never = rebooted()
    assert decided(there(ready=False), dataclasses.replace(never, started=NOW - 2 * MINUTE)) == [], "of another pod"


def test_a_pod_on_a_lost_machine_and_one_that_is_held_stay() -> None:
    away = dataclasses.replace(there(), k8s_nodes={"m": K8sNode(away_since=NOW)})
    assert not [each for each in decided(away, rebooted()) if isinstance(each, DeletePod)]
    assert decided(there(), rebooted(), hold="pulumi up is under way") == []


def test_nobody_takes_a_reboot_for_a_persons_word() -> None:
    assert not [each for each in decided(there(), rebooted()) if isinstance(each, DrainDown)]


def test_a_reboot_is_told_and_blocks_nothing() -> None:
    _, found = status.node_set(there().seen({"cpu-0": rebooted()}))
    assert [(each.reason, each.message) for each in found] == [
        (Reason.NODES_REBOOT, "cpu-0 starts anew, as scontrol reboot asked")
    ]
    _, found = status.node_set(there().seen({"cpu-0": node("cpu-0", "IDLE", "REBOOT_REQUESTED")}))
    assert [*found] == [], "it takes jobs until it is idle"


def test_a_reboot_that_waits_for_jobs_names_them_with_their_ends() -> None:
    asked = node("cpu-0", "MIXED", "DRAIN", "REBOOT_REQUESTED", cpus=1, reason="Reboot ASAP", reason_user="alice")
    runs = dataclasses.replace(job(7, "RUNNING", "cpu-0"), ends=NOW)
    _, found = status.node_set(there().seen({"cpu-0": asked}, jobs=(runs,)))
    assert [each.message for each in found if each.reason is Reason.NODES_REBOOT] == [
        "as scontrol reboot asked, cpu-0 starts anew when its jobs have ended: job 7 (ends by 2026-01-01 00:00 UTC)"
    ]


def test_a_node_that_an_update_took_keeps_its_slot_while_it_is_rebooted() -> None:
    two = changed(state([pod("cpu-0", NEW, ready=False), pod("cpu-1")]), updating=frozenset({"cpu-0"}))
    assert update.holding_slots(two.seen({"cpu-0": rebooted(), "cpu-1": node("cpu-1")})) == {"cpu-0"}
    person = rebooted("DOWN", "DRAIN", reason="bad fan", reason_user="alice")
    assert update.holding_slots(two.seen({"cpu-0": person, "cpu-1": node("cpu-1")})) == frozenset()


CAUSES = [
    "Low RealMemory (reported:1 < 100.00% of configured:2)",
    "gres/gpu count reported lower than configured (3 < 4)",
    "Reported active features (a) are not a superset of currently active changeable features (b)",
]


@pytest.mark.parametrize("held", [(), ("DRAIN",)])
@pytest.mark.parametrize("cause", CAUSES)
def test_a_node_gets_one_pod_for_each_reboot_whatever_slurm_refuses_it_for(cause: str, held: tuple[str, ...]) -> None:
    """Slurm says REBOOT_ISSUED for good then. It writes the cause when the new pod is there already."""

    def seen(reason: str) -> SlurmNode:
        states = ["DOWN", *held, "INVALID_REG", "REBOOT_ISSUED"]
        now = {"number": int(NOW.timestamp())}
        times = {"slurmd_start_time": now, "reason_changed_at": now}
        record = {"name": "cpu-0", "state": states, "reason": reason, "reason_set_by_user": "slurm", "alloc_cpus": 0}
        return slurmrestd_records.node(msgspec.Raw(json.dumps({**record, **times}).encode()))

    assert decided(there(), seen(f"{cause} : reboot issued")) == RESTART, (
        "it was refused before somebody asked for that"
    )
    assert decided(there(), seen(cause)) == []
    assert decided(there(), seen("bad fan")) == [], "and then somebody drained it"
    assert not status.node_set(there().seen({"cpu-0": seen(cause)}))[1].progressing


def test_a_drain_of_ours_is_not_lifted_while_slurm_refuses_the_node() -> None:
    """Slurm would refuse that at each pass."""
    back = node("cpu-0", "IDLE", "DRAIN", reason="pulumi-slurm:scale-in", reason_user="slurm")
    refused = dataclasses.replace(back, states=back.states | {"INVALID_REG"})
    assert decided(there(), back) == [Undrain("cpu-0")]
    assert decided(there(), refused) == []
