"""task/affinity: jobs' tasks keep to the CPUs and GPUs that they bind to. The machine needs two CPUs."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.image.small_cluster import ALICE, NewCluster, SmallCluster
from tests.unit.samples import SMALL

pytestmark = pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="binds tasks to two CPUs")

NODE_SET = {
    **SMALL["nodeSets"][0],
    "gpus": {
        "type": "h100",
        "perNode": 2,
        "devices": "/dev/nvidia[0-1]",
        "runtimeClass": "none",
        "cores": {"/dev/nvidia0": "1", "/dev/nvidia1": "0"},
    },
    "resources": {"cpu": os.cpu_count(), "memory": "1Gi"},
}
GPUS = "for number in 0 1; do mknod /dev/nvidia$number c 1 3; done; "
"""Null devices, in the place of GPUs."""


@pytest.fixture(scope="module")
def cluster(new_cluster: NewCluster) -> Iterator[SmallCluster]:
    options = {"TaskPlugin": "task/affinity", "SelectTypeParameters": "CR_CPU_Memory"}
    with new_cluster(slurm={"options": options}, node_set=NODE_SET, first=GPUS) as started:
        yield started


def tasks(cluster: SmallCluster, options: str, script: str) -> list[str]:
    """Output of each task of a step, by its rank."""
    done = cluster.jail(f"srun --mem=100 --label {options} sh -c '{script}'", user=ALICE)
    assert done.returncode == 0, done.stderr
    return [line.partition(": ")[2] for line in sorted(done.stdout.splitlines())]


@pytest.mark.parametrize(
    ("options", "masks"),
    [
        ("-n2", ["1 1", "2 1"]),
        ("-n2 --cpu-bind=cores", ["1 1", "2 1"]),
        ("-n2 --cpu-bind=map_cpu:1,0", ["2 1", "1 1"]),
        ("-n2 --cpu-bind=none", ["3 2", "3 2"]),
        ("-n1 -c2 --hint=nomultithread", ["3 2"]),
    ],
)
def test_a_task_runs_on_the_cpus_that_it_binds_to(cluster: SmallCluster, options: str, masks: list[str]) -> None:
    """A mask in hexadecimal digits, and how many CPUs a program would count."""
    own = "echo $(taskset -p $$ | sed s/.*:.//) $(nproc)"
    assert tasks(cluster, options, own) == masks


@pytest.mark.parametrize(
    ("options", "seen"),
    [
        ("--gpus=2", ["0,1", "0,1"]),
        ("--gpus=2 --gpu-bind=single:1", ["1", "0"]),
        ("--gpus=2 --gpu-bind=map_gpu:0,1", ["0", "1"]),
        ("--gpus-per-task=1", ["1", "0"]),
    ],
)
def test_a_task_sees_the_gpus_that_it_binds_to(cluster: SmallCluster, options: str, seen: list[str]) -> None:
    """The first task runs on core 0, and GPU 1 is beside that."""
    assert tasks(cluster, f"-n2 {options}", "echo $CUDA_VISIBLE_DEVICES") == seen


@pytest.mark.parametrize("options", ["--gpus=1", "--gres=gpu:h100:1 --gres-flags=enforce-binding"])
def test_a_job_runs_on_the_cores_beside_its_gpu(cluster: SmallCluster, options: str) -> None:
    """By itself Slurm would give core 0, mask 1, to a job with GPU 0."""
    (seen,) = tasks(cluster, f"-n1 {options}", "echo $SLURM_STEP_GPUS $(taskset -p $$ | sed s/.*:.//)")
    assert seen in ("0 2", "1 1")
