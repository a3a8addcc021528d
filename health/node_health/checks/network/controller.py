"""Checks that slurmctld answers this node."""

import re

from contract import paths, reasons
from node_health.check import Check, Context, Machine
from node_health.sources import tool
from node_health.sources.tool import Answered
from node_health.verdict import Finding, passes, unknown, warns

SCONTROL = f"{paths.PREFIX}/bin/scontrol"
_STATE = r"Slurmctld\(\w+\)(?: at \S+)? is (UP|DOWN)"
ANSWERS_WITHIN = 3.0
"""Seconds. At the start slurmd waits for the checks before it registers, and scontrol itself waits for longer."""


def look(machine: Machine) -> Answered:
    """Asks by `scontrol ping`."""
    return tool.run(machine, [SCONTROL, "ping"])


def judge(answered: Answered, machine: Machine) -> Finding:
    """WARNING when it does not answer: then nobody could drain the node either."""
    states = re.findall(_STATE, answered.printed)
    if "UP" in states:
        return passes("slurmctld answers")
    if states:
        return warns("slurmctld does not answer this node")
    return unknown(f"scontrol ping said: {answered.printed.splitlines()[0] if answered.printed else answered.code}")


CHECK = Check(
    reasons.Check.CONTROLLER,
    look,
    judge,
    fails="",
    warns="slurmctld does not answer the node's ping",
    remedy="look at the controller's pod and the network between both",
    # A ping of each node every few seconds would be load for slurmctld, which notices silent nodes by itself.
    contexts=frozenset({Context.START}),
    seconds=ANSWERS_WITHIN,
)
