"""The whole dev cluster on cgroup v2, once for most tests of this folder: its start alone takes minutes in a guest.

`make test-vm TESTS=tests/vm/kubelet` runs them.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from devcluster.apiserver import control_plane
from devcluster.cli import up
from devcluster.images import images
from devcluster.node import containerd, node_cli, toolchain
from devcluster.node.instance import Instance
from devcluster.stacks.stack import Stack
from tests.e2e.conftest import Slurm
from tests.e2e.nodes import fake_gpu_set
from tests.image.jobs.intervals import OFTEN
from tests.vm.kubelet import small_jail
from tests.vm.kubelet.kubelet_cluster import KubeletCluster, SlowSlurm
from tests.vm.v2_cluster import JOBS_PROCESSES

NODE_CPUS = 2
TEST_SECONDS = 900
USED_IMAGES = ("slurm", "operator", "database")
START_SECONDS = 2400
"""A cluster's first test's own, with `make up` in it."""
NODE_SECONDS = 360
"""Until the API server is ready, and then until the node is."""
FOLDER = Path(__file__).parent
OF_THEIR_OWN = ("test_on_nfs.py", "test_own_cpus.py")
"""Files whose tests have a cluster of their own."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Clusters of a file's own come first, and each ends before the next one starts: a guest is too small for two."""
    ours = [item for item in items if item.path.parent == FOLDER]
    clusters = [[item for item in ours if item.path.name == name] for name in OF_THEIR_OWN]
    clusters.append([item for item in ours if item.path.name not in OF_THEIR_OWN])
    for tests in clusters:
        for number, item in enumerate(tests):
            item.add_marker(pytest.mark.timeout(TEST_SECONDS if number else START_SECONDS))
    items[:] = [*(item for item in items if item not in ours), *(item for tests in clusters for item in tests)]


def configure(stack: Stack) -> None:
    """Give the dev stack small limits, cores of their own and a node with fake GPUs, before it is made."""
    stack.prepare()
    stack.write_config({})
    content = yaml.safe_load(stack.config_file.read_text())
    config, logins = content["config"], KubeletCluster.logins
    # A guest starts programs slowly: checks every 15 s would leave it no time for jobs.
    config["pulumi-slurm:health"]["interval"] = "10m"
    config["pulumi-slurm:timeouts"] |= {"available": "30m", "populate": "30m"}
    (workers,) = config["pulumi-slurm:nodeSets"]
    workers["resources"] |= {"cpu": NODE_CPUS, "processes": JOBS_PROCESSES}
    gpus: dict[str, Any] = copy.deepcopy(fake_gpu_set.GPUS)
    gpus["resources"]["cpu"] = NODE_CPUS
    config["pulumi-slurm:nodeSets"].append(gpus)
    config["pulumi-slurm:partitions"].append(fake_gpu_set.PARTITION)
    config["pulumi-slurm:slurm"] = {"constrainCores": True, **OFTEN}
    config["pulumi-slurm:login"]["limits"] = {
        "memoryPerUser": f"{logins.mib}Mi",
        "processesPerUser": logins.processes,
        "cpuPerUser": f"{logins.cpu_millis}m",
    }
    stack.config_file.write_text(yaml.safe_dump(content, sort_keys=False))


def give_small_jail(patch: pytest.MonkeyPatch, used: Iterable[str] = USED_IMAGES) -> None:
    """Have `up` take tests.vm.kubelet.small_jail, and wait for the node and its images as long as a guest needs."""
    build_all = images.build_all
    patch.setattr(images, "build_all", lambda cache: build_all(cache, used) | {"jail": small_jail.image()})
    patch.setattr(containerd, "IMPORT_SECONDS", START_SECONDS)
    # Beside other tests a guest's API server was not ready after 90 s, once.
    for module in (control_plane, node_cli):
        patch.setattr(module, "READY_SECONDS", NODE_SECONDS)


@pytest.fixture(scope="session")
def slurm() -> Iterator[Slurm]:
    """The cluster. PULUMI_SLURM_E2E_INSTANCE names one that is up in this guest already, for writing tests."""
    if existing := os.environ.get("PULUMI_SLURM_E2E_INSTANCE"):
        yield SlowSlurm(up.existing(Instance.named(existing)))
        return
    instance = Instance.named("guest")
    try:
        with pytest.MonkeyPatch.context() as patch:
            give_small_jail(patch)
            configure(Stack(up.stack_folder(instance), toolchain.build(), instance.kubeconfig))
            started = up.up(instance, owner=os.getpid())
        yield SlowSlurm(started)
    finally:
        node_cli.remove(instance)


@pytest.fixture(scope="session")
def cluster(slurm: Slurm) -> KubeletCluster:
    started = KubeletCluster(slurm)
    slurm.sh("srun -Q -N2 true").ok()  # Slurm makes some groups for a node's first job, and they stay.
    return started
