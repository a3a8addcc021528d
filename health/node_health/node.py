"""The node's declaration, and the files that the pod's entry, the checks and the prolog share."""

import dataclasses
import json
from pathlib import Path

from contract import paths, policies

FOLDER = Path(paths.NODE_RUN)
"""The pod's own folder, outside of the jail's view."""
DECLARED = FOLDER / "declared.json"
RESULTS = FOLDER / "health.json"
UNFIT = FOLDER / "unfit"
"""File with the reason why the node must take no job. It exists only while a check fails. The prolog reads it."""
LOCK = FOLDER / "health.lock"
HANGING = FOLDER / "hanging"
JAIL_BROKEN = Path(paths.JAIL_BROKEN)
"""File with the reason why no job can run in the jail, from the entry's jail probes (native/programs/jail_probe.c)."""
JAIL_WORKED = Path(paths.JAIL_WORKED)
"""File that is touched after each successful probe."""


@dataclasses.dataclass(frozen=True, slots=True)
class Declared:
    """The node as the stack's configuration declares it.

    Attributes:
        cpus: CPUs that Slurm schedules.
        shares_cpus: whether Kubernetes was asked to keep fewer CPUs than Slurm schedules.
        memory_mib: memory that Slurm gives to jobs, in MiB.
        gpus: number of GPUs.
        least_free_percent: space that must stay free on a file system, in percent of its size.
    """

    cpus: int = 0
    shares_cpus: bool = False
    memory_mib: int = 0
    gpus: int = 0
    least_free_percent: int = policies.LEAST_FREE_PERCENT


def write(declared: Declared, file: Path = DECLARED) -> None:
    """Writes the node's declaration."""
    put(file, json.dumps(dataclasses.asdict(declared)))


def read(file: Path = DECLARED) -> Declared:
    """Reads it.

    Raises:
        OSError: the pod's entry has not written it yet.
    """
    return Declared(**json.loads(file.read_text()))


def put(file: Path, text: str) -> None:
    """Writes a file that readers see as a whole or not at all."""
    file.parent.mkdir(parents=True, exist_ok=True)
    aside = file.with_suffix(".new")
    aside.write_text(text)
    aside.replace(file)
