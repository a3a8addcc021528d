"""Checks that the jail's submounts are mounted and answer."""

import os
from collections.abc import Mapping

from contract import paths, reasons
from node_health.check import Check, DoesNotApplyError, Machine
from node_health.sources import mounts
from node_health.verdict import Finding, fails, passes


def look(machine: Machine) -> dict[str, str]:
    """Asks each declared submount; returns what is wrong with it, empty if nothing is."""
    if not machine.declared.submounts:
        raise DoesNotApplyError("none declared")
    mounted = machine.once(mounts.look)
    return {path: _ask(machine, path, mounted) for path in machine.declared.submounts}


def judge(wrong: Mapping[str, str], machine: Machine) -> Finding:
    """FAIL when one is not mounted, or returns an error. One that hangs is UNKNOWN by the time box."""
    if bad := [f"{path} {why}" for path, why in wrong.items() if why]:
        return fails("; ".join(bad))
    return passes(f"{', '.join(wrong)} answer")


def _ask(machine: Machine, path: str, mounted: Mapping[str, mounts.Mount]) -> str:
    point = f"{paths.JAIL_TREE}{path}"
    if point not in mounted:
        return "is not mounted"
    try:
        os.statvfs(machine.path(point))
        with os.scandir(machine.path(point)) as entries:
            next(entries, None)
    except OSError as error:
        return f"returns an error: {error.strerror}"
    return ""


CHECK = Check(
    reasons.Check.SUBMOUNTS,
    look,
    judge,
    fails="a declared submount is not mounted, or returns an error",
    warns="",
    remedy="mend the volume's storage, then restart the pod",
)
