"""Waits of `pulumi up`, against a real API server and the running operator: each ends when its answer is known."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest

from components import availability, jail_ready, nodes_ready, wait_provider
from components.wait_provider import UnavailableError
from contract import names
from devcluster.apiserver.control_plane import ApiServer
from tests.operator.fakes.fake_slurm import FakeSlurm
from tests.operator.worlds.world import CONF, KEY, STRATEGIC, Admin, World, operator, until

pytestmark = pytest.mark.apiserver
FAULT_SECONDS = 2.0
LIMIT_SECONDS = 120.0
_NUMBERS = itertools.count()


def inputs_of(world: World, apiserver: ApiServer) -> dict[str, Any]:
    """Inputs of a wait."""
    access = {"kubeconfig": str(apiserver.kubeconfig), "context": None}
    which = {"nodeSet": "cpu", "cluster": "test", "revision": "r1", "operatorImage": ""}
    return {**which, **access, "namespace": world.namespace, "seconds": LIMIT_SECONDS}


@pytest.fixture
def inputs(running_operator: World, apiserver: ApiServer, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Inputs of a wait for an available cluster; a fault is given less time to pass than in earnest."""
    monkeypatch.setattr(wait_provider, "FAULT_SECONDS", FAULT_SECONDS)
    running_operator.wait("Available", "True")
    return inputs_of(running_operator, apiserver)


def forbid_more_pods(world: World) -> None:
    """A quota that is full; nobody here counts its pods."""
    there = str(len(world.names("pods")))
    quota = {"metadata": {"name": "small"}, "spec": {"hard": {"pods": there}}}
    path = f"/api/v1/namespaces/{world.namespace}/resourcequotas"
    world.admin.call("POST", path, quota)
    counted = {"status": {"hard": {"pods": there}, "used": {"pods": there}}}
    headers = {"Content-Type": "application/merge-patch+json"}
    world.admin.call("PATCH", f"{path}/small/status", counted, headers=headers)


def test_a_quota_that_refuses_pods_ends_both_waits_in_the_api_servers_words(
    running_operator: World, inputs: dict[str, Any]
) -> None:
    forbid_more_pods(running_operator)
    until(lambda: is_refused(running_operator, "exceeded quota"), "the API server knows the quota")
    running_operator.scale(3)
    running_operator.wait("Degraded", "True", "PodsRefused", plural="nodesets", name="cpu")
    words = "is forbidden: exceeded quota: small, requested"
    until(lambda: words in running_operator.condition("Available")["message"], "the cluster's status has the words")
    for wait in (availability.wait, nodes_ready.wait):
        with pytest.raises(
            UnavailableError, match=r"StatefulSet cpu: .*is forbidden: exceeded quota: small, requested"
        ):
            wait(inputs)


def is_refused(world: World, words: str) -> bool:
    """Return whether the API server refuses a pod that asks for nothing in such words, without making it."""
    pod = {"metadata": {"name": "tried"}, "spec": {"containers": [{"name": "slurm", "image": "none"}]}}
    try:
        world.admin.call("POST", world.path("pods"), pod, params={"dryRun": "All"})
    except RuntimeError as refused:
        return words in str(refused)
    return False


def test_a_namespace_that_forbids_privileges_ends_both_waits_in_the_api_servers_words(
    running_operator: World, inputs: dict[str, Any]
) -> None:
    level = {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "restricted"}}}
    path = f"/api/v1/namespaces/{running_operator.namespace}"
    running_operator.admin.call("PATCH", path, level, headers=STRATEGIC)
    until(lambda: is_refused(running_operator, "violates PodSecurity"), "the API server knows the level")
    running_operator.scale(3)
    running_operator.wait("Available", "False")
    for wait in (availability.wait, nodes_ready.wait):
        with pytest.raises(UnavailableError, match=r'StatefulSet cpu: .*violates PodSecurity "restricted:latest"'):
            wait(inputs)


def test_a_refused_configuration_ends_the_wait_with_slurmctlds_words_though_a_node_is_down(
    running_operator: World, inputs: dict[str, Any]
) -> None:
    running_operator.slurm.take_down("cpu-1", "Not responding", names.SLURM_USER)
    running_operator.wait("Available", "False", "NodesDown")
    files = running_operator.get("configmaps", "slurm-config")["data"]
    running_operator.patch(
        "configmaps", "slurm-config-wanted", {"data": {"slurm.conf": files["slurm.conf"] + "Nonsense=1\n"}}
    )
    running_operator.wait("Available", "False", "ConfigurationRefused")
    with pytest.raises(UnavailableError, match=r"ConfigurationRefused: .*Nonsense"):
        availability.wait(inputs)


def test_a_new_clusters_refused_configuration_ends_the_wait_although_slurmctld_does_not_start_without_it(
    cluster: World, tmp_path: Path, kubeconfig: Path, port: int, apiserver: ApiServer
) -> None:
    cluster.broken["slurm-controller-0"] = ""
    cluster.slurm.fail("slurmctld away")
    with operator(cluster, tmp_path, kubeconfig, port):
        cluster.declare(slurm_conf=f"{CONF}Nonsense=1\n")
        with pytest.raises(UnavailableError, match=r"^ConfigurationRefused: .*Nonsense"):
            availability.wait(inputs_of(cluster, apiserver))


def test_the_wait_for_nodes_ends_when_they_take_jobs_and_says_which_do_not_when_its_time_is_over(
    running_operator: World, inputs: dict[str, Any]
) -> None:
    running_operator.broken["cpu-3"] = "no such image"
    running_operator.scale(4)
    running_operator.wait("Available", "False", plural="nodesets", name="cpu")
    with pytest.raises(UnavailableError, match=r"timeouts\.nodes is over: .* of 4 nodes of cpu take jobs: .*cpu-3"):
        nodes_ready.wait({**inputs, "seconds": 1})
    running_operator.broken.clear()
    nodes_ready.wait(inputs)
    assert running_operator.get("nodesets", "cpu")["status"]["readyReplicas"] == 4


@pytest.fixture
def bare(admin: Admin) -> World:
    """A namespace in which nobody plays a controller."""
    world = World(admin, f"waits-{next(_NUMBERS)}", FakeSlurm(KEY), "")
    world.create("serviceaccounts", {"metadata": {"name": "default"}})
    return world


POD = {"restartPolicy": "Never", "containers": [{"name": "image", "image": "jail:2"}]}


def populate(world: World) -> dict[str, Any]:
    """Create a Job as Pulumi does; nothing here makes its pods."""
    path = f"/apis/batch/v1/namespaces/{world.namespace}/jobs"
    body = {"metadata": {"name": "slurm-jail-2"}, "spec": {"template": {"spec": POD}}}
    return world.admin.call("POST", path, body)


def test_a_jail_image_that_cannot_be_pulled_ends_its_wait_in_kubelets_words(
    bare: World, apiserver: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wait_provider, "FAULT_SECONDS", FAULT_SECONDS)
    job = populate(bare)["metadata"]
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": job["name"], "uid": job["uid"]}
    metadata = {"name": "slurm-jail-2-a", "labels": {"job-name": job["name"]}, "ownerReferences": [owner]}
    bare.create("pods", {"metadata": metadata, "spec": POD})
    waiting = {"reason": "ErrImagePull", "message": "jail:2 not found"}
    state = {"name": "image", "image": "jail:2", "imageID": "", "ready": False, "restartCount": 0}
    pulls = {"status": {"containerStatuses": [{**state, "state": {"waiting": waiting}}]}}
    bare.patch("pods", "slurm-jail-2-a", pulls, "status")
    inputs = {"job": job["name"], "namespace": bare.namespace, "seconds": LIMIT_SECONDS}
    inputs |= {"kubeconfig": str(apiserver.kubeconfig), "context": None}
    told = "pod slurm-jail-2-a, container image: ErrImagePull: jail:2 not found"
    with pytest.raises(UnavailableError, match=told):
        jail_ready.wait(inputs)


def test_a_quota_that_refuses_populates_pod_ends_its_wait_in_the_api_servers_words(
    bare: World, apiserver: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wait_provider, "FAULT_SECONDS", FAULT_SECONDS)
    job = populate(bare)["metadata"]
    about = {"kind": "Job", "name": job["name"], "namespace": bare.namespace, "uid": job["uid"]}
    words = 'Error creating: pods "slurm-jail-2-" is forbidden: exceeded quota: small'
    event = {"metadata": {"name": "refused"}, "involvedObject": about, "type": "Warning", "reason": "FailedCreate"}
    path = f"/api/v1/namespaces/{bare.namespace}/events"
    bare.admin.call("POST", path, {**event, "message": words, "lastTimestamp": "2026-01-01T00:00:00Z"})
    inputs = {"job": job["name"], "namespace": bare.namespace, "seconds": LIMIT_SECONDS}
    inputs |= {"kubeconfig": str(apiserver.kubeconfig), "context": None}
    with pytest.raises(UnavailableError, match=r"Job slurm-jail-2: .*exceeded quota: small"):
        jail_ready.wait(inputs)
