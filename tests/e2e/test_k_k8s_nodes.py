"""A Kubernetes node that is to be emptied: its workers take no new jobs, keep what they have, and go when idle."""

from __future__ import annotations

import json

GATE = "$HOME/gate-of-the-machine-test"
EVICTABLE = "pulumi-slurm.dev/evictable"


def test_a_kubernetes_drain_waits_for_a_job_and_an_uncordon_gives_the_nodes_back(slurm):
    def uid() -> str:
        pod = slurm.kubectl("get", "pod", "cpu-1", "-o", "jsonpath={.metadata.uid}", "--ignore-not-found")
        return pod.ok()

    def evict() -> str:
        eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "cpu-1", "namespace": "slurm"}}
        path = "/api/v1/namespaces/slurm/pods/cpu-1/eviction"
        return slurm.kubectl("create", "--raw", path, "-f", "-", text=json.dumps(eviction)).text

    def reason() -> str:
        return slurm.sh("scontrol -o show node cpu-1 | sed -n 's/.* Reason=//p'").ok().partition(" [")[0]

    def state() -> str:
        return slurm.sh(f"scontrol -o show job {job} | sed -n 's/.* JobState=\\([A-Z]*\\).*/\\1/p'").ok()

    machine, before = slurm.get("pod", "cpu-1")["spec"]["nodeName"], uid()
    script = f"while [ ! -e {GATE} ]; do sleep 0.2; done"
    job = slurm.sh(f"rm -f {GATE}; sbatch --parsable -w cpu-1 -o /dev/null --wrap '{script}'").ok()
    try:
        slurm.wait("the job runs", lambda: state() == "RUNNING", 120)
        slurm.kubectl("cordon", machine).ok()
        slurm.wait("a drain", lambda: reason() == f"pulumi-slurm:node {machine} is cordoned", 120)
        assert "disruption budget" in evict()
        assert (state(), uid()) == ("RUNNING", before)
        slurm.sh(f"touch {GATE}").ok()
        slurm.wait("the job is done", lambda: state() == "COMPLETED", 120)
        slurm.wait("the eviction passes", lambda: "disruption budget" not in evict(), 120)
        slurm.wait("the pod went", lambda: uid() != before, 180)
    finally:
        slurm.kubectl("uncordon", machine).ok()
        slurm.sh(f"scancel {job}; rm -f {GATE}").ok()
        slurm.wait("all take jobs again", slurm.all_idle, 240)
    assert slurm.sh("srun -n1 -w cpu-1 hostname").ok() == "cpu-1"
    slurm.wait("all are protected again", lambda: not slurm.get("pods", "-l", EVICTABLE)["items"], 120)
