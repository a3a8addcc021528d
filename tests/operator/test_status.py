"""Promises about conditions: Available means jobs can run as declared, and what is wrong is said in words."""

from __future__ import annotations

import dataclasses
import datetime
from typing import Any

import pytest
from slurm_operator import report
from slurm_operator.decide.cluster import accounting, serving, status
from slurm_operator.decide.cluster.status import Counts
from slurm_operator.decide.nodes.workers import NodeSetState
from slurm_operator.findings import Condition, Finding, Findings, Severity, under_way
from slurm_operator.parse.pods import parse_pod
from slurm_operator.state.kubernetes import Kubernetes, Pod, Unread, Workload
from slurm_operator.state.resources import Cluster, NodeSet
from slurm_operator.state.slurm import Nodes, SlurmJob, SlurmNode, Unknown

from contract import reasons
from contract.conditions import Reason
from tests.operator.sets import node_set

NOW = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
CLUSTER = Cluster(
    *("test", "r1", "http://slurm-rest:6820", "slurm-config-wanted", "slurm-config"),
    *("slurm-controller", "slurm-rest", "slurm-login"),
)
BLIND = Unknown("RestUnreachable", "http://slurm-rest:6820: no answer in time")


def node(name: str, *states: str, reason: str = "", user: str = "root", cpus: int = 0) -> SlurmNode:
    return SlurmNode(name, frozenset(states or {"IDLE", "DYNAMIC_NORM"}), reason, user, cpus)


def workload(name: str, size: int = 1, ready: int | None = None, *, current: bool = True) -> Workload:
    return Workload(name, size, size if ready is None else ready, "1", current, size)


def world(size: int = 2, **changes: Any) -> Kubernetes:
    names = [f"cpu-{n}" for n in range(size)]
    return dataclasses.replace(
        Kubernetes(
            cluster=CLUSTER,
            node_sets=(NodeSet("cpu", "test", "cpu", size),),
            workloads={
                "cpu": workload("cpu", size),
                **{name: workload(name) for name in ("slurm-controller", "slurm-login")},
            },
            rest=workload("slurm-rest"),
            pods={name: Pod(name, "worker", ready=True, running=True, created=NOW) for name in names},
            desired_config={"slurm.conf": ""},
            active_config={"slurm.conf": ""},
            ledger_revision="r1",
        ),
        **changes,
    )


def judge(seen: Kubernetes, nodes: Nodes | Unknown, wanted: int | None = None) -> tuple[dict[str, Condition], Counts]:
    node_set = seen.node_sets[0]
    there = seen.workloads.get("cpu")
    size = there.replicas if there and wanted is None else wanted
    asked = node_set if size is None else dataclasses.replace(node_set, replicas=size)
    counts, found = status.node_set(NodeSetState(asked, there, seen.pods, NOW).seen(nodes))
    counts = status.total([counts])
    conditions = status.cluster(seen, nodes, found, counts).conditions("all well")
    return {condition.type: condition for condition in conditions}, counts


def nodes(*there: SlurmNode) -> Nodes:
    return {each.name: each for each in there}


BOTH = nodes(node("cpu-0"), node("cpu-1", "MIXED", "DYNAMIC_NORM", cpus=1))


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
        (("RESERVED",), "pulumi-slurm:scale-in", "slurm", "cpu-1 (RESERVED); see scontrol show reservation"),
        (("RESERVED", "MAINTENANCE"), "pulumi-slurm:update", "slurm", "cpu-1 (MAINTENANCE, RESERVED)"),
        (("RESERVED",), "pulumi-slurm:node m is cordoned", "slurm", "cpu-1 (RESERVED)"),
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


def test_what_keeps_pods_from_starting_is_told_in_their_words() -> None:
    seen = world()
    pulling = Pod("cpu-1", "worker", ready=False, running=False, trouble="ImagePullBackOff: no such image")
    ending = dataclasses.replace(pulling, name="cpu-9", terminating=True)
    found, _ = judge(dataclasses.replace(seen, pods=dict(seen.pods) | {"cpu-1": pulling, "cpu-9": ending}), BOTH)
    assert found["Degraded"] == Condition(
        "Degraded", "True", Reason.POD_NOT_STARTING, "cpu-1: ImagePullBackOff: no such image"
    )


def test_the_sentence_that_people_see_first_tells_the_cause() -> None:
    seen = world()
    pulling = dataclasses.replace(seen.pods["cpu-1"], ready=False, trouble="ImagePullBackOff: no such image")
    found, _ = judge(dataclasses.replace(seen, pods=dict(seen.pods) | {"cpu-1": pulling}), nodes(node("cpu-0")))
    cause = "cpu-1 not yet registered and usable (cpu-1: ImagePullBackOff: no such image)"
    assert report.headline(found.values()) == f"node set cpu: {cause}"
    stuck = Pod("slurm-login-0", "login", ready=False, running=False, trouble="Unschedulable: no node has 2 CPUs")
    workloads = dict(seen.workloads) | {"slurm-login": workload("slurm-login", 1, 0)}
    found, _ = judge(dataclasses.replace(seen, pods=dict(seen.pods) | {stuck.name: stuck}, workloads=workloads), BOTH)
    assert "(slurm-login-0: Unschedulable: no node has 2 CPUs)" in report.headline(found.values())


def test_a_further_set_of_login_nodes_counts_as_login_nodes_do_with_its_own_pods_words() -> None:
    sets = dataclasses.replace(CLUSTER, login_sets=("slurm-login-data",))
    seen = world(cluster=sets)
    found, _ = judge(seen, BOTH)
    words = "there is no StatefulSet slurm-login-data"
    assert (found["Available"].status, found["Available"].reason, found["Available"].message) == (
        *("False", "LoginNotReady"),
        words,
    )
    rows = {"slurm-login-data-0": "login-set", "slurm-login-0": "login"}
    stuck = {name: Pod(name, part, ready=False, running=False, trouble=f"of {name}") for name, part in rows.items()}
    workloads = dict(seen.workloads) | {"slurm-login-data": workload("slurm-login-data", 1, 0)}
    found, _ = judge(dataclasses.replace(seen, pods=dict(seen.pods) | stuck, workloads=workloads), BOTH)
    told = "StatefulSet slurm-login-data: 0 of 1 ready in the current generation"
    assert found["Available"].message == f"{told} (slurm-login-data-0: of slurm-login-data-0)"
    all_there = dataclasses.replace(seen, workloads=dict(seen.workloads) | {"slurm-login-data": workload("x")})
    assert judge(all_there, BOTH)[0]["Available"].status == "True"


def test_only_the_last_attempt_to_populate_speaks() -> None:
    first = Pod("slurm-jail-a", "jail", ready=False, running=False, created=NOW, trouble="the volume is full")
    second = dataclasses.replace(first, name="slurm-jail-b", created=NOW + datetime.timedelta(hours=1), trouble="")
    seen = world()
    told = judge(dataclasses.replace(seen, pods=dict(seen.pods) | {first.name: first}), BOTH)[0]["Degraded"]
    assert (told.reason, told.message) == ("PopulateFailed", "slurm-jail-a: the volume is full")
    both = dict(seen.pods) | {first.name: first, second.name: second}
    assert judge(dataclasses.replace(seen, pods=both), BOTH)[0]["Degraded"].status == "False"


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


@pytest.mark.parametrize(
    ("pod_status", "trouble"),
    [
        ({"phase": "Running"}, ""),
        (
            {
                "conditions": [
                    {
                        "type": "PodScheduled",
                        "status": "False",
                        "reason": "Unschedulable",
                        "message": "0/1 nodes: no cpu",
                    }
                ]
            },
            "Unschedulable: 0/1 nodes: no cpu",
        ),
        (
            {
                "initContainerStatuses": [
                    {"name": "i", "state": {"waiting": {"reason": "ErrImagePull", "message": "x"}}}
                ]
            },
            "container i: ErrImagePull: x",
        ),
        (
            {
                "containerStatuses": [
                    {
                        "name": "c",
                        "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 10s"}},
                        "lastState": {"terminated": {"message": "fatal: no key\n"}},
                    }
                ]
            },
            "container c: CrashLoopBackOff: back-off 10s / fatal: no key",
        ),
        (
            {
                "phase": "Failed",
                "containerStatuses": [
                    {"name": "p", "state": {"terminated": {"exitCode": 1, "message": "the image has no shell"}}}
                ],
            },
            "the image has no shell",
        ),
        ({"containerStatuses": [{"name": "c", "state": {"waiting": {"reason": "ContainerCreating"}}}]}, ""),
    ],
)
def test_a_pods_trouble_is_read(pod_status: dict[str, object], trouble: str) -> None:
    assert parse_pod({"metadata": {"name": "p"}, "status": pod_status}).trouble == trouble


LOST = """[2026-11-21T15:56:01.309] slurmdbd version 26.05.5 started
[2026-11-21T15:56:02.069] error: mysql_real_connect failed: 2002 Can't connect to server on 'slurm-database' (115)
[2026-11-21T15:56:02.070] error: unable to re-connect to as_mysql database
[2026-11-21T15:56:02.071] error: Processing last message from connection 12(10.9.9.9) uid(64030)
"""
REFUSED = """slurm-node: started slurmdbd as process 12
slurmdbd: error: mysql_real_connect failed: 1045 Access denied for user 'slurm'@'10.1.2.3' (using password: YES)
slurmdbd: error: The database must be up when starting the MYSQL plugin.  Trying again in 5 seconds.
"""
ENDED = """slurmdbd: fatal: mysql_query failed: 1044 Access denied for user 'slurm'@'%' to database 'books'
create database books
slurm-node: slurmdbd ended (exit code 1); starting it again in 4 s
"""


@pytest.mark.parametrize(
    ("log", "words"),
    [
        (LOST, "mysql_real_connect failed: 2002 Can't connect to server on 'slurm-database' (115)"),
        (REFUSED, "mysql_real_connect failed: 1045 Access denied for user 'slurm'@'10.1.2.3' (using password: YES)"),
        (ENDED, "mysql_query failed: 1044 Access denied for user 'slurm'@'%' to database 'books'"),
        ("slurm-node: error: the database password holds NUL", "the database password holds NUL"),
        ("slurmdbd version 26.05.5 started", ""),
        ("", ""),
    ],
)
def test_slurmdbds_own_words_are_told(log: str, words: str) -> None:
    assert accounting.last_words(log) == words


def with_accounting(ready: int, words: str = "", *, there: bool = True) -> Kubernetes:
    cluster = dataclasses.replace(CLUSTER, accounting="slurm-accounting")
    more = {"slurm-accounting": workload("slurm-accounting", 1, ready)} if there else {}
    return world(cluster=cluster, workloads={**world().workloads, **more}, accounting_words=words)


@pytest.mark.parametrize(
    ("seen", "wrong", "progressing"),
    [
        (world(), [], []),
        (with_accounting(1), [], []),
        (with_accounting(0), [], ["AccountingStarting"]),
        (with_accounting(0, "Access denied"), ["AccountingNotReady"], []),
        (with_accounting(0, there=False), ["AccountingMissing"], []),
    ],
)
def test_accounting_is_told_about_and_never_blocks_jobs(
    seen: Kubernetes, wrong: list[str], progressing: list[str]
) -> None:
    found = accounting.findings(seen)
    assert [each.reason for each in found.wrong] == wrong
    assert [each.reason for each in found.progressing] == progressing
    assert found.blocking == found.unknown == []
    assert all(seen.accounting_words in each.message for each in found.wrong)
