"""Checks the memory controllers' error counters (EDAC)."""

from contract import reasons
from node_health import thresholds
from node_health.check import Check, DoesNotApplyError, Machine
from node_health.sources.counters import Increase, increase
from node_health.verdict import Action, Finding, fails, passes, warns

FOLDER = "/sys/devices/system/edac/mc"
UNCORRECTED, CORRECTED = "ue_count", "ce_count"
"""Files of each memory controller (Linux, Documentation/admin-guide/ras.rst)."""


def look(machine: Machine) -> tuple[list[str], Increase]:
    """Returns the controllers that had uncorrected errors since boot, and the increase of corrected ones."""
    folder = machine.path(FOLDER)
    if not folder.is_dir() or not (controllers := sorted(folder.glob("mc[0-9]*"))):
        raise DoesNotApplyError("no EDAC driver counts this machine's memory errors")
    bad = [controller.name for controller in controllers if int((controller / UNCORRECTED).read_text())]
    corrected = {controller.name: int((controller / CORRECTED).read_text()) for controller in controllers}
    return bad, increase(machine, "edac", corrected)


def judge(counted: tuple[list[str], Increase], machine: Machine) -> Finding:
    """FAIL after an uncorrected error, WARNING at a high rate of corrected ones."""
    bad, corrected = counted
    if bad:
        return fails(f"uncorrected memory errors since boot: {', '.join(bad)}", Action.RESTART_BM)
    most = thresholds.of().number("memory.corrected")
    if often := [name for name in corrected.by if corrected.per_hour(name) > most]:
        return warns(f"more than {most:g} corrected memory errors an hour: {', '.join(often)}")
    return passes(f"{len(corrected.by)} memory controllers had no uncorrected error since boot")


CHECK = Check(
    reasons.Check.MEMORY_ERRORS,
    look,
    judge,
    fails="a memory controller had uncorrected errors since boot",
    warns="many corrected errors",
    remedy="restart the machine, and replace the memory module that its log names",
)
