"""Checks that a node without jobs has its huge pages back."""

import re
from dataclasses import dataclass

from contract import reasons
from node_health.check import WITHOUT_JOBS, Check, DoesNotApplyError, Machine
from node_health.sources import jobs
from node_health.verdict import Finding, passes, warns


@dataclass(frozen=True, slots=True)
class HugePages:
    """Huge pages of the machine, how many of them are free, and whether a job runs here."""

    total: int
    free: int
    used_by_jobs: bool


def look(machine: Machine) -> HugePages:
    """Reads /proc/meminfo (Linux, Documentation/admin-guide/mm/hugetlbpage.rst)."""
    counts = dict(re.findall(r"^HugePages_(\w+):\s+(\d+)", machine.text("/proc/meminfo"), re.MULTILINE))
    if not int(counts.get("Total", 0)):
        raise DoesNotApplyError("the machine has no huge pages")
    return HugePages(int(counts["Total"]), int(counts["Free"]), bool(machine.once(jobs.look).running))


def judge(pages: HugePages, machine: Machine) -> Finding:
    """WARNING when some are in use without a job."""
    evidence = f"{pages.free} of {pages.total} huge pages are free"
    if pages.used_by_jobs or pages.free >= pages.total:
        return passes(evidence)
    return warns(f"{evidence} without a job")


CHECK = Check(
    reasons.Check.HUGEPAGES,
    look,
    judge,
    fails="",
    warns="huge pages are in use on a node without jobs",
    remedy="delete files in hugetlbfs and kill the processes that hold them",
    contexts=WITHOUT_JOBS,
)
