"""The small cluster for the messages of Slurm's daemons: sends them as somebody, from a job or from a login node."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.image.small_cluster import ALICE, LOGIN, WORKER, SmallCluster
from tests.witness import rpcs
from tests.witness.values import FOLDER, SETID

DAEMONS = {WORKER: "slurmd", LOGIN: "sackd"}


@dataclass(frozen=True)
class Stage:
    """A cluster with a worker and a login node, and the witness in its jail (walk.py)."""

    cluster: SmallCluster

    @property
    def folder(self) -> Path:
        """The witness's folder, from outside."""
        return self.cluster.root.parents[1] / "persistent" / FOLDER.lstrip("/")

    def daemons(self) -> dict[str, str]:
        """Pod → number of its daemon of Slurm, the oldest of that name."""
        return {pod: self.cluster.pod(f"pgrep -o -x {name}", name=pod).stdout.strip() for pod, name in DAEMONS.items()}

    def message_types(self) -> dict[str, str]:
        """Number → name of the messages of the installed Slurm."""
        said = self.cluster.pod(f"python3 -c {shlex.quote(rpcs.NAMES)}")
        assert said.returncode == 0, said
        return dict(json.loads(said.stdout))

    def send(self, types: Mapping[str, str], user: int, from_login: bool) -> dict[str, str]:
        """Sends every message as a user; number → what was answered."""
        (self.folder / "types").write_text(json.dumps([*types]))
        (self.folder / "client.py").write_text(rpcs.CLIENT)
        out = f"{FOLDER}/out/answers-{user}-{'login' if from_login else 'job'}"
        become = "" if user == ALICE else f"{SETID} as "
        line = f"{become}python3 {FOLDER}/client.py {user} 127.0.0.1 {FOLDER}/types {out}"
        if from_login:
            done = self.cluster.ssh(line, seconds=180)
        else:
            done = self.cluster.jail(f"srun -n1 --mem=50 timeout 170 {line}", user=ALICE, seconds=180)
        answered = self.folder / "out" / Path(out).name
        assert answered.exists(), done
        return rpcs.answers(answered.read_text())
