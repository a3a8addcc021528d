"""Checks that this node's slurmd is of slurmctld's release, or older: slurmctld takes no newer one."""

import re
from dataclasses import dataclass

from contract import paths, reasons
from node_health.check import CannotJudgeError, Check, Context, Machine
from node_health.checks.network.controller import ANSWERS_WITHIN, SCONTROL
from node_health.sources import tool
from node_health.verdict import Finding, passes, warns

_SLURMD = r"^slurm(?:-wlm)? (\d+)\.(\d+)\.(\S+)$"
"""Debian's has its package's name."""
_SLURMCTLD = r"^SLURM_VERSION\s*= (\d+)\.(\d+)\.(\S+)$"


@dataclass(frozen=True, slots=True, order=True)
class Version:
    """A version of Slurm: year and month are its release."""

    year: int
    month: int
    maintenance: str

    def __str__(self) -> str:
        return f"{self.year}.{self.month:02}.{self.maintenance}"

    @property
    def release(self) -> tuple[int, int]:
        """The part that decides whom a daemon understands."""
        return self.year, self.month


@dataclass(frozen=True, slots=True)
class Versions:
    """Versions of this node's slurmd and of slurmctld."""

    slurmd: Version
    slurmctld: Version


def look(machine: Machine) -> Versions:
    """Asks slurmd's program and slurmctld."""
    return Versions(
        _version(machine, [paths.SLURMD, "-V"], _SLURMD),
        _version(machine, [SCONTROL, "show", "config"], _SLURMCTLD),
    )


def judge(versions: Versions, machine: Machine) -> Finding:
    """WARNING when the releases differ; maintenance releases of one may."""
    both = f"slurmd has {versions.slurmd}, slurmctld {versions.slurmctld}"
    if versions.slurmd.release > versions.slurmctld.release:
        return warns(f"{both}: slurmctld takes no newer slurmd")
    if versions.slurmd.release < versions.slurmctld.release:
        return warns(f"{both}: this node waits for its update")
    return passes(both)


def _version(machine: Machine, command: list[str], pattern: str) -> Version:
    answered = tool.run(machine, command)
    said = re.search(pattern, answered.printed, re.MULTILINE)
    if said is None:
        first = answered.printed.splitlines()[0] if answered.printed else answered.code
        raise CannotJudgeError(f"{' '.join(command)} said: {first}")
    return Version(int(said[1]), int(said[2]), said[3])


CHECK = Check(
    reasons.Check.VERSIONS,
    look,
    judge,
    fails="",
    warns="slurmd's release of Slurm is not slurmctld's",
    remedy="update slurmctld before the nodes, then the nodes (docs/versions.md)",
    # Versions change with pods, and each question costs slurmctld its whole configuration.
    contexts=frozenset({Context.START}),
    seconds=ANSWERS_WITHIN,
)
