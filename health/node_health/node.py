"""The node's declaration, and the files that the pod's entry, the checks and the prolog share."""

import dataclasses
import json
import os
from pathlib import Path
from typing import Any

from contract import paths, policies

FOLDER = Path(paths.NODE_RUN)
"""The pod's own folder, outside of the jail's view."""
DECLARED = FOLDER / "declared.json"
RESULTS = FOLDER / "health.json"
HISTORY = FOLDER / "health-history.json"
"""File with the changes of verdicts. It outlives a container of the pod."""
UNFIT = FOLDER / "unfit"
"""File with the reason why the node must take no job. It exists only while a check fails. The prolog reads it."""
FAULTY = FOLDER / "faulty"
"""File with the reason while a check of the hardware fails. The epilog reads it."""
LOCK = FOLDER / "health.lock"
DISABLED = Path(paths.DISABLED_CHECKS)
HANGING = FOLDER / "hanging"
COUNTERS = FOLDER / "counters"
"""Folder with counters of earlier runs, for rates."""
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
        gpus: number of GPUs, each whole one once.
        mig: whether Slurm gives out MIG devices of some of them.
        nvidia: whether they are NVIDIA's.
        rdma: number of RDMA resources of the pod; one may open several adapters.
        rdma_adapters: adapters that must have an active port; 0: as many as resources.
        least_free_percent: space that must stay free on a file system, in percent of its size.
        submounts: paths of the jail that are mounts of their own.
        shm_mib: size of the jail's /dev/shm.
        controller: slurmctld's host and port.
        disabled: checks that the administrator switched off. A file of its own has them, which changes under the pod.
        unknown_drains: whether a check that could not look drains the node; else it is noted.
        hangs_after: seconds after which a quiet job is told of; 0: never.
    """

    cpus: int = 0
    shares_cpus: bool = False
    memory_mib: int = 0
    gpus: int = 0
    mig: bool = False
    nvidia: bool = True
    rdma: int = 0
    rdma_adapters: int = 0
    least_free_percent: int = policies.LEAST_FREE_PERCENT
    submounts: tuple[str, ...] = ()
    shm_mib: int = 0
    controller: str = ""
    disabled: tuple[str, ...] = ()
    unknown_drains: bool = False
    hangs_after: int = 0

    def working_adapters(self, there: int) -> int:
        """Returns how many adapters must have an active port, of so many that the pod may open."""
        return self.rdma_adapters or min(self.rdma, there)


def write(declared: Declared, file: Path = DECLARED) -> None:
    """Writes the node's declaration."""
    put(file, json.dumps(dataclasses.asdict(declared)))


def read(file: Path = DECLARED, disabled: Path = DISABLED) -> Declared:
    """Reads it, with the checks that are switched off now.

    Raises:
        OSError: the pod's entry has not written it yet.
    """
    said: dict[str, Any] = json.loads(file.read_text())
    lists: dict[str, Any] = {key: tuple(value) for key, value in said.items() if isinstance(value, list)}
    return Declared(**{**said, **lists, "disabled": _lines(disabled)})


def _lines(file: Path) -> tuple[str, ...]:
    try:
        return tuple(line for line in file.read_text().splitlines() if line)
    except FileNotFoundError:
        return ()


def keep(file: Path, text: str) -> str:
    """Writes what later runs compare with; returns why that failed, empty if it did not.

    A full folder then hides nothing that this run can see without earlier ones.
    """
    try:
        put(file, text)
    except OSError as error:
        return error.strerror or type(error).__name__
    return ""


def put(file: Path, text: str) -> None:
    """Writes a file that readers see as a whole or not at all.

    Two processes may write it at the same time: a person may start node-health while Slurm runs it.
    """
    file.parent.mkdir(parents=True, exist_ok=True)
    aside = file.with_suffix(f".{os.getpid()}.new")
    try:
        aside.write_text(text)
        aside.replace(file)
    finally:
        aside.unlink(missing_ok=True)
