"""A worker's pod with a CPU of its own, as Kubernetes' static CPU manager gives it: by the cpuset of its group."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.image import roots
from tests.image.pods import CONTROLLER, WORKER
from tests.image.small_cluster import ALICE
from tests.vm.v2_cluster import V2Cluster
from tests.vm.v2_groups import make

SHOW = "srun -n1 sh -c 'taskset -cp $$ | sed s/.*:.//; nproc'"
# A process that a test starts is not in the pod's group by itself.
CHECK = "echo $$ > /sys/fs/cgroup/pod/cgroup.procs && node-health --json --context periodic"
NOT_FIRST = "jobs are not pinned: Slurm gives out the machine's CPUs 0, and the pod owns 1"


class PinnedCluster(V2Cluster):
    """Its worker registers one CPU, and may use those of its cpuset alone."""

    cpus = 1

    def give(self, cpus: str) -> None:
        """Write the worker's cpuset, as the kubelet does when the container starts and while it runs."""
        self._top().mkdir(exist_ok=True)
        (self._top() / "cpuset.cpus").write_text(cpus)

    def of_a_job(self) -> list[str]:
        """The CPUs that a job may use, and how many its programs count."""
        done = self.jail(SHOW, user=ALICE)
        assert done.returncode == 0, done
        return done.stdout.split()

    def says(self, words: str) -> None:
        """Wait until the node's check of its CPUs says this."""
        last = ""

        def found() -> bool:
            nonlocal last
            said = json.loads(self.pod(CHECK).stdout)
            rows = [*said["checks"], *said["skipped"]]
            (last,) = [row.get("evidence") or row["why"] for row in rows if row["check"] == "cpu pinning"]
            return bool(last == words)

        try:
            self.wait(words, found, 60)
        except AssertionError as error:
            raise AssertionError(f"last it said {last}") from error


@pytest.fixture(scope="module")
def cluster(image: Path, groups: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PinnedCluster]:
    """The second CPU is the pod's: the static CPU manager keeps the first one for the system."""
    folder = tmp_path_factory.mktemp("pinned")
    root = roots.make("mpich", folder / "root")
    slurm = {"constrainCores": False}
    with PinnedCluster(image, root, folder, make(groups / "pinned"), {}, slurm=slurm) as started:
        started.give("1")
        started.start()
        yield started


def test_a_node_with_a_cpu_of_its_own_registers_it_and_its_jobs_stay_there(cluster: PinnedCluster) -> None:
    shown = cluster.pod(f"/opt/slurm/bin/scontrol -o show node {WORKER}", name=CONTROLLER).stdout
    assert " CPUTot=1 " in shown, shown
    assert cluster.of_a_job() == ["1", "1"]
    cluster.says("jobs share the pod's own CPUs 1: slurm.constrainCores is false")


def test_jobs_follow_cpus_that_the_kubelet_changes_and_the_node_says_so(cluster: PinnedCluster) -> None:
    running = cluster.jail("sbatch --parsable -n1 --mem=50 -o moved --wrap 'until [ -e go-on ]; do sleep 0.2; done; "
                           "taskset -cp $$ | sed s/.*:.//'", user=ALICE)  # fmt: skip
    cluster.wait("the job runs", lambda: cluster.processes(), 60)
    try:
        cluster.give("0-1")
        cluster.says(
            "jobs are not pinned: the pod has no exclusive CPUs (2 CPUs, 1 declared), and slurm.constrainCores is false"
        )
        cluster.give("0")
        cluster.says("jobs share the pod's own CPUs 0: slurm.constrainCores is false")
        cluster.jail("touch go-on", user=ALICE)
        cluster.wait("its end", lambda: cluster.jail("cat moved", user=ALICE).stdout == "0\n", 60)
    finally:
        cluster.jail(f"scancel {running.stdout}; rm -f go-on", user=ALICE)
        cluster.give("1")
    cluster.wait("the next job has the CPU of now", lambda: cluster.of_a_job() == ["1", "1"], 60)


def test_slurm_gives_out_the_first_cpu_and_a_job_stays_in_the_pods_all_the_same(cluster: PinnedCluster) -> None:
    """With constrainCores Slurm numbers the machine's CPUs. No number of it leads out of the pod's cpuset."""
    cluster.append("cgroup.conf", "ConstrainCores=yes\n")
    cluster.pod("/opt/slurm/bin/scontrol reconfigure", name=CONTROLLER).check_returncode()
    cluster.says(NOT_FIRST)
    assert cluster.of_a_job() == ["1", "1"]
    cluster.give("0")
    cluster.says("jobs keep to their own of the pod's CPUs 0")
    assert cluster.of_a_job() == ["0", "1"]


@pytest.fixture(scope="module")
def binding(image: Path, groups: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[V2Cluster]:
    """A worker with both CPUs, where task/affinity binds tasks and task/cgroup constrains jobs."""
    folder = tmp_path_factory.mktemp("binding")
    root = roots.make("mpich", folder / "root")
    slurm = {"options": {"TaskPlugin": "task/affinity"}}
    with V2Cluster(image, root, folder, make(groups / "binding"), {}, slurm=slurm) as started:
        started.start()
        yield started


@pytest.mark.parametrize(
    ("options", "seen"),
    [
        ("-n2", ["0 1", "1 1"]),
        ("-n2 --cpu-bind=map_cpu:1,0", ["1 1", "0 1"]),
        ("-n2 --cpu-bind=none", ["0,1 2", "0,1 2"]),
        ("-n1 --cpu-bind=none", ["0 1"]),
    ],
)
def test_a_task_binds_to_cpus_of_its_job_and_to_no_others(binding: V2Cluster, options: str, seen: list[str]) -> None:
    """Each task's CPUs, and how many its programs count."""
    own = "echo $(taskset -cp $$ | sed s/.*:.//) $(nproc)"
    done = binding.jail(f"srun --mem=50 --label {options} sh -c '{own}'", user=ALICE)
    assert [line.partition(": ")[2] for line in sorted(done.stdout.splitlines())] == seen, done
