"""What a walk of the witness needs of a cluster: the small one (small.py) and the dev cluster have it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

from tests.witness.runs import Who


class Said(Protocol):
    """A command that has ended."""

    @property
    def stdout(self) -> str:
        """What it printed."""

    @property
    def stderr(self) -> str:
        """What it said of errors."""


class Cluster(Protocol):
    """Slurm with workers, login nodes and slurmctld, all of them on this machine."""

    @property
    def home(self) -> Path:
        """The jail's /home, as this machine sees it."""

    @property
    def root(self) -> Path:
        """The jail's root, as this machine sees it."""

    @property
    def workers(self) -> Sequence[str]:
        """Pods of workers."""

    @property
    def login(self) -> str:
        """The pod of a login node."""

    @property
    def controller(self) -> str:
        """slurmctld's pod."""

    @property
    def become(self) -> Mapping[Who, str]:
        """Who there is besides the user → words before a command that he starts in the jail."""

    def key(self) -> bytes:
        """What slurm.key holds."""

    def spaces(self, pod: str) -> tuple[str, str, str]:
        """Names of a pod's namespaces of processes, IPC and users."""

    def in_pod(self, pod: str, script: str) -> str:
        """What a shell script in a pod's own root prints."""

    def at_login(self, script: str, seconds: int = 60) -> Said:
        """A shell script of the user's over SSH; it ends when the time is over."""
