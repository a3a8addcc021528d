"""A small cluster that knows how it looks at rest, and so what a job left on its workers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager

from tests.image.pods import WORKER
from tests.image.small_cluster import ALICE, SmallCluster

IDLE = "IDLE+DYNAMIC_NORM"
KILL_WAIT = {"KillWait": "5"}
"""Each test of a job that ignores SIGTERM waits this long for SIGKILL. Slurm's default is 30 s."""


class RestingCluster(SmallCluster):
    """A cluster that is asked after each job whether something of it is left."""

    workers: tuple[str, ...] = (WORKER,)
    """Those that run."""

    def processes(self, user: int = ALICE, name: str = WORKER) -> list[str]:
        """Command lines of a user's processes on a worker."""
        line = f"for each in $(pgrep -u {user}); do tr '\\0' ' ' < /proc/$each/cmdline; echo; done"
        return [line for line in self.pod(line, name=name).stdout.splitlines() if line]

    def node(self, name: str = WORKER) -> dict[str, str]:
        """State and reason of a worker."""
        said = self.pod(f"/opt/slurm/bin/scontrol show node {name} --json", seconds=30)
        if said.returncode != 0:  # slurmd, which says who asks, has just been started.
            return {"state": "", "reason": said.stderr}
        (node,) = json.loads(said.stdout)["nodes"]
        return {"state": "+".join(node["state"]), "reason": node["reason"]}

    def is_free(self, name: str) -> bool:
        """Return whether a worker is idle and has no process of a job."""
        return not self.processes(name=name) and self.node(name)["state"] == IDLE

    def is_at_rest(self) -> bool:
        """Return whether no job is left, and its nodes are free."""
        return not self.jail("squeue -h").stdout.strip() and all(map(self.is_free, self.workers))

    def left_on(self, name: str) -> str:
        """Return what a worker has, in words."""
        return f"{name}: processes {self.processes(name=name)}, node {self.node(name)}"

    @contextmanager
    def life_of_a_job(self, seconds: float = 40) -> Iterator[None]:
        """After what is done inside, nothing is left of it, and the nodes take the next job at once."""
        try:
            yield
        except BaseException:
            self.jail("scancel --user=alice; scancel --user=root", seconds=30)
            raise
        try:
            self.wait("rest", self.is_at_rest, seconds)
        except AssertionError as error:
            left = "; ".join(map(self.left_on, self.workers))
            raise AssertionError(f"the job left something: {left}") from error
        following = self.jail(f"srun -N{len(self.workers)} hostname", user=ALICE)
        assert (sorted(following.stdout.split()), following.returncode) == (sorted(self.workers), 0), following
