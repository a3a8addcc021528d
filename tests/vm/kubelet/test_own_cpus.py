"""Workers of a real kubelet with the static CPU manager: one owns a CPU, the other shares what is left.

`make test-vm TESTS=tests/vm/kubelet/test_own_cpus.py` runs them.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator

import pytest

from devcluster.node.plan import files
from tests.devcluster.node_under_test import STATIC
from tests.e2e.conftest import Slurm
from tests.image.pods import CONTROLLER
from tests.vm.kubelet import small_up
from tests.vm.kubelet.kubelet_cluster import containers, of_status

OWNS, SHARES = "owns-0", "shares-0"
LEFT, OWNED = "0", "1"
"""CPUs of the guest: the kubelet keeps the first one for the system, and pods that own none run there."""
CPU = {OWNS: OWNED, SHARES: LEFT}
RESOURCES = {"cpu": 1, "memory": "1280Mi", "reservedMemory": "256Mi", "sharedMemory": "96Mi"}
SHOW = "nproc; taskset -cp $$ | sed s/.*:.//; numactl -s | sed -n 's/^physcpubind: *//p'"
SAYS = {
    OWNS: f"jobs share the pod's own CPUs {OWNED}: slurm.constrainCores is false",
    SHARES: "jobs are not pinned: the pod has no exclusive CPUs (1 CPUs, 1 declared, cpuRequest is less), "
    "and slurm.constrainCores is false",
}


def change(config: small_up.Config) -> None:
    """Two node sets that differ in the CPU that they ask of Kubernetes."""
    config["pulumi-slurm:nodeSets"] = [
        {"name": "owns", "replicas": 1, "resources": RESOURCES},
        {"name": "shares", "replicas": 1, "resources": {**RESOURCES, "cpuRequest": "100m"}},
    ]
    (partition,) = config["pulumi-slurm:partitions"]
    partition["nodeSets"] = ["owns", "shares"]


@pytest.fixture(scope="module")
def slurm(request: pytest.FixtureRequest) -> Iterator[Slurm]:
    usual = files.kubelet_configuration
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            files, "kubelet_configuration", lambda facts, credentials: {**usual(facts, credentials), **STATIC}
        )
        with small_up.started("guest-static", change, request) as cluster:
            yield cluster


def cpus(slurm: Slurm) -> dict[str, dict[str, str]]:
    """The CPUs of each running container's first process, by pod and container."""
    running: dict[str, dict[str, str]] = {}
    for pod in slurm.get("pods")["items"]:
        found = {one.name: of_status(one.first_process(), "Cpus_allowed_list")[0] for one in containers(slurm, pod)}
        running |= {pod["metadata"]["name"]: found} if found else {}
    return running


def test_the_kubelet_gives_a_cpu_to_the_worker_that_is_guaranteed_and_to_no_other_pod(slurm: Slurm) -> None:
    assert {name: slurm.get("pod", name)["status"]["qosClass"] for name in CPU} == {
        OWNS: "Guaranteed",
        SHARES: "Burstable",
    }

    def of_all() -> dict[str, dict[str, str]]:
        found = cpus(slurm)
        own = found.pop(OWNS)
        assert own == {"worker": OWNED}, own
        assert {cpu for of_pod in found.values() for cpu in of_pod.values()} == {LEFT}, found
        return found

    # The kubelet looks each second which CPUs are left for the containers that it started earlier.
    others = slurm.wait("a CPU for one, the other for the rest", of_all)
    assert {SHARES, CONTROLLER, "slurm-login-0"} <= others.keys()


@pytest.mark.parametrize("node", CPU)
def test_a_node_registers_its_cpu_and_a_job_counts_and_uses_that_one(slurm: Slurm, node: str) -> None:
    shown = slurm.sh(f"scontrol -o show node {node}").ok()
    assert " CPUTot=1 " in shown, shown
    seen = slurm.sh(f"srun -Q -w {node} bash -c {shlex.quote(SHOW)}").ok()
    assert seen.split("\n") == ["1", CPU[node], CPU[node]]
    batch = f"sbatch -Q -W -w {node} -o out-{node} --wrap 'taskset -cp $$' && sed 's/.*: //' out-{node}"
    assert slurm.sh(batch).ok() == CPU[node]


def test_a_job_leaves_its_pods_cpu_for_no_other(slurm: Slurm) -> None:
    tried = slurm.sh(f"srun -Q -w {OWNS} sudo taskset -c {LEFT} true")
    assert tried.status != 0
    assert "failed to set pid" in tried.text, tried


@pytest.mark.parametrize("node", CPU)
def test_a_node_says_whether_its_pod_owns_its_cpus(slurm: Slurm, node: str) -> None:
    def said() -> str:
        # In a guest, kubectl exec may lose the words of a program that ends at once.
        answer = json.loads(slurm.on_pod(node, "node-health --json --context periodic; sleep 1").stdout)
        rows = [*answer["checks"], *answer["skipped"]]
        (words,) = [row.get("evidence") or row["why"] for row in rows if row["check"] == "cpu pinning"]
        return str(words)

    assert slurm.wait("its check of CPUs", said) == SAYS[node]
