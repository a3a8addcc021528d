"""Promises about daemons whose Kubernetes node is lost: why nothing happens is told, with the command that helps."""

from __future__ import annotations

import datetime
from typing import Any

import pytest
from slurm_operator.decide.nodes import lost_daemons
from slurm_operator.findings import Finding, Findings, Severity
from slurm_operator.state.kubernetes import K8sNode, Pod, Taint

NOW = datetime.datetime(2026, 1, 1, 12, tzinfo=datetime.UTC)
AWAY = K8sNode(away_since=NOW - datetime.timedelta(minutes=1))
FENCES = "kubectl taint node k8s-1 node.kubernetes.io/out-of-service=nodeshutdown:NoExecute"


def pod(component: str = "controller", name: str = "", **more: Any) -> Pod:
    created = NOW - datetime.timedelta(hours=1)
    fields: dict[str, Any] = {"ready": False, "running": True, "created": created, "k8s_node": "k8s-1", **more}
    return Pod(name or f"slurm-{component}-0", component, **fields)


def told(*pods: Pod, k8s_nodes: dict[str, K8sNode] | None, blind: bool = False) -> list[Finding]:
    return lost_daemons.findings(pods, k8s_nodes, NOW, "hpc", blind=blind)


@pytest.mark.parametrize(
    ("component", "daemon", "waits"),
    [
        ("controller", "slurmctld", "Kubernetes starts no other pod until it knows that this one is off"),
        ("accounting", "slurmdbd", "Kubernetes starts no other pod until it knows that this one is off"),
        ("database", "MariaDB", "Kubernetes starts no other pod until it knows that this one is off"),
        ("login", "a login node", "Kubernetes starts no other pod until it knows that this one is off"),
        ("login-set", "a login node", "Kubernetes starts no other pod until it knows that this one is off"),
        ("rest", "slurmrestd", "Kubernetes starts another pod after 5 minutes"),
        ("operator", "the operator", "Kubernetes starts another pod after 5 minutes"),
    ],
)
def test_a_daemon_on_a_machine_that_is_not_ready_is_told_with_the_command_that_fences(
    component: str, daemon: str, waits: str
) -> None:
    (found,) = told(pod(component), k8s_nodes={"k8s-1": AWAY})
    since = "which is not ready since 2026-01-01T11:59:00Z"
    what = f"slurm-{component}-0 ({daemon}) is on Kubernetes node k8s-1, {since}"
    assert found.message == f"{what}; {waits}. When it surely is off: {FENCES}"
    assert (found.reason, found.severity) == ("DaemonLost", Severity.WRONG)


def test_a_daemon_on_a_deleted_machine_is_told_once_the_watch_must_know_the_machine() -> None:
    (found,) = told(pod(), k8s_nodes={})
    assert "k8s-1, which is deleted" in found.message
    assert found.message.endswith("kubectl -n hpc delete pod slurm-controller-0 --force")
    assert told(pod(created=NOW), k8s_nodes={}) == []


@pytest.mark.parametrize(
    ("its_pod", "k8s_nodes"),
    [
        (pod(), {"k8s-1": K8sNode()}),
        (pod(), {"k8s-1": K8sNode(cordoned=True)}),
        (pod(), None),
        (pod(k8s_node=""), {}),
        (pod("worker"), {"k8s-1": AWAY}),
        (pod("jail"), {"k8s-1": AWAY}),
        (pod("rest", terminating=True), {"k8s-1": AWAY}),
        (pod("operator", running=False), {}),
        (pod(), {"k8s-1": K8sNode(away_since=NOW, taints=(Taint("node.kubernetes.io/out-of-service", "NoExecute"),))}),
    ],
    ids=["well", "cordoned", "unknown", "unscheduled", "worker", "populate", "replaced", "evicted", "fenced"],
)
def test_what_is_well_known_or_replaced_by_kubernetes_is_not_told(
    its_pod: Pod, k8s_nodes: dict[str, K8sNode] | None
) -> None:
    assert told(its_pod, k8s_nodes=k8s_nodes) == []


def test_a_pod_of_a_stateful_set_that_cannot_end_is_told() -> None:
    assert told(pod(terminating=True), k8s_nodes={"k8s-1": AWAY})


def test_while_slurm_cannot_be_seen_a_lost_slurmctld_is_why_jobs_cannot_run_and_comes_first() -> None:
    lost = told(pod("accounting"), pod(), pod("rest", k8s_node="k8s-2"), k8s_nodes={"k8s-1": AWAY, "k8s-2": K8sNode()})
    assert [each.severity for each in lost] == [Severity.WRONG] * 2, "slurmctld may run on, and be seen to"
    lost = told(pod("accounting"), pod(), k8s_nodes={"k8s-1": AWAY}, blind=True)
    conditions = {each.type: each for each in Findings(lost).conditions("")}
    assert conditions["Available"].message.startswith("slurm-controller-0 (slurmctld)")
    assert [(conditions[kind].status, conditions[kind].reason) for kind in ("Available", "Degraded")] == [
        ("False", "DaemonLost"),
        ("True", "DaemonLost"),
    ]
    assert FENCES in conditions["Degraded"].message
    assert "slurmdbd" in conditions["Degraded"].message
