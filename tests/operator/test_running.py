"""Promises of the running operator, against a real API server and with only the rights of its Role."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import httpx
import pytest
from slurm_operator import health
from slurm_operator.clients.lease import RENEW_SECONDS

from contract import names, reasons
from devcluster.apiserver.control_plane import free_ports
from tests.operator import fake_dry_run
from tests.operator.cuttable_proxy import CuttableProxy
from tests.operator.fake_slurmrestd import FakeSlurm, FakeSlurmrestd, Fault
from tests.operator.test_update_passes import change_template, images
from tests.operator.world import World, custom, operator, until

pytestmark = pytest.mark.apiserver

AT_REST = ("AsWanted", "NobodyDrained", "NotStalled", "Steady")
"""Reasons of conditions that tell of nothing."""

NAMED = {"name": "slurm-operator"}


def test_a_declared_cluster_becomes_available(running_operator: World) -> None:
    world = running_operator
    world.wait("Available", "True")
    status = world.get("slurmclusters", "test")["status"]
    assert status["revision"] == "r1"
    none = {"allocated": 0, "draining": 0, "drained": 0, "drainedByPeople": 0, "down": 0}
    assert status["nodes"] == {"wanted": 2, "ready": 2, "idle": 2, "updated": 2, **none}
    assert world.condition("Progressing")["status"] == "False"
    assert world.condition("Degraded")["status"] == "False"
    node_set = world.get("nodesets", "cpu")["status"]
    assert (node_set["replicas"], node_set["readyReplicas"], node_set["drainedByPeople"]) == (2, 2, 0)
    expected = {"SetReplicas", "PromoteConfiguration", "AvailableTrue"}
    until(lambda: {reason for reason, _ in world.events()} >= expected, "each decision has its Event")
    active = world.get("configmaps", "slurm-config")
    assert active["data"] == world.get("configmaps", "slurm-config-wanted")["data"]
    owner = active["metadata"]["ownerReferences"][0]
    assert (owner["kind"], owner["name"]) == ("ConfigMap", "slurm-config-wanted"), "it goes when the declared one goes"
    managers = {entry["manager"] for entry in active["metadata"]["managedFields"]}
    assert managers == {"pulumi-slurm-operator"}


def passes(world: World, count: int) -> None:
    """Wait until the operator has looked at Slurm some more times."""
    calls = world.slurm.calls
    seen = len(calls)
    until(lambda: sum(call == ("GET", "/nodes/") for call in calls[seen:]) >= count, f"{count} more passes", 90)


def test_scaling_out_adds_nodes_and_is_available_when_they_are(running_operator: World) -> None:
    world = running_operator
    world.wait("Available", "True")
    world.broken["cpu-3"] = "registry does not know it"
    world.scale(4)
    assert "cpu-3" in world.wait("Available", "False", "NodesNotReady")["message"]
    assert world.wait("Degraded", "True")["message"].endswith("ImagePullBackOff: registry does not know it")
    del world.broken["cpu-3"]
    world.wait("Available", "True")
    assert world.size() == 4


def test_scaling_in_drains_shrinks_and_leaves_no_ghost(running_operator: World) -> None:
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


@pytest.mark.parametrize("state", ["RUNNING", "SUSPENDED", "COMPLETING"])
def test_scaling_in_waits_for_the_job(running_operator: World, state: str) -> None:
    world = running_operator
    world.wait("Available", "True")
    job = world.slurm.run_job("cpu-1", state=state)
    world.scale(1)
    until(lambda: "DRAIN" in world.slurm.nodes["cpu-1"]["state"], "cpu-1 is drained")
    passes(world, 2)
    assert world.size() == 2
    assert world.condition("Available")["status"] == "True", "what leaves does not count"
    assert world.condition("Progressing")["status"] == "True"
    world.slurm.end_job(job)
    until(lambda: world.size() == 1, "the set shrinks")
    until(lambda: "cpu-1" not in world.slurm.nodes, "the record goes")
    assert world.slurm.killed == []


@pytest.mark.parametrize("state", ["RUNNING", "SUSPENDED"])
def test_a_deep_queue_is_not_listed_and_a_node_goes_when_its_record_says_that_it_is_free(
    running_operator: World, state: str
) -> None:
    world = running_operator
    with world.slurm.lock:
        world.slurm.memory, world.slurm.deep = True, 100_000
    world.wait("Available", "True")
    job = world.slurm.run_job("cpu-1", state=state)
    world.scale(1)
    until(lambda: "DRAIN" in world.slurm.nodes["cpu-1"]["state"], "cpu-1 is drained")
    passes(world, 2)
    assert world.size() == 2
    world.slurm.end_job(job)
    until(lambda: world.size() == 1, "the set shrinks")
    passes(world, 2)
    assert "cpu-1" in world.slurm.nodes, "a job may name it"
    assert world.slurm.killed == []
    assert not [path for _, path in world.slurm.calls if path.startswith("/job")], "no job is asked for"
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


def test_a_listing_of_jobs_that_fails_leaves_the_nodes_known(running_operator: World) -> None:
    world = running_operator
    world.wait("Available", "True")
    with world.slurm.lock:
        world.slurm.memory, world.slurm.jobs_fail = True, True
    world.scale(1)
    until(lambda: "DRAIN" in world.slurm.nodes["cpu-1"]["state"], "cpu-1 is drained")
    passes(world, 2)
    assert world.size() == 2
    assert world.condition("Available")["status"] == "True"
    world.slurm.jobs_fail = False
    until(lambda: world.size() == 1, "the set shrinks")


def test_a_job_whose_nodes_nobody_can_read_is_on_every_node_and_blinds_nothing(running_operator: World) -> None:
    world = running_operator
    world.wait("Available", "True")
    job = world.slurm.run_job("cpu-0", state="SUSPENDED")
    world.slurm.jobs[job]["nodes"] = "cpu-[0-"
    world.scale(1)
    until(lambda: "DRAIN" in world.slurm.nodes["cpu-1"]["state"], "cpu-1 is drained")
    passes(world, 2)
    assert world.size() == 2
    assert world.condition("Available")["status"] == "True"
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


def test_a_record_that_slurm_does_not_delete_stops_no_other_move(running_operator: World) -> None:
    world = running_operator
    world.wait("Available", "True")
    with world.slurm.lock:
        world.slurm.kept.add("cpu-7")
        world.slurm.register("cpu-7")
        world.slurm.drain("cpu-7", reasons.SCALE_IN, names.SLURM_USER)
    told = world.wait("Degraded", "True", "ActionRefused")["message"]
    assert "DeleteRecord: Failure to delete node cpu-7" in told
    change_template(world, "newer")
    until(lambda: images(world) == ["newer", "newer"], "the update goes on all the same", 60)
    assert "cpu-7" in world.slurm.nodes


@pytest.mark.parametrize("plural", ["roles", "rolebindings"])
def test_without_its_rights_the_operator_is_no_longer_healthy_and_goes_on_when_they_are_back(
    running_operator: World, port: int, plural: str
) -> None:
    world = running_operator
    world.wait("Available", "True")
    rights = world.get(plural, "slurm-operator")
    world.delete(plural, "slurm-operator")
    world.scale(3)
    until(lambda: "pulumi_slurm_lease_held 0.0" in metrics(port), "acting has stopped", 60)

    def idle_seconds() -> int:
        return int(httpx.get(f"http://127.0.0.1:{port}/readyz").text.split(" s ago")[0].rpartition(" ")[2])

    until(lambda: idle_seconds() > 2 * RENEW_SECONDS, "passes that are refused are no progress", 60)
    assert world.size() == 2
    assert world.condition("Available")["status"] == "True", "nothing can be written"
    world.create(plural, {key: rights[key] for key in rights if key != "metadata"} | {"metadata": NAMED})
    until(lambda: world.size() == 3, "it goes on by itself", 90)


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
    world.declare(replicas=None)
    with pytest.raises(RuntimeError, match="the spec replicas field"):
        world.admin.call("GET", path)

    def asked() -> dict[str, Any]:
        try:
            return world.admin.call("GET", path)
        except RuntimeError:
            return {"spec": {}, "status": {}}

    with operator(world, tmp_path, kubeconfig, port):
        until(lambda: asked()["spec"].get("replicas") == 1, "its size is written", 60)
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
        world.slurm.run_job("", state="PENDING")
        told = 'pulumi_slurm_pending_nodes{partition="main"} 1.0'
        until(lambda: told in metrics(port), "what waits", 60)
        until(lambda: 'pulumi_slurm_allocated_nodes{node_set="cpu"} 0.0' in metrics(port), "what works")
        assert len([note for reason, note in world.events() if reason == "WriteSize"]) == 1


def test_a_node_drained_by_somebody_is_named_and_left_alone(running_operator: World) -> None:
    world = running_operator
    world.wait("Available", "True")
    before = world.slurm.changes()
    world.slurm.drain("cpu-0", "bad disk", "root")
    told = world.wait("DrainedByPeople", "True")
    assert told["message"] == "drained by root: cpu-0 (bad disk)"
    assert world.condition("DrainedByPeople", "nodesets", "cpu")["message"] == told["message"]
    assert world.condition("Available")["status"] == "True"
    assert world.condition("Degraded")["status"] == "False"
    world.slurm.drain("cpu-1", "bad disk too", "root")
    world.wait("Available", "False", "NoUsableNodes")
    assert world.slurm.changes() == before


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        ("refuse", "RestUnreachable"),
        ("hang", "RestUnreachable"),
        ("garbage", "RestAnswerUnusable"),
        ("half", "RestAnswerUnusable"),
        ("unauthorized", "RestUnauthorized"),
        ("slurmctld away", "SlurmctldUnreachable"),
    ],
)
def test_nothing_is_done_while_slurm_cannot_be_seen(
    running_operator: World, slurm: FakeSlurmrestd, fault: Fault, reason: str
) -> None:
    world = running_operator
    world.wait("Available", "True")
    before = world.slurm.changes()
    if fault == "refuse":
        slurm.refuse()
    else:
        slurm.slurm.fail(fault)
    world.scale(0)
    world.wait("Available", "Unknown", reason)
    assert world.wait("Degraded", "True", reason)["message"]
    world.wait("Available", "Unknown", reason, plural="nodesets", name="cpu")
    assert world.size() == 2
    assert world.slurm.changes() == before
    if fault == "refuse":
        slurm.listen()
    else:
        slurm.slurm.fail("")
    until(lambda: world.size() == 0, "it goes on by itself, after a pause that has grown", 120)
    world.wait("Available", "True")


def test_available_speaks_of_the_declared_revision_only(running_operator: World) -> None:
    world = running_operator
    world.wait("Available", "True")
    world.patch("slurmclusters", "test", {"spec": {"revision": "r2"}})
    assert "r2" in world.wait("Available", "False", "LedgerMismatch")["message"]
    assert world.get("slurmclusters", "test")["status"]["revision"] == "r1"
    world.ledger("r2")
    world.wait("Available", "True")
    assert world.get("slurmclusters", "test")["status"]["revision"] == "r2"


def test_a_configuration_that_would_kill_jobs_is_held(running_operator: World) -> None:
    world = running_operator
    world.wait("Available", "True")
    job = world.slurm.run_job("cpu-0", partition="side")
    conf = world.get("configmaps", "slurm-config")["data"]["slurm.conf"]
    without = "SlurmctldParameters=pulumi_slurm=2\n" + conf.replace("PartitionName=side Nodes=ns_cpu\n", "")
    world.slurm.partitions = {"main": "UP", "side": "UP"}
    world.patch("configmaps", "slurm-config-wanted", {"data": {"slurm.conf": without, "extra.conf": "x"}})
    held = world.wait("Degraded", "True", "ConfigurationHeld")["message"]
    assert f"removes partition side, which would kill its jobs {job}" in held
    assert world.get("configmaps", "slurm-config")["data"]["slurm.conf"] == conf
    until(lambda: world.slurm.partitions["side"] == "DRAIN", "the partition takes no more jobs")
    world.slurm.end_job(job)
    wanted = world.get("configmaps", "slurm-config-wanted")["data"]
    until(lambda: world.get("configmaps", "slurm-config")["data"] == wanted, "the configuration is copied")
    until(lambda: ("GET", "/reconfigure/") in world.slurm.calls, "slurmctld is told")
    world.wait("Progressing", "True", "Reconfiguring")
    shown = world.get("pods", "slurm-controller-0")["metadata"]["annotations"]
    assert "pulumi-slurm.dev/configuration" in shown, "kubelet is to look at once"
    # The file has come: the next telling finds it.
    world.slurm.parameters = ["pulumi_slurm=2"]
    world.wait("Progressing", "False")
    assert world.get("slurmclusters", "test")["status"]["configuration"] == {"running": "2"}


class OneLateJob(list[tuple[str, str]]):
    """Counts requests to slurmctld. After the first listing of jobs a user submits one to a partition."""

    def __init__(self, slurm: FakeSlurm) -> None:
        super().__init__(slurm.calls)
        self._slurm = slurm

    def append(self, call: tuple[str, str]) -> None:
        if self[-1] == ("GET", "/jobs/state/") and not self._slurm.jobs:
            self._slurm.run_job("cpu-0", partition="side")
        super().append(call)


def test_a_partition_that_goes_is_closed_before_it_is_taken_for_empty(running_operator: World) -> None:
    world = running_operator
    world.wait("Available", "True")
    world.slurm.partitions = {"main": "UP", "side": "UP"}
    conf = world.get("configmaps", "slurm-config")["data"]["slurm.conf"]
    without = conf.replace("PartitionName=side Nodes=ns_cpu\n", "")
    world.slurm.calls = OneLateJob(world.slurm)
    world.patch("configmaps", "slurm-config-wanted", {"data": {"slurm.conf": without}})
    until(lambda: world.slurm.partitions["side"] == "DRAIN", "the partition takes no more jobs")
    world.wait("Degraded", "True", "ConfigurationHeld")
    assert world.get("configmaps", "slurm-config")["data"]["slurm.conf"] == conf, "a restart of slurmctld kills nothing"
    world.slurm.end_job(1)
    until(lambda: world.get("configmaps", "slurm-config")["data"]["slurm.conf"] == without, "it goes when it is empty")


def test_an_option_that_slurmctld_takes_at_its_start_only_restarts_it(running_operator: World) -> None:
    world = running_operator
    world.wait("Available", "True")
    before = world.uid("pods", "slurm-controller-0")
    conf = world.get("configmaps", "slurm-config")["data"]["slurm.conf"]
    changed = f"SlurmctldParameters=pulumi_slurm=2\n{conf}CommunicationParameters=NoCtldInAddrAny\n"
    world.patch("configmaps", "slurm-config-wanted", {"data": {"slurm.conf": changed}})
    assert "noctldinaddrany" in world.wait("Progressing", "True", "Restarting")["message"]
    until(lambda: world.uid("pods", "slurm-controller-0") not in ("", before), "slurmctld is restarted")
    world.slurm.parameters, world.slurm.communication = ["pulumi_slurm=2"], ["NoCtldInAddrAny"]
    world.wait("Progressing", "False")
    assert ("GET", "/reconfigure/") not in world.slurm.calls


def test_a_partition_that_stays_after_all_takes_jobs_again(running_operator: World) -> None:
    world = running_operator
    world.wait("Available", "True")
    world.slurm.run_job("cpu-0", partition="side")
    world.slurm.partitions = {"main": "UP", "side": "UP"}
    conf = world.get("configmaps", "slurm-config-wanted")["data"]["slurm.conf"]
    without = conf.replace("PartitionName=side Nodes=ns_cpu\n", "")
    world.patch("configmaps", "slurm-config-wanted", {"data": {"slurm.conf": without}})
    until(lambda: world.slurm.partitions["side"] == "DRAIN", "the partition takes no more jobs")
    world.patch("configmaps", "slurm-config-wanted", {"data": {"slurm.conf": conf}})
    until(lambda: world.slurm.partitions["side"] == "UP", "the partition takes jobs")
    world.wait("Degraded", "False")


def test_a_configuration_that_slurmctld_refuses_is_told_and_not_used(running_operator: World) -> None:
    world = running_operator
    world.wait("Available", "True")
    before = world.get("configmaps", "slurm-config")["data"]
    bad = {"slurm.conf": before["slurm.conf"] + "Nonsense=1\n"}
    world.patch("configmaps", "slurm-config-wanted", {"data": bad})
    told = world.wait("Available", "False", "ConfigurationRefused")["message"]
    assert fake_dry_run.REFUSAL in told
    assert world.get("configmaps", "slurm-config")["data"] == before
    assert ("GET", "/reconfigure/") not in world.slurm.calls
    world.patch("configmaps", "slurm-config-wanted", {"data": before})
    world.wait("Available", "True")


def test_nodes_that_missed_the_configuration_are_named_and_asked_again(running_operator: World) -> None:
    world = running_operator
    world.wait("Available", "True")
    with world.slurm.lock:
        long_ago = {"set": True, "infinite": False, "number": world.slurm.started - 3600}
        world.slurm.nodes["cpu-1"]["slurmd_start_time"] = long_ago
        world.slurm._changed()
    assert "cpu-1" in world.wait("Progressing", "True", "NodesOutdated")["message"]
    assert ("GET", "/reconfigure/") not in world.slurm.calls, "slurmctld has only just told it"
    world.slurm.started -= 600
    assert "configuration before: cpu-1;" in world.wait("Degraded", "True", "NodesOutdated")["message"]
    until(lambda: ("GET", "/reconfigure/") in world.slurm.calls, "slurmctld asks the nodes again")
    world.slurm.register("cpu-1")
    world.wait("Degraded", "False")


def test_an_active_configuration_changed_by_hand_becomes_the_declared_one_again(running_operator: World) -> None:
    world = running_operator
    world.wait("Available", "True")
    wanted = world.get("configmaps", "slurm-config-wanted")["data"]
    world.patch("configmaps", "slurm-config", {"data": {"slurm.conf": "ClusterName=mine\n", "more": "y"}})
    until(lambda: world.get("configmaps", "slurm-config")["data"] == wanted, "the copy is exact again")


def test_mistakes_between_resources_are_told(running_operator: World) -> None:
    world = running_operator
    world.wait("Available", "True")
    before = world.slurm.changes()
    world.create("nodesets", custom("NodeSet", "gpu", {"cluster": "test", "statefulSet": "gpu", "replicas": 1}))
    assert "no StatefulSet gpu" in world.wait("Degraded", "True", "StatefulSetMissing")["message"]
    world.create("nodesets", custom("NodeSet", "lost", {"cluster": "other", "statefulSet": "lost"}))
    world.wait("Degraded", "True", "ClusterMissing", plural="nodesets", name="lost")
    world.create("slurmclusters", custom("SlurmCluster", "second", {"revision": "r1"}))
    world.wait("Available", "False", "AnotherClusterInNamespace", name="second")
    assert world.size() == 2
    assert world.slurm.changes() == before


def test_what_was_said_of_nodes_goes_with_the_cluster(running_operator: World) -> None:
    world = running_operator
    there = functools.partial(world.wait, plural="nodesets", name="cpu")
    there("Available", "True")
    world.delete("slurmclusters", "test")
    assert "nobody looks at the nodes of this set" in there("Available", "False", "ClusterMissing")["message"]
    status = world.get("nodesets", "cpu")["status"]
    kinds = {each["type"]: each["status"] for each in status["conditions"]}
    assert (kinds["Ready"], kinds["Reconciling"], kinds["Degraded"]) == ("False", "True", "False")
    assert {each["reason"] for each in status["conditions"]} <= {"ClusterMissing", *AT_REST}, "nothing of before stays"
    assert not {"readyReplicas", "idle", "allocated", "drained", "updated"} & status.keys()
    assert status["replicas"] == world.size() == 2, "nodes stay, and who scales them sees how many"
    spec = {"revision": "r1", "rest": world.rest, "rehearsal": {"url": world.dry_run_url}}
    world.create("slurmclusters", custom("SlurmCluster", "test", spec))
    there("Available", "True")


def test_the_first_configuration_does_not_wait_for_the_resource(
    cluster: World, tmp_path: Path, kubeconfig: Path, port: int
) -> None:
    with operator(cluster, tmp_path, kubeconfig, port):
        cluster.create("configmaps", {"metadata": {"name": "slurm-config-wanted"}, "data": {"slurm.conf": "A=b\n"}})
        until(lambda: "slurm-config" in cluster.names("configmaps"), "the active configuration is there")


def test_the_api_server_away_for_a_while_ends_acting_and_then_all_goes_on(
    cluster: World, tmp_path: Path, kubeconfig: Path, port: int
) -> None:
    cluster.declare()
    with CuttableProxy(kubeconfig) as proxy, operator(cluster, tmp_path, kubeconfig, port) as process:
        cluster.wait("Available", "True")
        proxy.cut()
        cluster.scale(0)
        until(lambda: "pulumi_slurm_lease_held 0.0" in metrics(port), "acting has stopped", 60)
        assert cluster.size() == 2
        proxy.mend()
        until(lambda: cluster.size() == 0, "it goes on by itself", 60)
        assert process.poll() is None, "without a restart"


def test_health_and_metrics_are_served(running_operator: World, port: int) -> None:
    world = running_operator
    world.wait("Available", "True")
    assert [httpx.get(f"http://127.0.0.1:{port}/{path}").status_code for path in ("livez", "readyz")] == [200, 200]
    page = metrics(port)
    for line in (
        "pulumi_slurm_pass_seconds_count",
        'pulumi_slurm_rest_seconds_count{call="nodes"}',
        'pulumi_slurm_replica_moves_total{direction="out"} 1.0',
        'pulumi_slurm_wanted_actions{action="remove",node_set="cpu"} 0.0',
        "pulumi_slurm_lease_held 1.0",
    ):
        assert line in page


@pytest.mark.parametrize("stalled", ["loop", "slurm", "healing"])
def test_passes_without_progress_are_not_ready_and_only_a_loop_that_stands_still_is_restarted(stalled: str) -> None:
    now = {"loop": 0.0, "slurm": 0.0, "healing": 0.0}
    watched = {name: health.Progress(functools.partial(now.__getitem__, name)) for name in now}
    loop, passes = watched["loop"], {name: watched[name] for name in ("slurm", "healing")}
    port = free_ports(1)[0]
    stop = health.serve(loop, passes, port)

    def told() -> list[int]:
        return [httpx.get(f"http://127.0.0.1:{port}/{path}").status_code for path in ("livez", "readyz")]

    try:
        assert told() == [200, 200]
        now[stalled] = health.STALLED_SECONDS
        assert told() == ([503, 200] if stalled == "loop" else [200, 503])
        watched[stalled].made()
        assert told() == [200, 200]
    finally:
        stop()


def test_a_steady_cluster_costs_slurm_nothing(running_operator: World) -> None:
    world = running_operator
    world.wait("Available", "True")
    world.wait("Progressing", "False")
    before = world.slurm.not_modified
    until(lambda: world.slurm.not_modified > before, "listings are answered with 'not modified'")
    passes(world, 1)  # The one before has written by then what it found.
    steady = len(world.slurm.calls)  # While new nodes were still drained, the jobs that they waited for were asked for.
    version = world.get("slurmclusters", "test")["metadata"]["resourceVersion"]
    passes(world, 1)
    assert world.get("slurmclusters", "test")["metadata"]["resourceVersion"] == version, "nothing new, nothing written"
    assert not [path for _, path in world.slurm.calls[steady:] if path.startswith(("/job", "/diag"))]


def metrics(port: int) -> str:
    return httpx.get(f"http://127.0.0.1:{port}/metrics", timeout=30).text
