"""Looks in the kernel's log for errors of drives, NVMe ones included, and for NVMe commands that took too long."""

import re

from contract import reasons
from node_health.check import Check, Machine
from node_health.sources import kmsg
from node_health.sources.kmsg import Log
from node_health.verdict import Finding, passes, warns

_FAILED = r"(?:I/O|medium|timeout|protection|device offline) error, dev ((?:nvme|sd|vd|xvd|dm-|md)\w+), sector"
"""Linux, block/blk-core.c, blk_errors, without those of requests that a drive refuses ("critical target")."""
_TIMED_OUT = r"nvme (nvme\d+): I/O .*QID \d+ timeout(?!, completion polled)"
"""drivers/nvme/host/pci.c, nvme_timeout."""
_RESET = r"nvme (nvme\d+): controller is down; will reset"


def judge(log: Log, machine: Machine) -> Finding:
    """WARNING after an error since boot. A controller that the kernel gave up is the check `nvme`'s."""
    told = {
        "errors of": _named(log, _FAILED),
        "commands timed out on": _named(log, _TIMED_OUT),
        "the kernel reset": _named(log, _RESET),
    }
    if bad := [f"{what} {', '.join(names)}" for what, names in told.items() if names]:
        return warns(f"since boot: {'; '.join(bad)}")
    return passes("no error of a drive since boot")


def _named(log: Log, pattern: str) -> list[str]:
    return sorted({match[1] for message in log.read if (match := re.search(pattern, message.text))})


CHECK = Check(
    reasons.Check.DRIVE_ERRORS,
    kmsg.look,
    judge,
    fails="",
    warns="the kernel logged errors of a drive, or NVMe commands that timed out",
    remedy="look at the drive (`smartctl`, `nvme smart-log`), and replace it if that happens again",
)
