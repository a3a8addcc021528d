"""Programs of the installed Slurm, their options by their own parsers and texts, and what no table classifies."""

from __future__ import annotations

import string
from dataclasses import dataclass

from tests.witness import variables
from tests.witness.cluster import Cluster
from tests.witness.options import COMMANDS, OPTIONS, commands, differences, listed, program_differences

SHARING = ("srun", "sbatch", "salloc")
"""The programs that share srun's table."""
UNKNOWN_LETTERS = sorted({*string.ascii_letters, *string.digits} - {*variables.SHORT})


@dataclass(frozen=True)
class Installed:
    """The programs of a cluster's jail, asked on its login node."""

    cluster: Cluster

    def options(self) -> dict[str, frozenset[str]]:
        """Program → its installed options, of those that share srun's table."""
        return {program: frozenset(listed(self._said(f"{program} --=x"))) for program in SHARING}

    def variables(self) -> dict[str, frozenset[str]]:
        """Program → the input variables in its text."""
        pattern = "(SLURMD?|SRUN|SBATCH|SALLOC)_[A-Z0-9_]+"
        return {
            program: frozenset(variables.found(self._said(f"grep -aoE '\\b{pattern}\\b' /opt/slurm/bin/{program}")))
            for program in SHARING
        }

    def unclassified(self) -> list[str]:
        """Programs, options, letters, variables and commands that the tables lack, and the other way round."""
        found = program_differences({*self._said("ls /opt/slurm/bin").split()})
        for programs, table in OPTIONS.items():
            said = "".join(
                self._said(f"{program} {'--help' if program == 'scrontab' else '--=x'}") for program in sorted(programs)
            )
            found += differences(table, listed(said), " or ".join(sorted(programs)))
        for program, table in COMMANDS.items():
            found += differences(table, commands(self._said(f"{program} --help")), program)
        read = self.variables()
        for program, options in self.options().items():
            each = " ".join(UNKNOWN_LETTERS)
            ask = f'for l in {each}; do echo "$l: $(timeout 5 {program} -$l < /dev/null 2>&1 | head -n 1)"; done'
            found += variables.differences(program, options, read[program], variables.shorts(self._said(ask)))
        return found

    def _said(self, command: str) -> str:
        done = self.cluster.at_login(command, 60)
        return done.stdout + done.stderr
