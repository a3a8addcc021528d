"""Promises of the running operator about Kubernetes nodes, against a real API server, which decides on evictions."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Iterator
from typing import Any, cast

import pytest
from slurm_operator import actions, execute
from slurm_operator.changes.workloads import Workloads
from slurm_operator.clients.kubernetes import KubernetesApi, Object
from slurm_operator.clients.slurm.slurmrestd import SlurmRest
from slurm_operator.decide.node_sets.deletion import RemoveFinalizer

from contract import names
from contract.conditions import Reason
from tests.operator.played.played_clients import LeaseFor
from tests.operator.worlds.operator_rights import let_read_nodes
from tests.operator.worlds.world import STRATEGIC, World, custom, knows, until

pytestmark = pytest.mark.apiserver
NODES = "/api/v1/nodes"


class K8sNodes:
    """The Kubernetes nodes of a world's two workers."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.names: dict[str, str] = {}
        for pod in ("cpu-0", "cpu-1"):
            self.add(pod)

    def add(self, pod: str) -> None:
        """Give a pod a Kubernetes node of its own."""
        world, name = self.world, f"{self.world.namespace}-{pod}"
        self.names[pod] = name
        world.admin.call("POST", NODES, {"metadata": {"name": name}})
        self.status(pod, "True")
        target = {"target": {"kind": "Node", "name": name}, "metadata": {"name": pod}}
        until(functools.partial(world.uid, "pods", pod), "the pod")
        world.admin.call("POST", world.path("pods", pod, "binding"), target)
        # One that is pending has nothing to lose: no budget keeps it.
        world.patch("pods", pod, {"status": {"phase": "Running"}}, "status")

    def change(self, pod: str, change: dict[str, Any], subresource: str = "") -> None:
        """Merge a change into the Kubernetes node of a pod."""
        path = f"{NODES}/{self.names[pod]}{subresource}"
        headers = {"Content-Type": "application/merge-patch+json"}
        self.world.admin.call("PATCH", path, change, headers=headers)

    def cordon(self, pod: str, unschedulable: bool = True) -> None:
        self.change(pod, {"spec": {"unschedulable": unschedulable}})

    def status(self, pod: str, ready: str, since: str = "2020-01-01T00:00:00Z") -> None:
        condition = {"type": "Ready", "status": ready, "lastTransitionTime": since, "lastHeartbeatTime": since}
        self.change(pod, {"status": {"conditions": [{**condition, "reason": "Test", "message": ""}]}}, "/status")

    def condition(self, pod: str, kind: str, status: str, why: str) -> None:
        """Another program writes a condition of the Kubernetes node of a pod, beside kubelet's."""
        since = "2020-01-01T00:00:00Z"
        well = {"type": "Ready", "status": "True", "lastTransitionTime": since, "lastHeartbeatTime": since}
        told = {**well, "type": kind, "status": status, "reason": why, "message": ""}
        rows = [{**well, "reason": "Test", "message": ""}, told]
        self.change(pod, {"status": {"conditions": rows}}, "/status")

    def evict(self, pod: str) -> None:
        """Evict a pod as `kubectl drain` does, without a kubelet that would end it."""
        body = {"metadata": {"name": pod}, "deleteOptions": {"gracePeriodSeconds": 0}}
        body |= {"apiVersion": "policy/v1", "kind": "Eviction"}
        self.world.admin.call("POST", self.world.path("pods", pod, "eviction"), body)

    def remove(self) -> None:
        for name in self.names.values():  # One may be gone.
            self.world.admin.client.delete(f"{NODES}/{name}")


@pytest.fixture
def k8s_nodes(running_operator: World) -> Iterator[K8sNodes]:
    """An operator that may read nodes, by the program's rules, and a budget like the program's."""
    world = running_operator
    let_read_nodes(world)
    selector = {"matchExpressions": [{"key": "pulumi-slurm.dev/evictable", "operator": "DoesNotExist"}]}
    budget = {"metadata": {"name": "slurm-workers"}, "spec": {"maxUnavailable": 0, "selector": selector}}
    budgets = f"/apis/policy/v1/namespaces/{world.namespace}/poddisruptionbudgets"
    world.admin.call("POST", budgets, budget)
    found = K8sNodes(world)
    try:
        world.wait("NodesWatched", "True")
        world.wait("Available", "True")
        yield found
    finally:
        found.remove()


def reason(world: World, node: str) -> str:
    """Return why a node is drained, empty if it is not."""
    record = world.slurm.nodes[node]
    return str(record["reason"]) if "DRAIN" in record["state"] else ""


def test_a_cordon_becomes_a_drain_and_back_and_an_eviction_waits_for_the_job(k8s_nodes: K8sNodes) -> None:
    world = k8s_nodes.world
    job = world.slurm.run_job("cpu-1")
    with pytest.raises(RuntimeError, match="429"):
        k8s_nodes.evict("cpu-1")
    k8s_nodes.cordon("cpu-1")
    ours = f"pulumi-slurm:node {k8s_nodes.names['cpu-1']} is cordoned"
    until(lambda: reason(world, "cpu-1") == ours, "the drain")
    world.wait("Progressing", "True", "WaitingForJobs")
    with pytest.raises(RuntimeError, match="429"):
        k8s_nodes.evict("cpu-1")
    k8s_nodes.cordon("cpu-1", False)
    until(lambda: reason(world, "cpu-1") == "", "the drain is lifted")
    k8s_nodes.cordon("cpu-1")
    until(lambda: reason(world, "cpu-1") == ours, "the drain again")
    before = world.uid("pods", "cpu-1")
    world.slurm.end_job(job)
    until(lambda: "pulumi-slurm.dev/evictable" in world.get("pods", "cpu-1")["metadata"]["labels"], "the label")
    assert world.slurm.killed == []
    k8s_nodes.evict("cpu-1")
    until(lambda: world.uid("pods", "cpu-1") not in ("", before), "a new pod, which is somewhere else")
    until(lambda: reason(world, "cpu-1") == "", "it takes jobs there")
    assert world.slurm.killed == []


def test_a_slurmctld_whose_machine_is_lost_is_told_with_the_command_that_fences(k8s_nodes: K8sNodes) -> None:
    world, pod = k8s_nodes.world, "slurm-controller-0"
    k8s_nodes.add(pod)
    k8s_nodes.status(pod, "Unknown")
    message = world.wait("Degraded", "True", "DaemonLost")["message"]
    assert message.startswith(f"{pod} (slurmctld) is on Kubernetes node {k8s_nodes.names[pod]}, which is not ready")
    assert f"kubectl taint node {k8s_nodes.names[pod]} node.kubernetes.io/out-of-service=" in message
    assert world.condition("Available")["status"] == "True", "Slurm answers all the same"
    k8s_nodes.status(pod, "True")
    world.wait("Degraded", "False")


def test_a_pod_that_stays_after_all_is_protected_again(k8s_nodes: K8sNodes) -> None:
    world = k8s_nodes.world
    k8s_nodes.cordon("cpu-1")
    until(lambda: "pulumi-slurm.dev/evictable" in world.get("pods", "cpu-1")["metadata"]["labels"], "the label")
    k8s_nodes.cordon("cpu-1", False)
    until(lambda: "pulumi-slurm.dev/evictable" not in world.get("pods", "cpu-1")["metadata"]["labels"], "no label")
    until(lambda: reason(world, "cpu-1") == "", "the drain is lifted")
    with pytest.raises(RuntimeError, match="429"):
        k8s_nodes.evict("cpu-1")


def test_a_machine_that_is_away_tainted_or_gone_gets_no_new_jobs_and_others_drains_stay(k8s_nodes: K8sNodes) -> None:
    world = k8s_nodes.world
    world.slurm.drain("cpu-0", "a fan is broken", "alice")
    k8s_nodes.cordon("cpu-0")
    name = k8s_nodes.names["cpu-1"]
    k8s_nodes.status("cpu-1", "Unknown")
    until(lambda: reason(world, "cpu-1") == f"pulumi-slurm:node {name} is not ready", "a drain")
    k8s_nodes.status("cpu-1", "True")
    until(lambda: reason(world, "cpu-1") == "", "it is lifted")
    k8s_nodes.change("cpu-1", {"spec": {"taints": [{"key": "maintenance", "effect": "NoSchedule"}]}})
    until(lambda: reason(world, "cpu-1") == f"pulumi-slurm:node {name} is tainted maintenance", "a drain")
    k8s_nodes.change("cpu-1", {"spec": {"taints": []}})
    until(lambda: reason(world, "cpu-1") == "", "it is lifted")
    world.admin.call("DELETE", f"{NODES}/{name}")
    until(lambda: reason(world, "cpu-1") == f"pulumi-slurm:node {name} is gone", "a drain")
    k8s_nodes.cordon("cpu-0", False)
    assert reason(world, "cpu-0") == "a fan is broken"
    assert world.slurm.killed == []


def test_a_dry_run_tells_and_many_machines_that_are_away_at_once_open_the_breaker(k8s_nodes: K8sNodes) -> None:
    world = k8s_nodes.world
    wait = functools.partial(world.wait, plural="nodesets", name="cpu")
    name = k8s_nodes.names["cpu-1"]
    world.patch("nodesets", "cpu", {"spec": {"reactions": {"dryRun": True, "afterSeconds": 0}}})
    knows(world, "nodesets", "cpu")
    k8s_nodes.status("cpu-1", "Unknown")
    told = wait("Degraded", "True", "WouldDrain")
    assert f"would drain cpu-1: pulumi-slurm:node {name} is not ready" in told["message"]
    assert reason(world, "cpu-1") == ""
    k8s_nodes.status("cpu-0", "Unknown")
    told = wait("Degraded", "True", "BreakerOpen")
    assert "the Kubernetes nodes of 2 of 2 pods are not ready at once; nothing is done" in told["message"]
    world.patch("nodesets", "cpu", {"spec": {"reactions": {"dryRun": False}}})
    k8s_nodes.status("cpu-0", "True")
    until(lambda: reason(world, "cpu-1") == f"pulumi-slurm:node {name} is not ready", "one alone is drained")
    assert reason(world, "cpu-0") == ""


def test_a_condition_of_another_program_drains_and_lifts_and_unknown_keeps_the_drain(k8s_nodes: K8sNodes) -> None:
    world, name = k8s_nodes.world, k8s_nodes.names["cpu-1"]
    world.patch("nodesets", "cpu", {"spec": {"nodeConditions": [{"type": "KernelDeadlock"}]}})
    note = f"pulumi-slurm:node {name} says no KernelDeadlock"
    until(lambda: world.slurm.nodes["cpu-1"]["comment"] == note, "nobody has written it")
    k8s_nodes.condition("cpu-1", "KernelDeadlock", "True", "DockerHung")
    fails = f"pulumi-slurm:node {name} says KernelDeadlock=True (DockerHung)"
    until(lambda: reason(world, "cpu-1") == fails, "the drain")
    k8s_nodes.condition("cpu-1", "KernelDeadlock", "Unknown", "NoContact")
    note = f"pulumi-slurm:node {name} says KernelDeadlock=Unknown"
    until(lambda: world.slurm.nodes["cpu-1"]["comment"] == note, "the note")
    assert reason(world, "cpu-1") == fails
    k8s_nodes.condition("cpu-1", "KernelDeadlock", "False", "KernelHasNoDeadlock")
    until(lambda: reason(world, "cpu-1") == "", "the drain is lifted")
    until(lambda: world.slurm.nodes["cpu-1"]["comment"] == "", "the note is gone")
    assert reason(world, "cpu-0") == ""


def test_a_machine_that_stays_away_is_left_when_its_job_has_ended_and_marked_with_the_cause(
    k8s_nodes: K8sNodes,
) -> None:
    world, name = k8s_nodes.world, k8s_nodes.names["cpu-1"]
    policy = {"replace": True, "afterSeconds": 1, "breakerPercent": 100}
    world.patch("nodesets", "cpu", {"spec": {"reactions": policy}})
    job, before = world.slurm.run_job("cpu-1"), world.uid("pods", "cpu-1")
    k8s_nodes.status("cpu-1", "Unknown")
    cause = f"pulumi-slurm:node {name} is not ready"
    until(lambda: reason(world, "cpu-1") == cause, "a drain")
    until(lambda: world.slurm.nodes["cpu-1"]["comment"] == cause, "and then the note")
    world.wait("Progressing", "True", "WaitingForJobs")
    assert "unschedulable" not in world.admin.call("GET", f"{NODES}/{name}")["spec"]
    world.slurm.end_job(job)
    stuck = f"cpu-1 may still run on {name}"
    until(lambda: stuck in world.condition("Degraded", plural="nodesets", name="cpu")["message"], "what to do")
    marked = world.admin.call("GET", f"{NODES}/{name}")
    assert marked["spec"]["unschedulable"] is True
    taints = [(each["key"], each.get("value"), each["effect"]) for each in marked["spec"]["taints"]]
    assert ("pulumi-slurm.dev/unfit", "cpu-1", "NoSchedule") in taints
    assert marked["metadata"]["annotations"]["pulumi-slurm.dev/unfit"] == f"cpu-1: {cause}"
    assert [each["node"] for each in world.get("nodesets", "cpu")["status"]["restarts"]] == ["cpu-1"]
    # Only a person who fences the Kubernetes node ends the pod; here that is the test.
    assert world.uid("pods", "cpu-1") == before
    world.admin.call("DELETE", world.path("pods", "cpu-1"), {"gracePeriodSeconds": 0})
    until(lambda: world.uid("pods", "cpu-1") not in ("", before), "a new pod")
    until(lambda: reason(world, "cpu-1") == "", "it takes jobs elsewhere")
    until(lambda: world.slurm.nodes["cpu-1"]["comment"] == "", "the note is gone")
    assert world.slurm.killed == []


def test_without_rights_to_nodes_the_operator_says_so_and_does_all_else(running_operator: World) -> None:
    world = running_operator
    told = world.wait("NodesWatched", "False", "NodesUnreadable")
    assert "nodes is forbidden" in told["message"]
    world.wait("Available", "True")
    world.scale(3)
    until(lambda: world.size() == 3, "it scales")


def test_only_the_pod_that_was_seen_is_protected_from_eviction_again(cluster: World) -> None:
    metadata = {"name": "cpu-0", "labels": {names.LABEL_EVICTABLE: "true"}}
    cluster.create("serviceaccounts", {"metadata": {"name": "default"}})
    pod = cluster.create("pods", {"metadata": metadata, "spec": {"containers": [{"name": "slurm", "image": "none"}]}})

    async def protect(uid: str) -> list[Reason]:
        api = KubernetesApi(lambda: cluster.admin.access, cluster.namespace)
        acting, decided = execute.Executor(api, LeaseFor(9)), actions.SetEvictable("cpu-0", uid, evictable=False)
        try:
            failed = await acting.attempt({}, "SetEvictable", silent(acting, decided))
        finally:
            await api.close()
        return [each.reason for each in failed]

    async def silent(acting: execute.Executor, decided: actions.SetEvictable) -> str:
        await acting.perform(cast(SlurmRest, None), decided)
        return ""

    assert asyncio.run(protect("another")) == [execute.CONFLICT]
    assert cluster.get("pods", "cpu-0")["metadata"]["labels"] == metadata["labels"]
    assert asyncio.run(protect(pod["metadata"]["uid"])) == []
    assert not cluster.get("pods", "cpu-0")["metadata"].get("labels")
    assert asyncio.run(protect(pod["metadata"]["uid"])) == [execute.CONFLICT], "somebody was faster"


def test_a_node_set_goes_though_its_status_has_changed_and_stays_if_somebody_spoke_of_it(cluster: World) -> None:
    body = custom("NodeSet", "cpu", {"cluster": "test", "statefulSet": "cpu"})
    cluster.create("nodesets", {**body, "metadata": {"name": "cpu", "finalizers": [names.FINALIZER]}})
    cluster.delete("nodesets", "cpu")

    async def let_go(seen: Object) -> list[Reason]:
        api = KubernetesApi(lambda: cluster.admin.access, cluster.namespace)
        acting = execute.Executor(api, LeaseFor(9))
        try:
            going = acting.node_sets.remove_finalizer(seen, RemoveFinalizer(None, "its jobs have ended"))
            return [each.reason for each in await acting.attempt(seen, "RemoveFinalizer", going)]
        finally:
            await api.close()

    seen = cluster.get("nodesets", "cpu")
    cluster.patch("nodesets", "cpu", {"metadata": {"annotations": {names.ANNOTATION_FORCE: "false"}}})
    assert asyncio.run(let_go(seen)) == [execute.CONFLICT]
    seen = cluster.get("nodesets", "cpu")
    cluster.patch("nodesets", "cpu", {"status": {"message": "none of its nodes has a job"}}, "status")
    assert asyncio.run(let_go(seen)) == []
    assert "cpu" not in cluster.names("nodesets")


@pytest.mark.parametrize("taints", [None, [{"key": "others", "value": "x", "effect": "NoExecute"}]])
def test_a_kubernetes_node_is_cordoned_beside_what_others_say_of_it(cluster: World, taints: list[Any] | None) -> None:
    name, admin = f"machine-of-{cluster.namespace}", cluster.admin
    admin.call("POST", NODES, {"metadata": {"name": name}})
    admin.call("PATCH", f"{NODES}/{name}", {"spec": {"taints": taints}}, headers=STRATEGIC)

    async def cordon() -> None:
        api = KubernetesApi(lambda: admin.access, cluster.namespace)
        try:
            decided = actions.DeletePod("cpu-0", "7", actions.Purpose.ELSEWHERE, "3 of 4 GPUs answer", cordon=name)
            await Workloads(api, LeaseFor(9)).cordon(decided)
        finally:
            await api.close()

    asyncio.run(cordon())
    there = admin.call("GET", f"{NODES}/{name}")
    admin.call("DELETE", f"{NODES}/{name}")
    assert there["spec"]["unschedulable"] is True
    added = [each for each in there["spec"]["taints"] if not each["key"].startswith("node.kubernetes.io/")]
    assert added == [*(taints or []), {"key": names.UNFIT_TAINT, "value": "cpu-0", "effect": "NoSchedule"}]
    assert there["metadata"]["annotations"] == {names.UNFIT_TAINT: "cpu-0: 3 of 4 GPUs answer"}
