"""Checks the machine's NVMe controllers, by the state that the kernel's driver gives them."""

from collections.abc import Mapping
from contextlib import suppress

from contract import reasons
from node_health.check import Check, DoesNotApplyError, Machine
from node_health.verdict import Action, Finding, fails, passes, unknown, warns

FOLDER = "/sys/class/nvme"
LIVE = "live"
DEAD = "dead"
"""The controller takes no requests until a restart (Linux, drivers/nvme/host/sysfs.c)."""
ON_THE_WAY = frozenset({"new", "resetting", "connecting", "deleting", "deleting (no IO)"})
"""A cloud's volumes are such controllers: one is deleted when a pod of the machine gives its volume back."""


def look(machine: Machine) -> dict[str, str]:
    """Returns the controllers' states."""
    folder = machine.path(FOLDER)
    if not folder.is_dir() or not (controllers := sorted(folder.glob("nvme*"))):
        raise DoesNotApplyError("the machine has no NVMe controller")
    states: dict[str, str] = {}
    for controller in controllers:
        with suppress(FileNotFoundError):  # A cloud's volume has just gone with its pod.
            states[controller.name] = (controller / "state").read_text().strip()
    return states


def judge(states: Mapping[str, str], machine: Machine) -> Finding:
    """FAIL when one is dead, WARNING while one comes, recovers or goes."""
    if dead := [f"{name} is {state}" for name, state in states.items() if state == DEAD]:
        return fails(", ".join(dead), Action.RESTART_BM)
    if strange := [f"{name} is {state}" for name, state in states.items() if state not in ON_THE_WAY | {LIVE}]:
        return unknown(", ".join(strange))
    if on_the_way := [f"{name} is {state}" for name, state in states.items() if state != LIVE]:
        return warns(", ".join(on_the_way))
    return passes(f"{len(states)} controllers are live")


CHECK = Check(
    reasons.Check.NVME,
    look,
    judge,
    fails="the kernel gave up an NVMe controller",
    warns="an NVMe controller is being reset or removed",
    remedy="restart the machine; replace the drive if it does not come back",
)
