"""Checks that a node without jobs has its huge pages back."""

import re
from dataclasses import dataclass

from contract import reasons
from node_health.check import WITHOUT_JOBS, Check, DoesNotApplyError, Machine
from node_health.sources import jobs
from node_health.verdict import Finding, passes, warns

CGROUPS = "/sys/fs/cgroup"
USAGE = ("hugetlb.*B.current", "hugetlb/hugetlb.*B.usage_in_bytes")
"""Files of the pod's cgroup, version 2, then 1, one for each size of pages (Linux, cgroup-v2.rst, "HugeTLB")."""
MIB = 1024**2


@dataclass(frozen=True, slots=True)
class HugePages:
    """Huge pages.

    Attributes:
        total: those of the machine.
        free: how many of them are free.
        used_by_jobs: whether a job runs here.
        own: bytes of them that the pod uses; None: its cgroup does not count them.
    """

    total: int
    free: int
    used_by_jobs: bool
    own: int | None


def look(machine: Machine) -> HugePages:
    """Reads /proc/meminfo (Linux, Documentation/admin-guide/mm/hugetlbpage.rst), and what the pod uses of them."""
    counts = dict(re.findall(r"^HugePages_(\w+):\s+(\d+)", machine.text("/proc/meminfo"), re.MULTILINE))
    if not int(counts.get("Total", 0)):
        raise DoesNotApplyError("the machine has no huge pages")
    usage = [int(file.read_text()) for files in USAGE for file in machine.path(CGROUPS).glob(files)]
    running = bool(machine.once(jobs.look).running)
    return HugePages(int(counts["Total"]), int(counts["Free"]), running, sum(usage) if usage else None)


def judge(pages: HugePages, machine: Machine) -> Finding:
    """WARNING when some are in use without a job.

    Storage clients and packet processing keep some for themselves, outside of the pod: those are well.
    """
    if pages.own is not None:
        held = f"the pod uses {pages.own // MIB} MiB of huge pages"
        return warns(f"{held} without a job") if pages.own and not pages.used_by_jobs else passes(held)
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
