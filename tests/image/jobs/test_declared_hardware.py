"""Hardware that a node set declares: slurmd registers it, and jobs are given whole cores and shares of GPUs."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

import pytest

from tests.image.pods import CONTROLLER, WORKER
from tests.image.small_cluster import ALICE, NewCluster, SmallCluster

CPUS = os.cpu_count() or 1
"""As many as this machine has: the node's own check of CPUs lets no job run with more."""
CORES = CPUS // 2
pytestmark = pytest.mark.skipif(CPUS % 2 == 1, reason="declares two threads for each core")

NODE_SET = {
    "resources": {"cpu": CPUS, "memory": "1Gi"},
    "gpus": {"type": "h100", "perNode": 2, "devices": "/dev/nvidia[0-1]", "mps": 200, "runtimeClass": "none"},
    "options": {"Sockets": 1, "CoresPerSocket": CORES, "ThreadsPerCore": 2, "MemSpecLimit": 64, "TmpDisk": 500},
}
GPUS = "for number in 0 1; do mknod /dev/nvidia$number c 1 3; done; "
"""Null devices, in the place of GPUs."""
NUMA = f"""
made=/run/numa real=/sys/devices/system/node
for number in 0 1; do
    mkdir -p $made/node$number/hugepages
    sed "s/Node 0/Node $number/" $real/node0/meminfo > $made/node$number/meminfo
done
printf '%x' {(1 << CORES) - 1} > $made/node0/cpumap; printf '%x' {((1 << CORES) - 1) << CORES} > $made/node1/cpumap
echo 10 20 > $made/node0/distance; echo 20 10 > $made/node1/distance
for list in online possible has_cpu has_memory; do echo 0-1 > $made/$list; done
mount --bind $made $real
"""
"""Two NUMA nodes, each with half of the machine's CPUs."""
ONE_THREAD = ("--threads-per-core=1", "--hint=nomultithread")


@pytest.fixture(scope="module")
def cluster(new_cluster: NewCluster) -> Iterator[SmallCluster]:
    options = {"SlurmdParameters": "numa_node_as_socket,config_overrides"}
    with new_cluster(slurm={"options": options}, node_set=NODE_SET, first=GPUS + NUMA) as started:
        yield started


def test_a_node_registers_what_its_set_declares(cluster: SmallCluster) -> None:
    shown = cluster.pod(f"scontrol show node {WORKER}", name=CONTROLLER).stdout.split()
    cores = {"Sockets=1", f"CoresPerSocket={CORES}", "ThreadsPerCore=2"}
    declared = {f"CPUTot={CPUS}", *cores, "MemSpecLimit=64", "TmpDisk=500"}
    assert declared - {*shown} == set(), shown


def test_slurmd_counts_numa_nodes_as_sockets_if_asked_and_registers_what_is_declared(cluster: SmallCluster) -> None:
    counted = re.findall(r"SocketsPerBoard=(\d+:\d+)\(hw\)", cluster.log(WORKER))
    assert {*counted} == {"1:2"}, "declared, and counted"


def test_a_job_has_both_threads_of_its_core(cluster: SmallCluster) -> None:
    done = cluster.jail("srun -Q -n1 printenv SLURM_JOB_CPUS_PER_NODE", user=ALICE)
    assert done.stdout == "2\n", done


def test_a_job_has_its_share_of_a_gpu_for_mps(cluster: SmallCluster) -> None:
    done = cluster.jail("srun -Q -n1 --gres=mps:40 printenv CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", user=ALICE)
    assert done.stdout == "40\n", done


@pytest.mark.parametrize(
    ("asked", "fits"),
    [
        (f"-n{CPUS}", True),
        (f"-n{CPUS + 1}", False),
        *((f"-n{CORES} {threads}", True) for threads in ONE_THREAD),
        *((f"-n{CORES + 1} {threads}", False) for threads in ONE_THREAD),
        (f"-n1 --sockets-per-node=1 --cores-per-socket={CORES}", True),
        ("-n1 --sockets-per-node=2", False),
        (f"-n1 --cores-per-socket={CORES + 1}", False),
        ("-n1 --tmp=500", True),
        ("-n1 --tmp=501", False),
        ("-n1 --gres=mps:100", True),
        ("-n1 --gres=mps:101", False),
    ],
)
def test_jobs_ask_for_sockets_cores_threads_and_shares(cluster: SmallCluster, asked: str, fits: bool) -> None:
    tried = cluster.jail(f"sbatch --test-only -N1 --mem=100 {asked} --wrap true", user=ALICE).stderr
    words = "to start at" if fits else "Requested node configuration is not available"
    assert words in tried, tried
