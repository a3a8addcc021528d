"""A Kubernetes node that is emptied, or that is bad: its workers take no new jobs, and keep those that they have."""

from __future__ import annotations

import datetime
import json

GATE = "$HOME/gate-of-the-machine-test"
EVICTABLE = "pulumi-slurm.dev/evictable"
CONDITION = "KernelDeadlock"
"""As node-problem-detector writes it."""


def reason(slurm) -> str:
    return slurm.sh("scontrol -o show node cpu-1 | sed -n 's/.* Reason=//p'").ok().partition(" [")[0]


def state(slurm, job: str) -> str:
    return slurm.sh(f"scontrol -o show job {job} | sed -n 's/.* JobState=\\([A-Z]*\\).*/\\1/p'").ok()


def submit(slurm) -> str:
    """A job on cpu-1 that ends when the gate is there."""
    script = f"while [ ! -e {GATE} ]; do sleep 0.2; done"
    job = slurm.sh(f"rm -f {GATE}; sbatch --parsable -w cpu-1 -o /dev/null --wrap '{script}'").ok()
    slurm.wait("the job runs", lambda: state(slurm, job) == "RUNNING", 120)
    return job


def test_a_kubernetes_drain_waits_for_a_job_and_an_uncordon_gives_the_nodes_back(slurm):
    def uid() -> str:
        pod = slurm.kubectl("get", "pod", "cpu-1", "-o", "jsonpath={.metadata.uid}", "--ignore-not-found")
        return pod.ok()

    def evict() -> str:
        eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "cpu-1", "namespace": "slurm"}}
        path = "/api/v1/namespaces/slurm/pods/cpu-1/eviction"
        return slurm.kubectl("create", "--raw", path, "-f", "-", text=json.dumps(eviction)).text

    machine, before, job = slurm.get("pod", "cpu-1")["spec"]["nodeName"], uid(), submit(slurm)
    try:
        slurm.kubectl("cordon", machine).ok()
        slurm.wait("a drain", lambda: reason(slurm) == f"pulumi-slurm:node {machine} is cordoned", 120)
        assert "disruption budget" in evict()
        assert (state(slurm, job), uid()) == ("RUNNING", before)
        slurm.sh(f"touch {GATE}").ok()
        slurm.wait("the job is done", lambda: state(slurm, job) == "COMPLETED", 120)
        slurm.wait("the eviction passes", lambda: "disruption budget" not in evict(), 120)
        slurm.wait("the pod went", lambda: uid() != before, 180)
    finally:
        slurm.kubectl("uncordon", machine).ok()
        slurm.sh(f"scancel {job}; rm -f {GATE}").ok()
        slurm.wait("all take jobs again", slurm.all_idle, 240)
    assert slurm.sh("srun -n1 -w cpu-1 hostname").ok() == "cpu-1"
    slurm.wait("all are protected again", lambda: not slurm.get("pods", "-l", EVICTABLE)["items"], 120)


def test_a_condition_of_another_program_drains_the_workers_there_and_its_end_gives_them_back(slurm):
    machine = slurm.get("pod", "cpu-1")["spec"]["nodeName"]

    def patch(condition: dict[str, str]) -> None:
        change = json.dumps({"status": {"conditions": [{"type": CONDITION, **condition}]}})
        slurm.kubectl("patch", "node", machine, "--subresource=status", "--type=strategic", "-p", change).ok()

    def say(status: str, why: str) -> None:
        now = f"{datetime.datetime.now(datetime.UTC):%Y-%m-%dT%H:%M:%SZ}"
        times = {"lastHeartbeatTime": now, "lastTransitionTime": now}
        patch({"status": status, "reason": why, "message": "played by a test", **times})

    def count(conditions: list[dict[str, object]] | None) -> None:
        change = json.dumps({"spec": {"nodeConditions": conditions}})
        slurm.kubectl("patch", "nodeset", "cpu", "--type=merge", "-p", change).ok()

    declared, job = slurm.get("nodeset", "cpu")["spec"].get("nodeConditions"), submit(slurm)
    try:
        say("False", "KernelHasNoDeadlock")
        count([{"type": CONDITION, "failsWhen": True}])
        say("True", "DockerHung")
        drain = f"pulumi-slurm:node {machine} says {CONDITION}=True (DockerHung)"
        slurm.wait("a drain", lambda: reason(slurm) == drain, 60)
        assert state(slurm, job) == "RUNNING"
        slurm.sh(f"touch {GATE}").ok()
        slurm.wait("the job is done", lambda: state(slurm, job) == "COMPLETED", 120)
        slurm.wait("it stays drained", lambda: slurm.nodes()["cpu-1"] == "drained")
        say("False", "KernelHasNoDeadlock")
        slurm.wait("all take jobs again", slurm.all_idle, 60)
    finally:
        slurm.sh(f"scancel {job}; rm -f {GATE}").ok()
        count(declared)
        patch({"$patch": "delete"})
        slurm.wait("all take jobs", slurm.all_idle, 120)
    assert slurm.sh("srun -n1 -w cpu-1 hostname").ok() == "cpu-1"


def test_a_label_of_a_kubernetes_node_is_a_feature_that_jobs_ask_for_and_follows_the_label(slurm):
    label = "example.com/rack"
    machine = slurm.get("pod", "cpu-1")["spec"]["nodeName"]

    def declare(labels: list[str] | None, features: list[str] | None) -> None:
        change = json.dumps({"spec": {"featureLabels": labels, "features": features}})
        slurm.kubectl("patch", "nodeset", "cpu", "--type=merge", "-p", change).ok()

    def features() -> set[str]:
        return set(slurm.sh("sinfo -h -n cpu-1 -o %b").ok().split(","))

    def ask(rack: str) -> str:
        return slurm.sh(f"srun -Q -n1 -w cpu-1 --constraint=rack={rack} hostname").stdout.strip()

    spec = slurm.get("nodeset", "cpu")["spec"]
    before = features()
    try:
        slurm.kubectl("label", "node", machine, f"{label}=r7").ok()
        declare([label], None)
        slurm.wait("the feature", lambda: features() == {"cpu", "rack=r7"})
        assert ask("r7") == "cpu-1"
        slurm.kubectl("label", "--overwrite", "node", machine, f"{label}=r8").ok()
        slurm.wait("the label's new value", lambda: features() == {"cpu", "rack=r8"})
        assert (ask("r7"), ask("r8")) == ("", "cpu-1")
        slurm.kubectl("label", "node", machine, f"{label}-").ok()
        slurm.wait("no label, no feature", lambda: features() == {"cpu"})
    finally:
        slurm.kubectl("label", "node", machine, f"{label}-")
        declare(spec.get("featureLabels"), spec.get("features"))
    assert before == {"cpu"}
