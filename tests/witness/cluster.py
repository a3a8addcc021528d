"""The cluster that a walk of the witness needs: the small one (small.py) and the dev cluster are such."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

from tests.witness.runs import Who


class Said(Protocol):
    """A command that has ended."""

    @property
    def stdout(self) -> str:
        """Return what it printed."""

    @property
    def stderr(self) -> str:
        """Return what it said of errors."""


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
        """Return who there is besides the user → words before a command that he starts in the jail."""

    def key(self) -> bytes:
        """Return what slurm.key holds."""

    def spaces(self, pod: str) -> tuple[str, str, str]:
        """Names of a pod's namespaces of processes, IPC and users."""

    def in_pod(self, pod: str, script: str) -> str:
        """Return what a shell script in a pod's own root prints."""

    def at_login(self, script: str, seconds: int = 60) -> Said:
        """A shell script of the user's over SSH; it ends when the time is over."""
