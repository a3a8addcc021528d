"""The small cluster as a walk of the witness needs it. Without accounting it has no administrator of Slurm."""

from __future__ import annotations

import functools
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.image.pods import CONTROLLER, LOGIN, WORKER
from tests.image.small_cluster import SmallCluster
from tests.witness.runs import SUDO, Who

BOB = 1001


@dataclass(frozen=True)
class OnSmallCluster:
    """A walk's cluster (cluster.py) with one worker."""

    small: SmallCluster
    workers: Sequence[str] = (WORKER,)
    login: str = LOGIN
    controller: str = CONTROLLER

    @property
    def home(self) -> Path:
        """The jail's /home, as this machine sees it."""
        return self.small.root.parents[1] / "persistent/home"

    @property
    def root(self) -> Path:
        """The jail's root, as this machine sees it."""
        return self.small.root

    @property
    def become(self) -> Mapping[Who, str]:
        """Return, for each person besides the user, the words before a command that he starts."""
        return {Who.ROOT: SUDO, Who.OTHER: f"{SUDO} -u bob"}

    def add_people(self) -> None:
        """Makes another user, whom workers and login nodes then know, and lets alice become anybody."""
        lines = {"passwd": f"bob:x:{BOB}:{BOB}::/home:/bin/sh", "group": f"bob:x:{BOB}:", "shadow": "bob:*:20000::::::"}
        add = "; ".join(f"echo '{line}' >> /etc/{name}" for name, line in lines.items())
        assert self.small.jail(f"{add}; echo 'alice ALL=(ALL) NOPASSWD: ALL' > /etc/sudoers.d/alice").returncode == 0
        for pod in (*self.workers, self.login):
            self.small.wait(f"{pod} knows him", functools.partial(self._knows_bob, pod), 30)

    def _knows_bob(self, pod: str) -> bool:
        return bool(self.in_pod(pod, f"getent passwd {BOB}"))

    def key(self) -> bytes:
        """Return what slurm.key holds."""
        return self.small.key

    def spaces(self, pod: str) -> tuple[str, str, str]:
        """Names of a pod's namespaces of processes, IPC and users."""
        folder = Path(f"/proc/{self.small.first_process(pod)}/ns")
        pid, ipc, user = (str((folder / kind).readlink()) for kind in ("pid", "ipc", "user"))
        return pid, ipc, user

    def in_pod(self, pod: str, script: str) -> str:
        """Return what a shell script in a pod's own root prints."""
        return self.small.pod(script, name=pod).stdout

    def at_login(self, script: str, seconds: int = 60) -> subprocess.CompletedProcess[str]:
        """A shell script of alice's over SSH."""
        return self.small.ssh(script, seconds=seconds)
