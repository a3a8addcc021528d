"""Looks in the kernel's log for tasks that wait too long in the kernel, and CPUs that are stuck."""

import re

from contract import reasons
from node_health import thresholds
from node_health.check import Check, Machine
from node_health.sources import kmsg
from node_health.sources.kmsg import Log
from node_health.verdict import Finding, passes, warns

_HUNG = (
    r"INFO: task (\S+?):\d+ blocked for more than \d+ seconds"
    r"|watchdog: BUG: soft lockup|rcu: INFO: \w+ self-detected stall"
)
"""Linux, kernel/hung_task.c, kernel/watchdog.c, kernel/rcu/tree_stall.h."""


def judge(log: Log, machine: Machine) -> Finding:
    """WARNING when a task hung or a CPU was stuck within the last `kernel.hungSeconds`."""
    seconds = thresholds.of().number("kernel.hungSeconds")
    hung = [match for message in log.recent(seconds) if (match := re.search(_HUNG, message.text))]
    if not hung:
        return passes(f"no task hung in the last {seconds:g} s")
    names = sorted({match[1] or "a CPU" for match in hung})
    return warns(f"hung in the last {seconds:g} s: {', '.join(names)}")


CHECK = Check(
    reasons.Check.HUNG_TASKS,
    kmsg.look,
    judge,
    fails="",
    warns="a task hung in the kernel lately, or a CPU was stuck",
    remedy="look for storage or a driver that does not answer",
)
