"""A job that hangs is told, an Event says so, and by policy it runs on another node. Nothing is drained for it."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

AFTER_SECONDS = 5
SAID = "$HOME/said-by-the-hanging-job"
JOB = (
    "if [ ${SLURM_RESTART_COUNT:-0} = 0 ]; then echo began on $(hostname); exec sleep 1000; fi;"
    " echo went on on $(hostname)"
)
CRD = "slurmclusters.pulumi-slurm.dev"
MINIMUM = (
    "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/hangs/items/properties/afterSeconds/minimum"
)
DECLARE = (
    'python3 -c "import json, pathlib; file = pathlib.Path(\\"/run/slurm-node/declared.json\\");'
    ' file.write_text(json.dumps({{**json.loads(file.read_text()), \\"hangs_after\\": {}}}))"'
)
"""Declares to a node's pod what `partitions[].hangs` says."""


def shortest(slurm, seconds: int) -> None:
    """Have the API server take shorter times than ours: nobody waits for ten minutes here."""
    patch = json.dumps([{"op": "replace", "path": MINIMUM, "value": seconds}])
    slurm.kubectl("patch", "crd", CRD, "--type=json", "-p", patch).ok()


def declare(slurm, hangs: list[dict[str, object]] | None) -> bool:
    patch = json.dumps({"spec": {"hangs": hangs}})
    return slurm.kubectl("patch", "slurmcluster", "dev", "--type=merge", "-p", patch).status == 0


@pytest.fixture
def policy(slurm) -> Iterator[None]:
    before = slurm.get("slurmcluster", "dev")["spec"].get("hangs")
    least = json.loads(slurm.kubectl("get", "crd", CRD, "-o", "json").ok())
    for key in MINIMUM.strip("/").split("/"):
        least = least[int(key) if key.isdigit() else key]
    wanted = [{"partition": "main", "afterSeconds": AFTER_SECONDS, "requeues": True}]
    shortest(slurm, AFTER_SECONDS)
    try:
        slurm.wait("the API server takes it", lambda: declare(slurm, wanted))
        for node in ("cpu-0", "cpu-1"):
            slurm.on_pod(node, DECLARE.format(AFTER_SECONDS)).ok()
        yield
    finally:
        for node in ("cpu-0", "cpu-1"):
            slurm.on_pod(node, DECLARE.format(0))
        declare(slurm, before)
        shortest(slurm, least)


def test_a_job_that_hangs_is_told_and_by_policy_goes_on_on_another_node(slurm, policy):
    def shown(form: str) -> str:
        return slurm.sh(f"squeue -h -j {job} -o '{form}'").ok()

    def told(reason: str) -> list[str]:
        return [note for note in slurm.told(reason) if f"job {job}" in note]

    options = f"--parsable --requeue --open-mode=append -N1 -n1 -o {SAID}"
    job = slurm.sh(f"rm -f {SAID}; sbatch {options} --wrap '{JOB}'").ok()
    try:
        slurm.wait("it runs", lambda: shown("%T") == "RUNNING")
        node = shown("%N")
        (other,) = {"cpu-0", "cpu-1"} - {node}
        slurm.wait("it is queued again", lambda: told("ReleaseHanging"), 240)
        # Less than the two minutes for which Slurm itself lets a requeued job wait.
        slurm.wait("it ends", lambda: not shown("%T"), 90)
        began, *notice, went_on = slurm.sh(f"cat {SAID}").ok().splitlines()
    finally:
        slurm.sh(f"scancel {job}; rm -f {SAID}")
    assert (began, went_on) == (f"began on {node}", f"went on on {other}")
    assert any("this job seems to hang: no CPU time used" in line for line in notice), notice
    assert any(f" on {node}" in each for each in told("JobHangs")), told("JobHangs")
    assert told("RequeueHanging") == [f"queued job {job} again, which hung on {node}"]
    assert told("ReleaseHanging") == [f"job {job} may run, but not on {node}"]
    slurm.wait("it is forgotten", lambda: "jobs" not in slurm.get("slurmcluster", "dev")["status"]["hangs"])
    suspects = slurm.get("slurmcluster", "dev")["status"]["hangs"]["suspects"]
    assert [(row["node"], row["jobs"]) for row in suspects] == [(node, 1)]
    slurm.wait("no node is drained", slurm.all_idle)
