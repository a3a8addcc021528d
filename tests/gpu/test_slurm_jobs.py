"""Slurm's jobs on this machine's GPUs, in a jail: a small cluster with NVIDIA's container toolkit and cgroup v2."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from tests.gpu import compute, toolkit
from tests.gpu.gpu_cluster import GpuCluster, NewGpuCluster
from tests.image.rendered_cluster import ALICE

USERS = pytest.mark.parametrize("user", [ALICE, 0], ids=["a user", "root"])
OPEN = "for file in /dev/nvidia[0-9]* /dev/null; do (: < $file) 2>/dev/null && echo $file; done; true"
# A file of one's own for the first GPU, whose numbers everybody knows, in the job's own /tmp.
MAKE = "mknod /tmp/gpu c 195 0 && (: < /tmp/gpu)"
ASK = "/opt/slurm/bin/scontrol show node --json"


def computed(cluster: GpuCluster, *options: str, user: int = ALICE) -> dict[str, object]:
    """Returns what a job's program says that adds numbers by CUDA."""
    program = shlex.quote(Path(compute.__file__).read_text())
    done = cluster.jail(f"srun {shlex.join(options)} python3 -c {program}", user=user, seconds=120)
    assert done.returncode == 0, done
    return json.loads(done.stdout)


def test_the_node_registers_its_gpus_by_autodetect(cluster: GpuCluster, device_files: list[Path]) -> None:
    (node,) = json.loads(cluster.pod(ASK).stdout)["nodes"]
    name, _, count = node["gres"].partition("(")[0].rpartition(":")
    assert (name.partition(":")[0], int(count)) == ("gpu", len(device_files)), node["gres"]


@USERS
def test_a_job_computes_on_the_gpu_that_it_asked_for(cluster: GpuCluster, user: int) -> None:
    answer = computed(cluster, "--gres=gpu:1", user=user)
    assert answer.pop("name"), answer
    assert answer == {"visible": "0", "gpus": 1, "sums": True}


@USERS
def test_a_job_that_asked_for_none_opens_none(cluster: GpuCluster, device_files: list[Path], user: int) -> None:
    assert cluster.jail(OPEN).stdout.split() == [*map(str, device_files), "/dev/null"], "without a job"
    done = cluster.jail(f"srun -n1 sh -c {shlex.quote(OPEN)}", user=user)
    assert (done.returncode, done.stdout.split()) == (0, ["/dev/null"]), done
    assert "GPU-" not in cluster.jail("srun -n1 nvidia-smi -L", user=user).stdout
    assert "refused" in computed(cluster, "-n1", user=user)


def test_root_in_a_job_makes_no_file_that_opens_a_gpu(cluster: GpuCluster) -> None:
    assert cluster.jail(f"srun -n1 sh -c {shlex.quote(MAKE)}").returncode != 0


def test_a_batch_job_sees_its_gpu_by_nvidia_smi(cluster: GpuCluster, device_files: list[Path]) -> None:
    wanted = len(device_files)
    said = cluster.batch("nvidia-smi -L; srun nvidia-smi -L", f"--gres=gpu:{wanted}")
    assert said.count("GPU-") == 2 * wanted, said


def test_no_file_of_the_driver_lies_on_the_shared_file_system(cluster: GpuCluster, specification: Path) -> None:
    driver = json.loads(specification.read_text())
    names = {Path(path).name for path in toolkit.mounted(driver)}
    there = [path for path in cluster.root.rglob("*") if path.name in names and not path.is_symlink()]
    assert len(names) > 5
    assert not there


def test_node_health_of_the_pod_finds_no_fault_of_a_gpu(cluster: GpuCluster, recorded: Path | None) -> None:
    said = cluster.pod("node-health --json").stdout
    if recorded:
        (recorded / "node-health.json").write_text(said)
    verdicts = {
        each["check"]: each["verdict"] for each in json.loads(said)["checks"] if each["check"].startswith("gpu")
    }
    assert len(verdicts) > 5
    assert "FAIL" not in verdicts.values(), said


def test_two_jobs_share_a_gpu_by_shards_and_one_without_gets_none(new_cluster: NewGpuCluster) -> None:
    with new_cluster("shards") as cluster:
        # The second computes while the first holds its shard: else the first waits for ever.
        wait = "until [ -e done ]; do sleep 0.1; done; nvidia-smi -L"
        submitted = cluster.jail(
            f"sbatch --parsable --gres=shard:1 -o first.out --wrap {shlex.quote(wait)}", user=ALICE
        )
        assert submitted.returncode == 0, submitted
        answer = computed(cluster, "--gres=shard:2", "-n1")
        assert (answer["gpus"], answer["sums"]) == (1, True), answer
        assert "refused" in computed(cluster, "-n1")
        assert cluster.jail("touch done", user=ALICE).returncode == 0
        cluster.wait("the first ends", lambda: "GPU-" in cluster.jail("cat first.out", user=ALICE).stdout, 60)
