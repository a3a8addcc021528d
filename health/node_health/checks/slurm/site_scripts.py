"""Checks the results of the site's health scripts, which ran right before (health/bin/node-health-program)."""

from contract import paths, reasons
from contract.site_scripts import Kind
from node_health.check import CannotJudgeError, Check, DoesNotApplyError, Machine
from node_health.verdict import Finding, fails, passes

LIST = f"{paths.ETC_SCRIPTS}/{Kind.HEALTH_CHECK}"


def look(machine: Machine) -> str:
    """Returns the failure of a script; empty if all passed."""
    if not machine.path(LIST).exists():
        raise DoesNotApplyError("the configuration has no script for slurm.scripts.healthCheck")
    if not machine.path(paths.SITE_HEALTH).exists():
        raise CannotJudgeError("the site's scripts have not run yet")
    return machine.text(paths.SITE_HEALTH)


def judge(failure: str, machine: Machine) -> Finding:
    """FAIL with the script's name and its last words."""
    return fails(failure) if failure else passes("all of slurm.scripts.healthCheck passed")


CHECK = Check(
    reasons.Check.SITE_SCRIPTS,
    look,
    judge,
    fails="a script of `slurm.scripts.healthCheck` ends with another status than 0, or takes too long",
    warns="",
    remedy="do what the script's author says",
)
