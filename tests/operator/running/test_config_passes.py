"""A changed configuration: the running operator holds it, tries it and tells it to slurmctld, without a job's loss."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.operator.fakes import fake_dry_run
from tests.operator.fakes.fake_reservations import moment
from tests.operator.fakes.fake_slurm import FakeSlurm
from tests.operator.worlds.world import CONF, World, operator, until

pytestmark = pytest.mark.apiserver


def test_a_configuration_that_would_kill_jobs_is_held(running_operator: World) -> None:
    world = running_operator
    world.wait("Available", "True")
    job = world.slurm.run_job("cpu-0", partition="side")
    conf = world.get("configmaps", "slurm-config")["data"]["slurm.conf"]
    without = "SlurmctldParameters=pulumi_slurm=2\n" + conf.replace("PartitionName=side Nodes=ns_cpu\n", "")
    world.slurm.partitions = {"main": "UP", "side": "UP"}
    world.patch("configmaps", "slurm-config-wanted", {"data": {"slurm.conf": without, "extra.conf": "x"}})
    held = world.wait("Degraded", "True", "ConfigurationHeld")["message"]
    assert f"removes partition side, which would kill its job {job} (no known end):" in held
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
        # However long the operator took to start: slurmctld and cpu-0 have just started.
        world.slurm.started = int(time.time())
        world.slurm.nodes["cpu-0"]["slurmd_start_time"] = moment(world.slurm.started)
        world.slurm.nodes["cpu-1"]["slurmd_start_time"] = moment(world.slurm.started - 3600)
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


def test_the_first_configuration_does_not_wait_for_the_resource(
    cluster: World, tmp_path: Path, kubeconfig: Path, port: int
) -> None:
    with operator(cluster, tmp_path, kubeconfig, port):
        cluster.create("configmaps", {"metadata": {"name": "slurm-config-wanted"}, "data": {"slurm.conf": "A=b\n"}})
        until(lambda: "slurm-config" in cluster.names("configmaps"), "the active configuration is there")


def test_a_first_configuration_that_slurmctld_refuses_is_told_and_not_used(
    cluster: World, tmp_path: Path, kubeconfig: Path, port: int
) -> None:
    with operator(cluster, tmp_path, kubeconfig, port):
        cluster.declare(slurm_conf=f"{CONF}Nonsense=1\n")
        assert fake_dry_run.REFUSAL in cluster.wait("Available", "False", "ConfigurationRefused")["message"]
        assert "slurm-config" not in cluster.names("configmaps")
        cluster.patch("configmaps", "slurm-config-wanted", {"data": {"slurm.conf": CONF}})
        cluster.wait("Available", "True")
