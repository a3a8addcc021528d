import json

import pytest
from node_health.node import Declared
from slurm_node.pod import settings
from slurm_node.pod.log import NodeError
from slurm_node.roles import worker

NODE = {"controller": "c:6817", "nodeSet": "cpu", "cpus": 2, "memoryMib": 2048, "gres": None, "weight": 100}


def node(**more: object) -> settings.Node:
    return settings.read_node({"SLURM_NODE": json.dumps({**NODE, **more})})


@pytest.mark.parametrize(("hostname", "weight"), [("cpu-0", 100), ("cpu-3", 100), ("cpu-4", 101), ("cpu-999", 115)])
def test_low_ordinals_weigh_less_in_at_most_sixteen_steps(hostname: str, weight: int) -> None:
    assert f"Weight={weight}" in node(weightBucket=4).slurmd_conf(hostname).split()


def test_a_node_without_devices_names_none() -> None:
    assert (
        node().slurmd_conf("cpu-0")
        == "Feature=cpu CPUs=2 RealMemory=2048 Weight=100 State=DRAIN Reason=pulumi-slurm:new"
    )
    assert node(gres="gpu:h100:8").slurmd_conf("cpu-0").split()[4] == "Gres=gpu:h100:8"


def test_a_node_registers_with_the_options_of_its_set() -> None:
    words = node(options={"MemSpecLimit": 64, "CoreSpecCount": 1}).slurmd_conf("cpu-0").split()
    assert [word for word in words if "Spec" in word] == ["CoreSpecCount=1", "MemSpecLimit=64"]


def test_a_login_node_needs_only_the_controller() -> None:
    assert settings.read_node({"SLURM_NODE": '{"controller":"c:1"}'}).controller == "c:1"


@pytest.mark.parametrize("path", ["home", "/", "/a/../etc", ""])
def test_a_persistent_path_that_leaves_its_place_is_refused(path: str) -> None:
    with pytest.raises(NodeError, match="persistent"):
        settings.read_jail({"SLURM_JAIL": json.dumps({"revision": "r", "persistent": [path]})})


@pytest.mark.parametrize("text", ["{", "[]"])
def test_a_variable_that_is_no_object_is_named(text: str) -> None:
    with pytest.raises(NodeError, match="SLURM_JAIL"):
        settings.read_jail({"SLURM_JAIL": text})
    with pytest.raises(NodeError, match="SLURM_JAIL"):
        settings.read_jail({})


def test_a_worker_declares_to_its_health_checks_what_the_program_said() -> None:
    said = node(rdma=2, unknownDrains=True, gres="gpu:h100:8")
    jail = settings.read_jail(
        {"SLURM_JAIL": json.dumps({"revision": "r", "tmpMib": 64, "shmMib": 96, "submounts": [{"path": "/scratch"}]})}
    )
    assert worker.declared(said, jail) == Declared(
        cpus=2, memory_mib=2048, gpus=8, rdma=2, submounts=("/scratch",), shm_mib=96, controller="c:6817",
        unknown_drains=True,
    )  # fmt: skip
    assert worker.declared(node(rdma=1, rdmaAdapters=8), jail).rdma_adapters == 8
    assert worker.declared(node(gres="gpu:mi300:8"), jail).nvidia
    assert not worker.declared(node(gres="gpu:mi300:8", otherGpus=True), jail).nvidia


def test_health_checks_count_whole_gpus_where_slurm_gives_out_parts() -> None:
    jail = settings.read_jail({"SLURM_JAIL": json.dumps({"revision": "r"})})
    shared = worker.declared(node(gres="gpu:h100:2,gpu:l40s:4,shard:64,fpga:2", gresWithFiles=["fpga"]), jail)
    divided = worker.declared(node(gres="gpu:1g.10gb:14", dividedGpus=2), jail)
    assert (shared.gpus, shared.mig) == (6, False)
    assert (divided.gpus, divided.mig) == (2, True)
