"""The dev cluster as a walk of the witness needs it: a real kubelet, real sudo, and an administrator of Slurm."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.e2e.conftest import Done, Slurm
from tests.witness.runs import SUDO, Who


@dataclass(frozen=True)
class OnDevCluster:
    """A walk's cluster (tests/witness/cluster.py), whose volumes are folders of this machine.

    Args:
        slurm: the cluster.
        other: a user besides the one who walks.
        administrator: of Slurm.
    """

    slurm: Slurm
    other: str
    administrator: str
    workers: Sequence[str] = ("cpu-0", "cpu-1")
    login: str = "slurm-login-0"
    controller: str = "slurm-controller-0"

    @property
    def _volume(self) -> Path:
        claim = self.slurm.get("pvc", "slurm-jail")["spec"]["volumeName"]
        return Path(self.slurm.get("pv", claim)["spec"]["local"]["path"])

    @property
    def home(self) -> Path:
        """The jail's /home, as this machine sees it."""
        return self._volume / "persistent/home"

    @property
    def root(self) -> Path:
        """The jail's root, as this machine sees it."""
        inode = self.slurm.on_pod(self.login, "stat -c %i /run/jail").ok()
        return next(root for root in (self._volume / "roots").iterdir() if str(root.stat().st_ino) == inode)

    @property
    def become(self) -> Mapping[Who, str]:
        """Return, for each person besides the user, the words before a command that he starts."""
        return {
            Who.ROOT: SUDO,
            Who.OTHER: f"{SUDO} -u {self.other}",
            Who.ADMINISTRATOR: f"{SUDO} -u {self.administrator}",
        }

    def key(self) -> bytes:
        """Return what slurm.key holds."""
        return base64.b64decode(self.slurm.on_pod(self.controller, "base64 /run/secrets/slurm/slurm.key").ok())

    def spaces(self, pod: str) -> tuple[str, str, str]:
        """Names of a pod's namespaces of processes, IPC and users."""
        names = [f"/proc/self/ns/{kind}" for kind in ("pid", "ipc", "user")]
        pid, ipc, user = self.slurm.on_pod(pod, f"readlink {' '.join(names)}").ok().split()
        return pid, ipc, user

    def in_pod(self, pod: str, script: str) -> str:
        """Return what a shell script in a pod's own root prints."""
        return self.slurm.on_pod(pod, script).stdout

    def at_login(self, script: str, seconds: int = 60) -> Done:
        """A shell script of the ordinary user's over SSH."""
        return self.slurm.sh(script, seconds=seconds)
