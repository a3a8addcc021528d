"""A tree and a job in it, for tests of a job's namespaces and of a node's jail probe."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.native.trial_tree import run_in_tree

# A root that has the machine's own programs, so that a task can be a line of shell.
TREE = """
mkdir -p "$JAIL"
mount -t tmpfs -o size=64m jail "$JAIL"
for folder in run dev proc sys bin usr lib lib64 etc tmp var/spool/slurmd; do mkdir -p "$JAIL/$folder"; done
for folder in bin usr lib lib64 etc; do [ ! -d /$folder ] || mount --rbind /$folder "$JAIL/$folder"; done
mount -t tmpfs run "$JAIL/run"
mkdir -p "$JAIL/run/slurm/door/conf"
mount --bind "$JAIL/run/slurm" "$JAIL/run/slurm"
mount --bind "$JAIL/tmp" "$JAIL/tmp"
mount --bind "$JAIL/var/spool/slurmd" "$JAIL/var/spool/slurmd"
mkdir "$JAIL/run/slurm/conf"
echo trusted > "$JAIL/run/slurm/conf/plugstack.conf"
mkdir "$JAIL/var/spool/slurmd/job00008"
for folder in dev proc sys; do mount --rbind /$folder "$JAIL/$folder"; done
touch "$JAIL/run/.jail-ready"
"""


@dataclass(frozen=True)
class Said:
    """The output of a run, and the status of each step."""

    lines: list[str]
    statuses: list[int]


class Trial:
    """A tree and a job in a mount namespace of the test's own."""

    def __init__(self, folder: Path, make: Callable[..., Path], *variables: str, program: str = "job_probe") -> None:
        self.folder = folder
        self.jail = folder / "jail"
        self.probe = make(program, folder, *variables)

    def run(self, *steps: str, spoil: str = "", wrap: str = "", seconds: int = 60) -> Said:
        """Builds the tree, spoils it by a line of shell, runs steps as tasks of one job."""
        # Descriptor 7 holds a fake file server (mute) up; a process that hangs in it must not.
        script = f'set -e\n{TREE}\n{spoil}\n{wrap} "$PROBE" "$JAIL" "$@" 7>&-'
        printed = run_in_tree(script, self.jail, self.probe, steps, seconds).splitlines()
        statuses = [int(line.removeprefix("-> ")) for line in printed if line.startswith("-> ")]
        return Said([line for line in printed if not line.startswith("-> ")], statuses)
