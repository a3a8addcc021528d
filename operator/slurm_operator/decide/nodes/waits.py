"""Text about the jobs that something waits for, with the ends of their time limits."""

from __future__ import annotations

from collections.abc import Iterable

from slurm_operator.decide.nodes import slurm_nodes
from slurm_operator.findings import shown
from slurm_operator.state.slurm import SlurmJob, Unknown


def of_jobs(jobs: Iterable[SlurmJob]) -> str:
    """Return those jobs, each with the end of its time limit; empty if there is none."""
    there = sorted(jobs, key=lambda job: job.job_id)
    return f"{'job' if len(there) == 1 else 'jobs'} {shown([_with_end(job) for job in there], 5)}" if there else ""


def for_jobs(nodes: Iterable[str], jobs: Iterable[SlurmJob] | Unknown) -> str:
    """Return the jobs that may run on those nodes as the end of a sentence; empty if none is known."""
    asked = frozenset(nodes)
    known: Iterable[SlurmJob] = () if isinstance(jobs, Unknown) else jobs
    words = of_jobs(job for job in known if slurm_nodes.busy_nodes([job]) & asked)
    return f": {words}" if words else ""


def _with_end(job: SlurmJob) -> str:
    if not slurm_nodes.may_have_processes(job.states):
        return f"{job.job_id} (waits)"
    return f"{job.job_id} (ends by {job.ends:%Y-%m-%d %H:%M} UTC)" if job.ends else f"{job.job_id} (no known end)"
