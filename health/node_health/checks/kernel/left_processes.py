"""Checks that no process of an ended job is left: it would use CPU, memory and GPUs of the next one."""

from contract import reasons
from node_health.check import WITHOUT_JOBS, Check, Machine
from node_health.sources import jobs
from node_health.sources.jobs import Jobs
from node_health.verdict import Finding, passes, warns

OLD_SECONDS = 60.0
"""A process that is younger may belong to a job that starts or ends right now."""
SHOWN, LONGEST = 5, 40


def judge(seen: Jobs, machine: Machine) -> Finding:
    """WARNING when there are some."""
    left = [process for process in seen.left if process.age > OLD_SECONDS]
    if not left:
        return passes(f"{len(seen.running)} jobs run here, and no other process of a user")
    listed = [f"{process.title[:LONGEST]} ({process.number}) of user {process.user}" for process in left[:SHOWN]]
    return warns(f"{len(left)} processes belong to no job: {', '.join(listed)}")


CHECK = Check(
    reasons.Check.LEFT_PROCESSES,
    jobs.look,
    judge,
    fails="",
    warns="processes of users run outside of every job for more than a minute",
    remedy="kill them; a process that does not end needs a restart of the pod",
    contexts=WITHOUT_JOBS,
)
