"""A changed number of nodes: the running operator scales the set, and no job pays for it."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import pytest

from contract import names
from tests.operator.worlds.world import World, custom, metrics, operator, passes, settles, until

pytestmark = pytest.mark.apiserver


def test_scaling_out_adds_nodes_and_is_available_when_they_are(running_operator: World) -> None:
    world = running_operator
    world.wait("Available", "True")
    world.broken["cpu-3"] = "registry does not know it"
    world.scale(4)
    assert "cpu-3" in world.wait("Available", "False", "NodesNotReady")["message"]
    words = "ImagePullBackOff: registry does not know it"
    until(lambda: world.condition("Degraded")["message"].endswith(words), "kubelet's words")
    assert world.condition("Degraded")["status"] == "True"
    del world.broken["cpu-3"]
    world.wait("Available", "True")
    assert world.size() == 4


def test_scaling_in_drains_shrinks_and_leaves_no_orphaned_record(running_operator: World) -> None:
    world = running_operator
    world.wait("Available", "True")
    world.scale(0)
    until(lambda: world.size() == 0 and not world.slurm.nodes, "no pod and no record is left")
    world.wait("Available", "True")
    expected = {
        ("Drain", "drained cpu-1: it is to be removed"),
        ("DeleteRecord", "deleted Slurm's record of cpu-1: its pod is gone"),
    }
    until(lambda: expected <= set(world.events()), "each decision has its Event")


def scaled_in_under_a_job(world: World, state: str) -> int:
    """The node with a job is to leave, and stays for it."""
    job = world.slurm.run_job("cpu-1", state=state)
    world.scale(1)
    until(lambda: "DRAIN" in world.slurm.nodes["cpu-1"]["state"], "cpu-1 is drained")
    passes(world, 2)
    assert world.size() == 2
    return job


def test_scaling_in_waits_for_the_job(running_operator: World) -> None:
    world = running_operator
    for state in ("RUNNING", "SUSPENDED", "COMPLETING"):
        world.scale(2)
        settles(world, 2)
        job = scaled_in_under_a_job(world, state)
        assert world.condition("Available")["status"] == "True", f"{state}: what leaves does not count"
        assert world.condition("Progressing")["status"] == "True", state
        world.slurm.end_job(job)
        until(lambda: world.size() == 1, f"the set shrinks after a job that is {state}")
        until(lambda: "cpu-1" not in world.slurm.nodes, "the record goes")
        assert world.slurm.killed == []


@pytest.mark.parametrize("state", ["RUNNING", "SUSPENDED"])
def test_a_deep_queue_is_not_listed_and_a_node_goes_when_its_record_says_that_it_is_free(
    running_operator: World, state: str
) -> None:
    world = running_operator
    with world.slurm.lock:
        world.slurm.memory, world.slurm.deep = True, 100_000
        began = len(world.slurm.calls)
    world.wait("Available", "True")
    job = scaled_in_under_a_job(world, state)
    world.slurm.end_job(job)
    until(lambda: world.size() == 1, "the set shrinks")
    passes(world, 2)
    assert "cpu-1" in world.slurm.nodes, "a job may name it"
    assert world.slurm.killed == []
    assert not [path for _, path in world.slurm.calls[began:] if path.startswith("/job")], "no job is asked for"
    world.slurm.deep = 0
    until(lambda: "cpu-1" not in world.slurm.nodes, "the record goes")


def test_without_memory_as_a_resource_a_deep_queue_keeps_nodes(running_operator: World) -> None:
    world = running_operator
    with world.slurm.lock:
        world.slurm.deep = 100_000
    world.wait("Available", "True")
    world.scale(1)
    until(lambda: "DRAIN" in world.slurm.nodes["cpu-1"]["state"], "cpu-1 is drained")
    passes(world, 2)
    assert world.size() == 2, "a suspended job would not show"
    world.slurm.deep = 0
    until(lambda: world.size() == 1, "the set shrinks")


def drain_and_keep(world: World) -> None:
    """Scale to one node: the other is drained and stays, and all is well."""
    world.scale(1)
    until(lambda: "DRAIN" in world.slurm.nodes["cpu-1"]["state"], "cpu-1 is drained")
    passes(world, 2)
    assert world.size() == 2
    assert world.condition("Available")["status"] == "True"


def test_a_listing_of_jobs_that_fails_leaves_the_nodes_known(running_operator: World) -> None:
    world = running_operator
    world.wait("Available", "True")
    with world.slurm.lock:
        world.slurm.memory, world.slurm.jobs_fail = True, True
    drain_and_keep(world)
    world.slurm.jobs_fail = False
    until(lambda: world.size() == 1, "the set shrinks")


def test_a_job_whose_nodes_nobody_can_read_is_on_every_node_and_blinds_nothing(running_operator: World) -> None:
    world = running_operator
    world.wait("Available", "True")
    job = world.slurm.run_job("cpu-0", state="SUSPENDED")
    world.slurm.jobs[job]["nodes"] = "cpu-[0-"
    drain_and_keep(world)
    world.slurm.jobs[job]["nodes"] = "cpu-0"
    until(lambda: world.size() == 1, "the set shrinks")


def test_scaling_out_again_in_the_middle_undrains(running_operator: World) -> None:
    world = running_operator
    world.wait("Available", "True")
    world.slurm.drain("cpu-0", "bad disk", "root")
    world.slurm.run_job("cpu-1")
    world.scale(0)
    until(lambda: "DRAIN" in world.slurm.nodes["cpu-1"]["state"], "cpu-1 is drained")
    world.scale(2)
    until(lambda: "DRAIN" not in world.slurm.nodes["cpu-1"]["state"], "cpu-1 is undrained")
    passes(world, 2)
    assert (world.slurm.nodes["cpu-0"]["reason"], world.slurm.nodes["cpu-0"]["reason_set_by_user"]) == (
        "bad disk",
        "root",
    )
    assert "DRAIN" in world.slurm.nodes["cpu-0"]["state"]
    assert world.size() == 2


def test_a_number_of_nodes_by_hand_is_told_beside_the_programs_and_stays_when_that_says_none(
    running_operator: World,
) -> None:
    world = running_operator
    wait = functools.partial(world.wait, plural="nodesets", name="cpu")
    spec = {"cluster": "test", "statefulSet": "cpu"}
    declared = custom("NodeSet", "cpu", {**spec, "replicas": 2})
    declared["metadata"]["annotations"] = {names.ANNOTATION_REPLICAS: "2"}
    world.apply(declared)
    wait("ScaledOutsidePulumi", "False", "AsDeclared")
    world.scale(3)
    told = wait("ScaledOutsidePulumi", "True")
    assert told["message"].startswith("kubectl-edit asked for 3 nodes, the program declares 2, ")
    until(lambda: ("ScaledOutsidePulumiTrue", told["message"]) in world.events(), "an Event says so")
    until(lambda: world.size() == 3, "a third node")
    # An `up` of anything else, as a forced apply does not ask who wrote the number.
    world.apply(declared)
    wait("ScaledOutsidePulumi", "False")
    until(lambda: world.size() == 2, "two nodes again")
    world.scale(3)
    until(lambda: world.size() == 3, "a third node")
    world.apply(custom("NodeSet", "cpu", spec))
    wait("ScaledOutsidePulumi", "False", "NotDeclared")
    assert (world.get("nodesets", "cpu")["spec"]["replicas"], world.size()) == (3, 3)
    world.scale(1)
    until(lambda: world.size() == 1, "one node, as who scales it says")


def test_a_set_without_a_number_can_be_scaled_by_an_autoscaler_at_once(
    cluster: World, tmp_path: Path, kubeconfig: Path, port: int
) -> None:
    world, path = cluster, cluster.path("nodesets", "cpu", "scale")
    world.slurm.partitions = {"main": "UP"}
    world.declare(replicas=None)
    with pytest.raises(RuntimeError, match="the spec replicas field"):
        world.admin.call("GET", path)

    def asked() -> dict[str, Any]:
        try:
            return world.admin.call("GET", path)
        except RuntimeError:
            return {"spec": {}, "status": {}}

    with operator(world, tmp_path, kubeconfig, port):
        until(lambda: asked()["spec"].get("replicas") == 1, "its size is written")
        seen = until(lambda: (answer := asked())["status"].get("selector") and answer, "a whole answer")
        assert seen["status"] == {
            "replicas": 1,
            "selector": "app.kubernetes.io/instance=test,pulumi-slurm.dev/node-set=cpu",
        }
        # As the controller of a HorizontalPodAutoscaler does.
        world.admin.call("PUT", path, {**seen, "spec": {"replicas": 2}})
        until(lambda: world.size() == 2, "the size that the autoscaler wrote")
        world.apply(custom("NodeSet", "cpu", {"cluster": "test", "statefulSet": "cpu"}))
        assert world.get("nodesets", "cpu")["spec"]["replicas"] == 2, "an up without a number leaves it"
        idle = 'pulumi_slurm_pending_nodes{partition="main"} 0.0'
        until(lambda: idle in metrics(port), "a partition in which nothing has waited yet")
        world.slurm.run_job("", state="PENDING")
        told = 'pulumi_slurm_pending_nodes{partition="main"} 1.0'
        until(lambda: told in metrics(port), "what waits")
        until(lambda: 'pulumi_slurm_allocated_nodes{node_set="cpu"} 0.0' in metrics(port), "what works")
        reasons = [reason for reason, _ in world.events()]
        assert (reasons.count("AddFinalizer"), reasons.count("WriteSize")) == (1, 1)
