"""Promises about conditions: Available means jobs can run as declared, and what is wrong is said in words."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from slurm_operator import report
from slurm_operator.decide.cluster import serving, status
from slurm_operator.decide.cluster.status import Counts
from slurm_operator.findings import Condition, Finding, Findings, Severity, under_way
from slurm_operator.state.kubernetes import Unread
from slurm_operator.state.resources import NodeSet
from slurm_operator.state.slurm import SlurmJob, SlurmNode

from contract import reasons
from contract.conditions import Reason
from tests.operator.states.seen_clusters import BLIND, BOTH, NOW, judge, node, nodes, workload, world
from tests.operator.states.sets import node_set

SHOW = "kubectl -n slurm exec slurm-controller-0 -- scontrol show"


def test_a_cluster_with_all_its_nodes_is_available() -> None:
    found, counts = judge(world(), BOTH)
    assert {kind: each.status for kind, each in found.items()} == {
        "Available": "True",
        "Progressing": "False",
        "Degraded": "False",
        "DrainedByPeople": "False",
        "Ready": "True",
        "Reconciling": "False",
        "Stalled": "False",
    }
    assert counts == Counts(2, ready=2, idle=1, allocated=1, drained=0, down=0, draining=0, updated=2, by_people=0)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"ledger_revision": None}, "LedgerMismatch"),
        ({"ledger_revision": "r0"}, "LedgerMismatch"),
        ({"desired_config": None, "active_config": None}, "ConfigurationMissing"),
        ({"workloads": {"cpu": workload("cpu", 2)}}, "LoginNotReady"),
        ({"workloads": {"cpu": workload("cpu", 2), "slurm-login": workload("slurm-login", 2, 1)}}, "LoginNotReady"),
        (
            {"workloads": {"cpu": workload("cpu", 2), "slurm-login": workload("slurm-login", current=False)}},
            "LoginNotReady",
        ),
    ],
)
def test_what_is_missing_blocks_available(changes: dict[str, Any], reason: str) -> None:
    found, _ = judge(world(**changes), BOTH)
    assert (found["Available"].status, found["Available"].reason) == ("False", reason)


def test_what_may_not_be_read_is_not_called_missing() -> None:
    unread = {Unread.CONFIGURATION: "forbidden", Unread.REST: "forbidden"}
    seen = world(unread=unread, desired_config=None, active_config=None, rest=None)
    assert judge(seen, BOTH)[0]["Available"].status == "True"
    assert judge(seen, BLIND)[0]["Available"].reason == BLIND.reason
    no_ledger = judge(world(unread={Unread.LEDGER: "forbidden"}, ledger_revision=None), BOTH)[0]["Available"]
    assert (no_ledger.status, no_ledger.reason) == ("False", "LedgerMismatch")
    assert "can't be read" in no_ledger.message


@pytest.mark.parametrize(
    ("second", "reason"),
    [
        (None, "NodesNotReady"),
        (node("cpu-1", "IDLE", "NOT_RESPONDING"), "NodesNotReady"),
        (node("cpu-1", "IDLE", "DRAIN", reason="pulumi-slurm:scale-in", user="slurm"), "NodesNotReady"),
        (node("cpu-1", "DOWN", reason="Not responding"), "NodesDown"),
        (node("cpu-1", "UNKNOWN"), "NodesNotReady"),
        (node("cpu-1", "IDLE", "POWERING_DOWN"), "NodesNotReady"),
    ],
)
def test_a_wanted_node_that_takes_no_jobs_blocks_available(second: SlurmNode | None, reason: str) -> None:
    found, counts = judge(world(), nodes(node("cpu-0"), *([second] if second else [])))
    assert (found["Available"].status, found["Available"].reason) == ("False", reason)
    assert "cpu-1" in found["Available"].message
    assert counts.ready == 1


def test_a_node_is_not_ready_before_its_pod_is() -> None:
    seen = world()
    pods = dict(seen.pods) | {"cpu-1": dataclasses.replace(seen.pods["cpu-1"], ready=False)}
    assert judge(dataclasses.replace(seen, pods=pods), BOTH)[0]["Available"].reason == "NodesNotReady"


@pytest.mark.parametrize(("user", "author"), [("root", "root"), ("alice", "alice"), ("", "somebody")])
def test_an_administrators_drain_is_told_and_blocks_nothing(user: str, author: str) -> None:
    """slurmrestd gives no name for users of the jail, whom its own pod does not know."""
    drained = node("cpu-1", "DOWN", "DRAIN", reason="bad disk", user=user)
    found, counts = judge(world(), nodes(node("cpu-0"), drained))
    assert found["Available"].status == "True"
    assert found["Degraded"].status == "False", "he knows, and an alert would be on for as long as it lasts"
    told = Condition("DrainedByPeople", "True", Reason.DRAINED_BY_PEOPLE, f"drained by {author}: cpu-1 (bad disk)")
    assert found["DrainedByPeople"] == told
    assert (counts.ready, counts.drained, counts.by_people, counts.down) == (1, 1, 1, 0)


@pytest.mark.parametrize(
    ("reason", "user"),
    [
        ("pulumi-slurm:health gpus: 3 of 4 GPUs answer", "root"),
        ("pulumi-slurm:repair health gpus: 3 of 4 GPUs answer", "slurm"),
        ("Kill task failed", "slurm"),
        ("Prolog error", "slurm"),
    ],
)
def test_what_a_node_or_slurm_found_is_a_fault(reason: str, user: str) -> None:
    found, _ = judge(world(), nodes(node("cpu-0"), node("cpu-1", "IDLE", "DRAIN", reason=reason, user=user)))
    assert found["Degraded"] == Condition("Degraded", "True", Reason.NODES_DRAINED, f"drained: cpu-1 ({reason})")
    assert found["DrainedByPeople"].status == "False"


def kstatus(found: dict[str, Condition]) -> tuple[str, str, str]:
    return found["Ready"].status, found["Reconciling"].status, found["Stalled"].status


def test_tools_that_read_kstatus_see_ready_waiting_and_stalled() -> None:
    assert kstatus(judge(world(), BOTH)[0]) == ("True", "False", "False")
    assert kstatus(judge(world(), nodes(node("cpu-0")))[0]) == ("False", "True", "False"), "cpu-1 starts"
    assert kstatus(judge(world(), BLIND)[0]) == ("Unknown", "False", "False")
    leaving = node("cpu-1", "MIXED", "DRAIN", reason="pulumi-slurm:scale-in", user="slurm", cpus=1)
    found = judge(world(), nodes(node("cpu-0"), leaving), wanted=1)[0]
    assert kstatus(found) == ("True", "False", "False"), "a job that runs for a week is none of theirs"
    refused = Finding(Reason.CONFIGURATION_REFUSED, "slurmctld refuses it", Severity.WRONG | Severity.BLOCKING)
    told = Findings([refused, under_way(Reason.SCALING, "growing")]).conditions("")
    assert kstatus({each.type: each for each in told}) == ("False", "False", "True")


def test_what_only_a_person_ends_is_told_before_all_else_that_blocks() -> None:
    down = Finding(Reason.NODES_DOWN, "down in Slurm: cpu-1", Severity.BLOCKING)
    refused = Finding(Reason.CONFIGURATION_REFUSED, "slurmctld refuses it", Severity.BLOCKING)
    available, *_ = Findings([down, refused]).conditions("")
    assert (available.reason, available.message) == (refused.reason, f"{refused.message}; {down.message}")


def test_while_nodes_cannot_be_seen_what_people_said_of_them_stays_told() -> None:
    assert "DrainedByPeople" not in judge(world(), BLIND)[0]


@pytest.mark.parametrize(
    ("flags", "reason", "user", "told"),
    [
        (
            ("RESERVED",),
            "pulumi-slurm:scale-in",
            "slurm",
            f"cpu-1 (RESERVED); see {SHOW} reservation",
        ),
        (("RESERVED", "MAINTENANCE"), "pulumi-slurm:update", "slurm", "cpu-1 (MAINTENANCE, RESERVED)"),
        (("RESERVED",), "pulumi-slurm:node m is cordoned", "slurm", "cpu-1 (RESERVED)"),
        (
            ("PLANNED",),
            "pulumi-slurm:scale-in",
            "slurm",
            f"cpu-1 (PLANNED); see {SHOW} node cpu-1",
        ),
        (("BLOCKED",), "pulumi-slurm:scale-in", "slurm", ""),
        ((), "pulumi-slurm:scale-in", "slurm", ""),
        (("COMPLETING", "RESERVED"), "pulumi-slurm:scale-in", "slurm", ""),
        (("RESERVED",), "bad disk", "root", ""),
    ],
)
def test_what_keeps_a_drained_node_without_jobs_from_being_idle_is_named(
    flags: tuple[str, ...], reason: str, user: str, told: str
) -> None:
    kept = node("cpu-1", "IDLE", "DRAIN", *flags, reason=reason, user=user)
    progressing = judge(world(), nodes(node("cpu-0"), kept), wanted=1)[0]["Progressing"].message
    assert ("kept by Slurm" in progressing) == bool(told)
    assert told in progressing


def test_with_every_node_drained_no_job_can_run() -> None:
    both = [node(f"cpu-{n}", "IDLE", "DRAIN", reason="maintenance") for n in range(2)]
    assert judge(world(), nodes(*both))[0]["Available"].reason == "NoUsableNodes"


def test_of_two_node_sets_with_one_stateful_set_neither_is_served() -> None:
    seen = world()
    both = dataclasses.replace(seen, node_sets=(*seen.node_sets, NodeSet("again", "test", "cpu", 0)))
    for each in both.node_sets:
        found = serving.refusal(both, each)
        assert found
        assert [each.reason for each in found.blocking] == ["StatefulSetShared"]


def test_no_wanted_nodes_is_available() -> None:
    assert judge(world(0), {})[0]["Available"].status == "True"


def test_a_node_that_leaves_blocks_nothing_and_says_for_what_it_waits() -> None:
    leaving = node("cpu-1", "MIXED", "DRAIN", reason="pulumi-slurm:scale-in", user="slurm", cpus=1)
    found, counts = judge(world(), nodes(node("cpu-0"), leaving), wanted=1)
    assert found["Available"].status == "True"
    assert "cpu-1 leaves when its jobs have ended" in found["Progressing"].message
    assert counts == Counts(1, ready=1, idle=1, allocated=1, drained=0, down=0, draining=1, updated=1, by_people=0)


def test_a_record_that_outlives_its_node_is_in_nobodys_counts() -> None:
    left = node("cpu-7", "IDLE", "DRAIN", "DYNAMIC_NORM", reason=reasons.SCALE_IN, user="slurm")
    found, counts = judge(world(), nodes(*BOTH.values(), left))
    assert (counts, found["Available"].status) == (judge(world(), BOTH)[1], "True")
    assert found["Degraded"].status == "False"


def test_jobs_that_are_waited_for_are_named_with_the_ends_of_their_time_limits() -> None:
    limited = SlurmJob(12, frozenset({"RUNNING"}), frozenset({"main"}), frozenset({"cpu-1"}), ends=NOW)
    endless = dataclasses.replace(limited, job_id=9, ends=None)
    elsewhere = dataclasses.replace(limited, job_id=3, nodes=frozenset({"cpu-0"}))
    ended = dataclasses.replace(limited, job_id=4, states=frozenset({"COMPLETED"}))
    leaving = node("cpu-1", "MIXED", "DRAIN", reason="pulumi-slurm:scale-in", user="slurm", cpus=1)
    size = node_set(1, 2, world().pods.values(), NOW)
    _, found = status.node_set(size.seen(nodes(node("cpu-0"), leaving), jobs=(limited, endless, elsewhere, ended)))
    assert found.of(Severity.PROGRESSING)[1].message == (
        "cpu-1 leaves when its jobs have ended: jobs 9 (no known end), 12 (ends by 2026-01-01 00:00 UTC)"
    )


def test_slurm_out_of_sight_is_unknown_when_its_pods_look_well() -> None:
    found, counts = judge(world(), BLIND)
    assert (found["Available"].status, found["Available"].reason) == ("Unknown", "RestUnreachable")
    assert found["Degraded"].status == "True"
    assert counts == Counts(wanted=2)


def test_slurm_out_of_sight_is_unavailable_when_its_pods_are_not_ready() -> None:
    found, _ = judge(world(rest=workload("slurm-rest", 1, 0)), BLIND)
    assert (found["Available"].status, found["Available"].reason) == ("False", "RestNotReady")
    assert found["Degraded"].status == "False", "what is still starting is no fault"
    gone = world(workloads={"cpu": workload("cpu", 2), "slurm-login": workload("slurm-login")})
    assert judge(gone, BLIND)[0]["Available"].reason == "ControllerNotReady"


@pytest.mark.parametrize(
    ("declared", "asked", "reason"),
    [(2, 2, "AsDeclared"), (2, None, "AsDeclared"), (None, 5, "NotDeclared"), (2, 5, "ReplicasDiffer")],
)
def test_a_number_of_nodes_that_is_not_the_programs_is_told(
    declared: int | None, asked: int | None, reason: str
) -> None:
    told = status.scaled_outside(NodeSet("cpu", "test", "cpu", asked, declared=declared, scaled_by=("kubectl",)))
    assert (told.type, told.reason) == ("ScaledOutsidePulumi", reason)
    assert told.status == ("True" if reason == "ReplicasDiffer" else "False")
    if reason == "ReplicasDiffer":
        assert told.message.startswith("kubectl asked for 5 nodes, the program declares 2, ")


def test_many_nodes_are_counted_not_listed() -> None:
    seen = world(500)
    message = judge(seen, {})[0]["Available"].message
    assert message.startswith("node set cpu: cpu-0, cpu-1, cpu-2, cpu-3, cpu-4 and 495 more")
    assert len(message) < 1100


def test_the_headline_is_what_matters_most() -> None:
    drained = nodes(node("cpu-0"), node("cpu-1", "IDLE", "DRAIN", reason="bad disk"))
    assert report.headline(judge(world(), drained)[0].values()) == "all well; drained by root: cpu-1 (bad disk)"
    assert report.headline(judge(world(), BLIND)[0].values()) == BLIND.message
    assert report.headline(judge(world(), BOTH)[0].values()) == "all well"
