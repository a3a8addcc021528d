"""Promises of the running operator, against a real API server and with only the rights of its Role."""

from __future__ import annotations

import functools
from pathlib import Path

import httpx
import pytest
from slurm_operator import health
from slurm_operator.clients.lease import RENEW_SECONDS

from contract import names, reasons
from devcluster.apiserver.control_plane import free_ports
from tests.operator.fakes.cuttable_proxy import CuttableProxy
from tests.operator.fakes.fake_slurm import Fault
from tests.operator.fakes.fake_slurmrestd import FakeSlurmrestd
from tests.operator.worlds.template_changes import change_template, images
from tests.operator.worlds.world import World, custom, metrics, operator, passes, settles, until

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
    until(lambda: images(world) == ["newer", "newer"], "the update goes on all the same")
    assert "cpu-7" in world.slurm.nodes


def test_without_its_rights_the_operator_is_no_longer_healthy_and_goes_on_when_they_are_back(
    running_operator: World, port: int
) -> None:
    world = running_operator

    def idle_seconds() -> int:
        return int(httpx.get(f"http://127.0.0.1:{port}/readyz", timeout=30).text.split(" s ago")[0].rpartition(" ")[2])

    settles(world, 2)
    for size, plural in ((2, "roles"), (3, "rolebindings")):
        rights = world.get(plural, "slurm-operator")
        world.delete(plural, "slurm-operator")
        world.scale(size + 1)
        until(lambda: "pulumi_slurm_lease_held 0.0" in metrics(port), f"acting has stopped without {plural}")
        until(lambda: idle_seconds() > 2 * RENEW_SECONDS, "passes that are refused are no progress")
        assert world.size() == size
        assert world.condition("Available")["status"] == "True", "nothing can be written"
        world.create(plural, {key: rights[key] for key in rights if key != "metadata"} | {"metadata": NAMED})
        settles(world, size + 1)  # It goes on by itself.


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
    with world.slurm.lock:  # As slurmctld does it when a node registers with less than its record.
        world.slurm.drain("cpu-0", "Low RealMemory", "slurm")
        world.slurm.nodes["cpu-0"]["state"].append("INVALID_REG")
    until(lambda: world.slurm.nodes["cpu-0"]["reason"] == "root: bad disk", "its author's words are there again")
    kept = [{"node": f"cpu-{n}", "reason": f"bad disk{' too' * n}", "user": "root"} for n in range(2)]
    assert world.get("nodesets", "cpu")["status"]["drainsOfOthers"] == kept
    assert "cpu-0 (bad disk)" in world.condition("DrainedByPeople")["message"]


FAULTS: dict[Fault, str] = {
    "refuse": "RestUnreachable",
    "hang": "RestUnreachable",
    "garbage": "RestAnswerUnusable",
    "half": "RestAnswerUnusable",
    "unauthorized": "RestUnauthorized",
    "slurmctld away": "SlurmctldUnreachable",
}
"""By what goes wrong: the reason that users read."""


@pytest.mark.timeout(900)  # Each fault and its end take some passes, with pauses that grow.
def test_nothing_is_done_while_slurm_cannot_be_seen(running_operator: World, slurm: FakeSlurmrestd) -> None:
    world = running_operator
    for fault, reason in FAULTS.items():
        world.scale(2)
        settles(world, 2)
        before = world.slurm.changes()
        if fault == "refuse":
            slurm.refuse()
        else:
            slurm.slurm.fail(fault)
        world.scale(0)
        world.wait("Available", "Unknown", reason)
        assert world.wait("Degraded", "True", reason)["message"], fault
        world.wait("Available", "Unknown", reason, plural="nodesets", name="cpu")
        assert world.size() == 2, fault
        assert world.slurm.changes() == before, fault
        if fault == "refuse":
            slurm.listen()
        else:
            slurm.slurm.fail("")
        until(lambda: world.size() == 0, f"it goes on by itself after {fault}, after a pause that has grown")
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


def test_the_api_server_away_for_a_while_ends_acting_and_then_all_goes_on(
    cluster: World, tmp_path: Path, kubeconfig: Path, port: int
) -> None:
    cluster.declare()
    with CuttableProxy(kubeconfig) as proxy, operator(cluster, tmp_path, kubeconfig, port) as process:
        cluster.wait("Available", "True")
        proxy.cut()
        cluster.scale(0)
        until(lambda: "pulumi_slurm_lease_held 0.0" in metrics(port), "acting has stopped")
        assert cluster.size() == 2
        proxy.mend()
        until(lambda: cluster.size() == 0, "it goes on by itself")
        assert process.is_alive(), "without a restart"


def test_health_and_metrics_are_served(running_operator: World, port: int) -> None:
    world = running_operator
    world.wait("Available", "True")
    assert [httpx.get(f"http://127.0.0.1:{port}/{path}", timeout=30).status_code for path in ("livez", "readyz")] == [
        200,
        200,
    ]
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
        return [httpx.get(f"http://127.0.0.1:{port}/{path}", timeout=30).status_code for path in ("livez", "readyz")]

    try:
        assert told() == [200, 200]
        now[stalled] = health.STALLED_SECONDS
        assert told() == ([503, 200] if stalled == "loop" else [200, 503])
        watched[stalled].made()
        assert told() == [200, 200]
    finally:
        stop()


def test_a_steady_cluster_costs_slurm_next_to_nothing(running_operator: World) -> None:
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
    asked = [path for _, path in world.slurm.calls[steady:] if path.startswith(("/job", "/diag"))]
    assert len(asked) == len({*asked}), "jobs are counted once a minute, and a pass may begin between both questions"
    assert {*asked} <= {"/diag/", "/jobs/state/"}
