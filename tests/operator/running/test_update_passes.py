"""Promises of the running operator about updates, against a real API server."""

from __future__ import annotations

import functools
import json
from typing import Any

import pytest

from contract import pod_variables
from contract.pod_variables import NodeKey
from tests.operator.fakes import fake_dry_run
from tests.operator.worlds.template_changes import change_template, images, status
from tests.operator.worlds.world import CONF, World, knows, passes, settles, stateful_set, until

pytestmark = pytest.mark.apiserver


def have_image(world: World, image: str) -> bool:
    """Return whether both workers run it."""
    return images(world) == [image, image]


def is_ready(world: World, pod: str) -> bool:
    """Return whether a pod's status says so."""
    conditions = world.get("pods", pod).get("status", {}).get("conditions", [])
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def test_a_changed_template_rolls_and_spares_the_running_job(running_operator: World) -> None:
    world = running_operator
    world.wait("Available", "True")
    until(lambda: status(world).get("updated") == 2, "both nodes are on the first template")
    job = world.slurm.run_job("cpu-1")
    change_template(world, "newer")
    until(lambda: images(world) == ["newer", "none"], "the idle node is updated first")
    world.wait("Progressing", "True", "UpdateWaitsForJobs")
    assert status(world)["updated"] == 1
    world.wait("Available", "True")
    assert world.slurm.killed == []
    world.slurm.end_job(job)
    until(lambda: images(world) == ["newer", "newer"], "the other one follows when its job has ended")
    until(lambda: status(world)["updated"] == 2, "and it is told")
    world.wait("Progressing", "False")
    until(lambda: not [n for n in world.slurm.nodes.values() if "DRAIN" in n["state"]], "no drain of ours is left")
    told = {note for reason, note in world.events() if reason == "RestartPod"}
    assert "deleted the idle pod cpu-1: a new one has the current template" in told


def test_as_many_nodes_as_may_be_away_are_drained_together(running_operator: World) -> None:
    world, both = running_operator, ("cpu-0", "cpu-1")
    for room, old, new in ((2, "none", "newer"), ("100%", "newer", "newest")):
        settles(world, 2)
        jobs = [world.slurm.run_job(name) for name in both]
        world.patch("nodesets", "cpu", {"spec": {"update": {"maxUnavailable": room}}})
        change_template(world, new)
        until(lambda: all("DRAIN" in world.slurm.nodes[name]["state"] for name in both), f"{room} are drained at once")
        assert images(world) == [old, old]
        until(lambda: status(world).get("updating") == [*both], "what was taken is remembered")
        for job in jobs:
            world.slurm.end_job(job)
        until(functools.partial(have_image, world, new), "both are updated")
        until(lambda: status(world)["updated"] == 2, "and it is told")
        until(lambda: "updating" not in status(world), "both work again")
        assert world.slurm.killed == []


def test_a_pause_gives_a_drained_node_back_and_a_deadline_takes_its_jobs(running_operator: World) -> None:
    world = running_operator
    for state, old, new in (("RUNNING", "none", "newer"), ("SUSPENDED", "newer", "newest")):
        settles(world, 2)
        world.patch("nodesets", "cpu", {"spec": {"update": {"paused": False, "deadlineSeconds": None}}})
        knows(world, "nodesets", "cpu")
        for name in ("cpu-0", "cpu-1"):
            world.slurm.run_job(name, state=state)
        change_template(world, new)
        until(lambda: "DRAIN" in world.slurm.nodes["cpu-1"]["state"], f"a node with a {state} job is drained")
        world.patch("nodesets", "cpu", {"spec": {"update": {"paused": True}}})
        until(lambda: "DRAIN" not in world.slurm.nodes["cpu-1"]["state"], "the pause gives it back")
        assert images(world) == [old, old]
        world.patch("nodesets", "cpu", {"spec": {"update": {"paused": False, "deadlineSeconds": 0}}})
        until(functools.partial(have_image, world, new), "the deadline ends the wait")
        assert {job["job_state"][0] for job in world.slurm.jobs.values()} == {"PENDING"}, "requeued, not lost"


def test_a_node_that_slurm_refuses_under_a_record_of_a_larger_one_gets_its_own_record(running_operator: World) -> None:
    world = running_operator
    world.wait("Available", "True")
    size = json.dumps({NodeKey.CPUS: 4, NodeKey.MEMORY_MIB: 1000})
    container = {"name": "slurm", "image": "newer", "env": [{"name": pod_variables.NODE, "value": size}]}
    world.patch("statefulsets", "cpu", {"spec": {"template": {"spec": {"containers": [container]}}}})
    until(lambda: images(world) == ["newer", "newer"], "both have the template that says how large they are")
    world.wait("Progressing", "False")
    # As with a kubelet, the next slurmd starts long after the operator has told the pod before to end.
    world.broken["cpu-1"] = ""
    until(lambda: not is_ready(world, "cpu-1"), "a refused node is not ready")
    before = world.uid("pods", "cpu-1")
    with world.slurm.lock:
        world.slurm.drain("cpu-1", "Low RealMemory (reported:1000 < 100.00% of configured:2000)", "slurm")
        world.slurm.nodes["cpu-1"] |= {"cpus": 4, "real_memory": 2000}
        world.slurm.nodes["cpu-1"]["state"].append("INVALID_REG")
    until(lambda: world.uid("pods", "cpu-1") not in ("", before), "its pod is made anew")
    until(lambda: ("DELETE", "/node/cpu-1") in world.slurm.calls, "the larger record goes")
    del world.broken["cpu-1"]
    own = ["IDLE", "DYNAMIC_NORM"]
    until(lambda: world.slurm.nodes.get("cpu-1", {}).get("state") == own, "it works, with a record of its own")
    assert "real_memory" not in world.slurm.nodes["cpu-1"], "the larger record is gone"


def test_slurmctld_moves_after_slurmdbd_and_workers_after_both(running_operator: World) -> None:
    world = running_operator
    world.broken["slurm-accounting-0"] = ""
    world.create("statefulsets", stateful_set("slurm-accounting", "accounting"))
    world.patch("slurmclusters", "test", {"spec": {"accounting": "slurm-accounting"}})
    world.wait("Available", "True")

    def strategy() -> Any:
        return world.get("statefulsets", "slurm-controller")["spec"]["updateStrategy"]

    until(lambda: strategy() == {"type": "OnDelete"}, "Kubernetes leaves slurmctld's pod to the operator")
    knows(world, "slurmclusters", "test")
    before = world.uid("pods", "slurm-controller-0")
    change_template(world, "newer", "slurm-controller")
    change_template(world, "newer")
    assert "slurm-accounting comes first" in world.wait("Available", "False", "ControllerUpdating")["message"]
    assert world.uid("pods", "slurm-controller-0") == before
    assert images(world) == ["none", "none"]
    del world.broken["slurm-accounting-0"]
    until(lambda: world.uid("pods", "slurm-controller-0") not in ("", before), "slurmctld is updated")
    until(lambda: images(world) == ["newer", "newer"], "workers follow")
    world.wait("Available", "True")
    pods = {each["metadata"]["name"]: each for each in world.admin.call("GET", world.path("pods"))["items"]}
    assert pods["slurm-controller-0"]["spec"]["containers"][0]["image"] == "newer"
    made = [pods[name]["metadata"]["creationTimestamp"] for name in ("slurm-controller-0", "cpu-0")]
    assert made == sorted(made)


def test_a_slurmctld_that_works_stays_until_its_new_version_was_tried_with_the_declared_files(
    running_operator: World,
) -> None:
    world = running_operator
    world.wait("Available", "True")
    world.broken["slurm-rehearsal-0"] = "no such image"
    deployment = stateful_set("slurm-rehearsal", "rehearsal")
    del deployment["spec"]["serviceName"], deployment["spec"]["updateStrategy"]
    world.create("deployments", deployment)
    until(lambda: "slurm-rehearsal-0" in world.condition("Degraded")["message"], "its pod is known")
    passes(world, 2)
    before = world.uid("pods", "slurm-controller-0")
    world.patch("configmaps", "slurm-config-wanted", {"data": {"slurm.conf": f"{CONF}Nonsense=1\n"}})
    change_template(world, "newer", "slurm-controller")
    waits = world.wait("Available", "False", "ControllerUpdating")["message"]
    assert "slurm-rehearsal has to start with the new image first (slurm-rehearsal-0: " in waits
    del world.broken["slurm-rehearsal-0"]
    assert fake_dry_run.REFUSAL in world.wait("Stalled", "True", "ConfigurationRefused")["message"]
    assert world.uid("pods", "slurm-controller-0") == before
    world.patch("configmaps", "slurm-config-wanted", {"data": {"slurm.conf": CONF}})
    until(lambda: world.uid("pods", "slurm-controller-0") not in ("", before), "slurmctld is updated")
    world.wait("Available", "True")
