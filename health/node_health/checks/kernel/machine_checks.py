"""Looks in the kernel's log for errors of the machine's hardware: machine checks, memory failures, PCIe."""

import re
from collections.abc import Mapping

from contract import reasons
from node_health.check import Check, Machine
from node_health.sources import kmsg
from node_health.sources.kmsg import Log
from node_health.verdict import Action, Finding, fails, passes, warns

UNCORRECTED: Mapping[str, str] = {
    "uncorrected memory error": r"^Memory failure: 0x[0-9a-f]+: ",
    "uncorrected PCIe error": r"^\S+ [0-9a-f:.]+: (?:AER: )?PCIe Bus Error: severity=Uncorrect\w+ \(Fatal\)",
    "fatal hardware error": r"^\{\d+\}\[Hardware Error\]: event severity: (?:fatal|recoverable)",
}
"""Fault → how the kernel says it (Linux, mm/memory-failure.c, drivers/pci/pcie/aer.c, drivers/acpi/apei/ghes.c).

At the start of a message: words of users may stand in the middle.
"""
CORRECTED: Mapping[str, str] = {
    "machine check": r"mce: \[Hardware Error\]: Machine check events logged",
    "corrected hardware error": r"\[Hardware Error\]: event severity: corrected",
    "corrected PCIe error": r"PCIe Bus Error: severity=Correct",
    "PCIe error": r"PCIe Bus Error: severity=Uncorrect\w+ \(Non-Fatal\)",
}


def judge(log: Log, machine: Machine) -> Finding:
    """FAIL after an uncorrected error since boot, WARNING after a corrected one."""
    if bad := _seen(log, UNCORRECTED):
        return fails(f"since boot: {', '.join(bad)}", Action.RESTART_BM)
    if corrected := _seen(log, CORRECTED):
        return warns(f"since boot: {', '.join(corrected)}")
    return passes("no hardware error since boot")


def _seen(log: Log, patterns: Mapping[str, str]) -> list[str]:
    return [name for name, pattern in patterns.items() if any(re.search(pattern, message.text) for message in log.read)]


CHECK = Check(
    reasons.Check.MACHINE_CHECKS,
    kmsg.look,
    judge,
    fails="the kernel logged an uncorrected error of memory, PCIe or the machine",
    warns="it logged corrected ones",
    remedy="restart the machine; replace the part that its log names if that happens again",
)
