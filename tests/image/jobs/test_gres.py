"""Generic resources of made-up devices in a running cluster: what a node registers, and what jobs get of it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from slurm_operator import drains
from slurm_operator.clients.slurm import slurmrestd_records
from slurm_operator.gres import canonical
from slurm_operator.state.slurm import SlurmNode

from components.config import parse
from tests.image.pods import CONTROLLER, WORKER
from tests.image.small_cluster import ALICE, NewCluster, SmallCluster
from tests.unit.samples import SMALL, changed

CAPS = "/dev/nvidia-caps/nvidia-cap"
NODE_SET: dict[str, Any] = {
    **SMALL["nodeSets"][0],
    "gpus": {
        "type": "h100", "perNode": 1, "devices": "/dev/nvidia0", "shards": 2048, "runtimeClass": "none",
        "more": [{
            "type": "1g.10gb", "perNode": 2, "resource": "nvidia.com/mig-1g.10gb",
            "multipleFiles": [f"/dev/nvidia1,{CAPS}[1-2]", f"/dev/nvidia1,{CAPS}[3-4]"],
        }],
    },
    "gres": [
        {"name": "fpga", "type": "u280", "perNode": 2, "devices": "/dev/fpga[0-1]"},
        {"name": "bandwidth", "perNode": 4096},
    ],
}  # fmt: skip
DEVICES = f"mkdir /dev/nvidia-caps; for file in /dev/nvidia0 /dev/nvidia1 {CAPS}1 {CAPS}2 {CAPS}3 {CAPS}4 /dev/fpga0"
MADE_UP = f"{DEVICES} /dev/fpga1; do mknod $file c 1 3; done; "
"""Null devices, in the place of GPUs."""
ASKED = ("SLURM_JOB_GPUS", "SLURM_STEP_GPUS", "SLURM_SHARDS_ON_NODE", "CUDA_VISIBLE_DEVICES")


@pytest.fixture(scope="module")
def cluster(new_cluster: NewCluster) -> Iterator[SmallCluster]:
    with new_cluster(node_set=NODE_SET, first=MADE_UP) as started:
        yield started


def record(cluster: SmallCluster) -> dict[str, Any]:
    """The node as slurmctld has it."""
    shown = cluster.pod(f"scontrol show node {WORKER} --json", name=CONTROLLER).stdout
    node: dict[str, Any] = json.loads(shown)["nodes"][0]
    return node


def test_the_operator_reads_the_record_of_a_node_as_what_was_declared(cluster: SmallCluster) -> None:
    declared = parse(changed("nodeSets.0", NODE_SET)).node_sets[0].node_gres or ""
    of_slurm = record(cluster)["gres"]
    assert of_slurm != declared, "or there were no need to compare what both say"
    assert canonical(of_slurm) == canonical(declared)


@pytest.mark.parametrize(
    ("asked", "given"),
    [
        ("gpu:h100:1", {"SLURM_STEP_GPUS": "0", "CUDA_VISIBLE_DEVICES": "0"}),
        ("gpu:1g.10gb:1", {"SLURM_STEP_GPUS": "1", "CUDA_VISIBLE_DEVICES": "1"}),
        ("shard:3", {"SLURM_STEP_GPUS": "0", "SLURM_SHARDS_ON_NODE": "3", "CUDA_VISIBLE_DEVICES": "0"}),
        ("fpga:1", {}),
        ("bandwidth:4096", {}),
    ],
)
def test_a_job_gets_what_it_asked_for(cluster: SmallCluster, asked: str, given: dict[str, str]) -> None:
    done = cluster.jail(f"srun --gres={asked} env", user=ALICE)
    assert done.returncode == 0, done.stderr
    seen = dict(line.split("=", 1) for line in done.stdout.splitlines() if line.startswith(ASKED))
    assert seen == given


@pytest.mark.parametrize("asked", ["gpu:h100:2", "gpu:4", "fpga:3", "bandwidth:4097", "shard:2049", "gpu:a100:1"])
def test_a_job_that_no_node_can_run_is_refused_at_once(cluster: SmallCluster, asked: str) -> None:
    done = cluster.jail(f"srun --gres={asked} true", user=ALICE)
    assert "Requested node configuration is not available" in done.stderr


def test_jobs_share_a_gpu_that_a_job_for_a_whole_one_waits_for(cluster: SmallCluster) -> None:
    def submit(gres: str, script: str) -> str:
        wanted = f"sbatch --parsable --mem=100 -o /dev/null --gres={gres} --wrap {script!r}"
        return cluster.jail(wanted, user=ALICE).stdout.strip()

    def state(job: str) -> str:
        return cluster.jail(f"squeue -h -j {job} -o '%T %r'", user=ALICE).stdout.strip()

    first = submit("shard:600", "sleep 600")
    cluster.wait("the first job runs", lambda: state(first).startswith("RUNNING"), 30)
    assert cluster.jail("srun --mem=100 --gres=shard:1 true", user=ALICE).returncode == 0
    whole = submit("gpu:h100:1", "true")
    cluster.wait("the job for a whole GPU waits", lambda: state(whole) == "PENDING Resources", 30)
    cluster.jail(f"scancel {first}", user=ALICE)
    cluster.wait("it has run", lambda: not state(whole), 60)


def test_slurm_leaves_its_drain_when_a_node_registers_with_all_its_resources_again(cluster: SmallCluster) -> None:
    """Its record is raised, as if the node had lost some. The operator lifts that drain."""

    def tell(counted: str) -> None:
        cluster.pod(f"scontrol update nodename={WORKER} gres={counted}", name=CONTROLLER)
        cluster.pod("scontrol reconfigure", name=CONTROLLER)  # slurmd starts anew, and registers with that.

    def shown() -> SlurmNode:
        return slurmrestd_records.node(msgspec.Raw(json.dumps(record(cluster)).encode()))

    declared = parse(changed("nodeSets.0", NODE_SET)).node_sets[0].node_gres or ""
    tell(declared.replace("bandwidth:4096", "bandwidth:4097"))
    cluster.wait("Slurm refuses the node", lambda: "INVALID_REG" in shown().states, 60)
    assert drains.owner(shown()) is drains.Owner.SLURM
    tell(declared)
    cluster.wait("Slurm takes the node", lambda: "INVALID_REG" not in shown().states, 60)
    left = shown()
    assert left.reason == "gres/bandwidth count reported lower than configured (4096 < 4097)"
    assert drains.is_left_by_slurm(left), left
    cluster.pod(f"scontrol update nodename={WORKER} state=undrain", name=CONTROLLER)
    assert cluster.jail("srun --mem=100 --gres=bandwidth:4096 true", user=ALICE).returncode == 0


def test_a_job_runs_on_when_gres_conf_names_a_device_that_its_pod_lacks(cluster: SmallCluster) -> None:
    """The node set was given another device: this pod has it only when it is made anew."""
    job = cluster.jail("sbatch --parsable --mem=100 -o /dev/null --gres=fpga:1 --wrap 'sleep 600'", user=ALICE)
    state = f"squeue -h -j {job.stdout.strip()} -o %T"
    cluster.wait("the job runs", lambda: cluster.jail(state).stdout.strip() == "RUNNING", 30)
    cluster.append("gres.conf", "NodeName=cpu-[0-9999] Name=fpga Type=u55c File=/dev/fpga9\n")
    before = cluster.pod("pgrep -o -x slurmd").stdout
    cluster.pod("scontrol reconfigure", name=CONTROLLER)
    cluster.wait(
        "the node has read it", lambda: "gres.conf names /dev/fpga9, which this pod" in cluster.log(WORKER), 60
    )
    assert cluster.jail("srun --mem=100 --gres=fpga:1 true", user=ALICE).returncode == 0
    assert cluster.pod("pgrep -o -x slurmd").stdout == before
    assert cluster.jail(state).stdout.strip() == "RUNNING"
    cluster.jail(f"scancel {job.stdout}", user=ALICE)
