"""Scaling in and out under running jobs while the operator, Slurm or the API server hangs, stops or is killed."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterator

import pytest

from devcluster.node import node_cli, processes

GATE = "gate-of-the-away-test"
SECONDS = 180
OUTAGE_SECONDS = 35
"""Longer than every call of the operator (LISTING_SECONDS of its client) and than its Lease."""


def scale(slurm, nodes: int) -> None:
    slurm.kubectl("scale", "nodeset", "cpu", f"--replicas={nodes}").ok()


def size(slurm) -> int:
    return int(slurm.get("statefulset", "cpu")["spec"]["replicas"])


def outside_pulumi(slurm) -> dict[str, str]:
    return slurm.condition("ScaledOutsidePulumi", "nodeset", "cpu")


def submit(slurm, *options: str) -> str:
    """A job of one node that ends well when the gate, which has the name of its number, is there."""
    wait = f"until test -e {GATE}.$SLURM_JOB_ID; do sleep 0.2; done"
    return slurm.sh(f"sbatch --parsable -n1 {' '.join(options)} -o /dev/null --wrap '{wait}'").ok()


def let_go(slurm, job: str) -> None:
    slurm.sh(f"touch {GATE}.{job}").ok()
    slurm.wait("the job ends well", lambda: state(slurm, job).startswith("COMPLETED "), SECONDS)


def state(slurm, job: str) -> str:
    """State and nodes of a job; empty while Slurm does not answer."""
    return slurm.sh(f"squeue -h -t all -j {job} -o '%T %N'").stdout.strip()


def reason(slurm, node: str) -> str:
    return slurm.sh(f"scontrol -o show node {node} | sed -n 's/.* Reason=//p'").stdout.partition(" [")[0]


def ready(slurm, machine: str) -> str:
    return slurm.condition("Ready", "node", machine)["status"]


def processes_of(slurm, component: str, program: str) -> list[int]:
    pods = slurm.get("pods", "-l", f"app.kubernetes.io/component={component}")["items"]
    return processes.of_pods([pod["metadata"]["uid"] for pod in pods], program)


def node_program(slurm, name: str) -> int:
    """The process of a program of the dev cluster's node."""
    parts = node_cli.status(slurm.cluster.instance).components
    pid = next(each.state.pid for each in parts if each.state.name == name)
    assert pid, f"{name} does not run"
    return pid


@contextlib.contextmanager
def stopped(*pids: int) -> Iterator[None]:
    """Processes that do nothing for a while, as when their machine hangs: their sockets accept, nobody answers."""
    assert pids
    try:
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        yield
    finally:
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)


@pytest.fixture
def three_nodes(slurm) -> Iterator[None]:
    """A third node, as `kubectl scale` gives one; afterwards there are as many as the program declares."""
    declared = slurm.get("nodeset", "cpu")["spec"]["replicas"]
    scale(slurm, 3)
    try:
        slurm.wait("three nodes", lambda: slurm.nodes().get("cpu-2") == "idle" and slurm.all_idle(), SECONDS)
        yield
    finally:
        slurm.sh(f"scancel --user=dev; rm -f {GATE}.*")
        scale(slurm, declared)
        slurm.wait("as many as declared", lambda: size(slurm) == declared and slurm.idle_within(5), SECONDS)


def test_nodes_by_hand_take_jobs_from_the_lowest_and_leave_from_the_highest_when_theirs_have_ended(slurm, three_nodes):
    words = "kubectl asked for 3 nodes, the program declares 2, "
    slurm.wait(words, lambda: outside_pulumi(slurm)["message"].startswith(words), SECONDS)
    assert outside_pulumi(slurm)["status"] == "True"

    jobs = {}
    for node in ("cpu-0", "cpu-1", "cpu-2"):
        jobs[node] = job = submit(slurm)
        slurm.wait("a place", lambda job=job: state(slurm, job).startswith("RUNNING "), SECONDS)
        assert state(slurm, job) == f"RUNNING {node}", "the lowest node that is free"
    let_go(slurm, jobs["cpu-1"])

    scale(slurm, 1)
    going = {"cpu-0": "allocated", "cpu-1": "drained", "cpu-2": "draining"}
    slurm.wait("the highest two are drained", lambda: slurm.nodes() == going, SECONDS)
    assert reason(slurm, "cpu-1") == reason(slurm, "cpu-2") == "pulumi-slurm:scale-in"
    assert size(slurm) == 3, "a busy node keeps those below it"

    scale(slurm, 3)
    staying = {"cpu-0": "allocated", "cpu-1": "idle", "cpu-2": "allocated"}
    slurm.wait("they stay after all", lambda: slurm.nodes() == staying, SECONDS)
    assert slurm.sh("srun -n1 hostname").ok() == "cpu-1"

    scale(slurm, 2)
    slurm.wait("the highest is drained", lambda: slurm.nodes().get("cpu-2") == "draining", SECONDS)
    slurm.wait("as the program declares", lambda: outside_pulumi(slurm)["status"] == "False", SECONDS)
    let_go(slurm, jobs["cpu-2"])
    slurm.wait("no orphaned record", lambda: sorted(slurm.nodes()) == ["cpu-0", "cpu-1"] and size(slurm) == 2, SECONDS)
    assert state(slurm, jobs["cpu-0"]) == "RUNNING cpu-0"
    let_go(slurm, jobs["cpu-0"])


def test_nothing_is_done_while_slurmrestd_hangs_and_all_goes_on_when_it_answers(slurm):
    def available() -> str:
        return slurm.condition("Available")["status"]

    declared = size(slurm)
    try:
        with stopped(*processes_of(slurm, "rest", "slurmrestd")):
            scale(slurm, 0)
            slurm.wait("nobody knows", lambda: available() == "Unknown", SECONDS)
            assert size(slurm) == declared
            assert set(slurm.nodes().values()) == {"idle"}, "none is drained"
            scale(slurm, declared)
    finally:
        scale(slurm, declared)
    slurm.wait("it sees Slurm again", lambda: available() == "True" and slurm.all_idle(), SECONDS)


def test_a_scale_in_survives_an_outage_of_the_control_plane_and_the_death_of_the_operator(slurm, three_nodes):
    def pod() -> str:
        return slurm.kubectl("get", "pod", "cpu-2", "-o", "jsonpath={.metadata.uid}", "--ignore-not-found").ok()

    def holder() -> str:
        asked = ("get", "lease", "slurm-operator", "-o", "jsonpath={.spec.holderIdentity}", "--ignore-not-found")
        return slurm.kubectl(*asked).ok()

    machine, before = slurm.get("pod", "cpu-2")["spec"]["nodeName"], pod()
    job = submit(slurm, "-w cpu-2")
    slurm.wait("the job runs", lambda: state(slurm, job) == "RUNNING cpu-2", SECONDS)

    with stopped(node_program(slurm, "kubelet")):
        scale(slurm, 2)
        with stopped(node_program(slurm, "kube-apiserver")):
            until = time.monotonic() + OUTAGE_SECONDS
            while time.monotonic() < until:
                time.sleep(5)  # The outage itself.
            assert state(slurm, job) == "RUNNING cpu-2"
        # Longer unheard of than Kubernetes bears: on one machine, all Services lose their pods too.
        slurm.wait("the machine is lost", lambda: ready(slurm, machine) == "Unknown", SECONDS)
    slurm.wait("the machine is back", lambda: ready(slurm, machine) == "True", SECONDS)
    slurm.wait("the scale-in goes on", lambda: reason(slurm, "cpu-2") == "pulumi-slurm:scale-in", SECONDS)

    old = holder()
    operators = processes_of(slurm, "operator", "slurm_operator")
    assert operators
    for pid in operators:
        os.kill(pid, signal.SIGKILL)
    slurm.wait("another one holds the lease", lambda: holder() not in ("", old), SECONDS)
    assert (state(slurm, job), size(slurm), pod()) == ("RUNNING cpu-2", 3, before)

    let_go(slurm, job)
    slurm.wait("no orphaned record", lambda: sorted(slurm.nodes()) == ["cpu-0", "cpu-1"] and size(slurm) == 2, SECONDS)
    slurm.wait("its pod ended", lambda: pod() == "", SECONDS)
