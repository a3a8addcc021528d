"""A smaller set whose policy has a deadline: jobs are requeued and run elsewhere, and it is told which were ended."""

from __future__ import annotations

import json

SECONDS = 180
UPDATE = "scontrol update nodename=cpu-0"


def patch(slurm, spec: dict[str, object]) -> None:
    slurm.kubectl("patch", "nodeset", "cpu", "--type=merge", "-p", json.dumps({"spec": spec})).ok()


def state(slurm, job: str) -> str:
    return slurm.sh(f"squeue -h -t all -j {job} -o '%T %N'").stdout.strip()


def submit(slurm, *options: str) -> str:
    return slurm.sh(f"sbatch --parsable -n1 {' '.join(options)} -o /dev/null --wrap 'sleep 600'").ok()


def messages(slurm) -> str:
    return "; ".join(each["message"] for each in slurm.get("nodeset", "cpu")["status"]["conditions"])


def by_hand(slurm, state: str) -> None:
    slurm.on_pod("slurm-controller-0", f"{UPDATE} {state}").ok()


def test_at_its_deadline_a_job_runs_on_another_node_and_one_that_may_not_ends_with_words(slurm):
    before = slurm.get("nodeset", "cpu")["spec"]
    again = ended = ""
    try:
        # The job asks for no node, so that it may run on the other one later.
        by_hand(slurm, "state=drain reason=by-hand")
        again = submit(slurm, "--requeue")
        slurm.wait("it runs on cpu-1", lambda: state(slurm, again) == "RUNNING cpu-1", SECONDS)
        by_hand(slurm, "state=undrain")
        ended = submit(slurm, "--no-requeue")
        slurm.wait("the other one runs on cpu-0", lambda: state(slurm, ended) == "RUNNING cpu-0", SECONDS)

        patch(slurm, {"replicas": 0, "removal": {"jobs": "deadline", "deadlineSeconds": 12}})
        told = "have ended, but "
        shown = slurm.wait("the deadline is told", lambda: told in (said := messages(slurm)) and said, SECONDS)
        assert "they are requeued, or ended if they may not be" in shown
        slurm.wait("its job waits again", lambda: state(slurm, again) == "PENDING", SECONDS)
        slurm.wait("the other one has ended", lambda: state(slurm, ended) == "NODE_FAIL cpu-0", SECONDS)
        for words in (f"passed: requeued {again}", f"passed: ended {ended}, which may not be requeued"):
            slurm.wait(words, lambda words=words: any(words in note for note in slurm.told()), SECONDS)
        slurm.wait("both are gone", lambda: slurm.get("nodeset", "cpu")["status"]["replicas"] == 0, SECONDS)

        patch(slurm, {"replicas": 1})
        slurm.wait("cpu-0 is back", slurm.all_idle, SECONDS)
        # Slurm itself lets a job that lost its node wait for two minutes.
        slurm.on_pod("slurm-controller-0", f"scontrol update jobid={again} starttime=now").ok()
        slurm.wait("its job runs on the other node", lambda: state(slurm, again) == "RUNNING cpu-0", SECONDS)
    finally:
        patch(slurm, {"replicas": before["replicas"], "removal": {**before["removal"], "deadlineSeconds": None}})
        slurm.sh(f"scancel {again} {ended}")
        slurm.on_pod("slurm-controller-0", f"{UPDATE} state=undrain")
    slurm.wait("both nodes are back", slurm.all_idle, SECONDS)
