"""Asks DCGM for the health that it watches, where the pod has dcgmi."""

import json
from typing import Any

from contract import reasons
from node_health.check import Applies, CannotJudgeError, Check, DoesNotApplyError, Machine
from node_health.sources import tool
from node_health.sources.tool import Answered
from node_health.verdict import Action, Finding, Verdict

PROGRAM = "/usr/bin/dcgmi"
VERDICTS = {"Healthy": Verdict.PASS, "Warning": Verdict.WARNING, "Failure": Verdict.FAIL}
"""DCGM's overall health (DCGM user guide, "Health and Diagnostics")."""


def look(machine: Machine) -> Answered:
    """Runs `dcgmi health --check --json`."""
    answered = tool.run(machine, [PROGRAM, "health", "--check", "--json"])
    if answered.code is None:
        raise DoesNotApplyError("the pod has no dcgmi")
    return answered


def judge(answered: Answered, machine: Machine) -> Finding:
    """DCGM's own verdict."""
    overall = _overall(answered.printed)
    if overall not in VERDICTS:
        raise CannotJudgeError(f"dcgmi ended with {answered.code} and said {answered.printed[:80]!r}")
    return Finding(VERDICTS[overall], f"DCGM: {overall}")


def _overall(printed: str) -> str:
    try:
        said: Any = json.loads(printed)
        return str(said["body"]["Overall Health"]["value"])
    except (ValueError, KeyError, TypeError):
        return ""


CHECK = Check(
    reasons.Check.DCGM,
    look,
    judge,
    fails="DCGM calls the node's GPUs or switches failed",
    warns="DCGM warns",
    remedy="`dcgmi health --check` names the part",
    action=Action.CONTACT_SUPPORT,
    applies=Applies.NVIDIA,
)
