"""The dev cluster in a guest, as tests of cgroup v2 ask for it: pods of a real kubelet, from inside and outside."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from devcluster.cli.login import ADMIN, USER
from tests.e2e.conftest import Done, Slurm
from tests.image.pods import SECOND, WORKER
from tests.image.small_cluster import ALICE
from tests.vm.v2_cluster import LoginLimits, bound_processes, rest_of
from tests.vm.v2_groups import below

HIERARCHY = Path("/sys/fs/cgroup")
SLOWER = 4
"""A guest starts programs up to ten times as slowly as a machine does; deadlines of other tests are longer here."""
QUALITY = {"Guaranteed": "kubepods", "Burstable": "kubepods/burstable", "BestEffort": "kubepods/besteffort"}
"""Where a kubelet with the cgroupfs driver puts pods of each quality of service."""


class SlowSlurm(Slurm):
    """The cluster as its users see it, with the deadlines of a guest."""

    def sh(self, script: str, *, user: str = USER, seconds: int = 60) -> Done:
        return super().sh(script, user=user, seconds=seconds * SLOWER)

    def kubectl(self, *arguments: str, seconds: int = 60, text: str | None = None) -> Done:
        return super().kubectl(*arguments, seconds=seconds * SLOWER, text=text)

    def wait(self, what: str, condition: Callable[[], Any], seconds: float = 60) -> Any:
        return super().wait(what, condition, seconds * SLOWER)


@dataclass(frozen=True, slots=True)
class Container:
    """A container of a pod in the guest's own tree of groups.

    Attributes:
        name: in its pod.
        group: its folder.
        limits: what its pod asks for, by resource.
    """

    name: str
    group: Path
    limits: dict[str, str]

    def processes(self) -> Iterator[Path]:
        """Folders of its processes in the guest's /proc."""
        for folder, _, _ in os.walk(self.group):  # It passes by what goes meanwhile.
            try:
                numbers = Path(folder, "cgroup.procs").read_text().split()
            except OSError:  # The group is gone.
                continue
            yield from (Path(f"/proc/{number}") for number in numbers)

    def first_process(self) -> Path:
        """Folder of the one that is process 1 in the container; jobs below it have such processes of their own."""
        firsts = (path for path in self.processes() if of_status(path, "NSpid")[-1] == "1")
        return min(firsts, key=lambda path: len(of_status(path, "NSpid")))


def of_status(process: Path, key: str) -> list[str]:
    """Words of a line of a process's status; proc_pid_status(5)."""
    found = re.search(rf"^{key}:\s*(.*)$", (process / "status").read_text(), re.MULTILINE)
    assert found, f"{process} has no {key}"
    return found[1].split()


def containers(slurm: Slurm, pod: dict[str, Any]) -> list[Container]:
    """The running containers of a pod, where the kubelet must have put them."""
    top = HIERARCHY / slurm.cluster.instance.name_on_host / QUALITY[pod["status"]["qosClass"]]
    limits = {one["name"]: one.get("resources", {}).get("limits", {}) for one in pod["spec"]["containers"]}
    folder = top / f"pod{pod['metadata']['uid']}"
    return [
        Container(status["name"], folder / status["containerID"].rpartition("/")[2], limits[status["name"]])
        for status in pod["status"]["containerStatuses"]
        if "running" in status["state"]
    ]


class KubeletCluster:
    """Pods of a real kubelet; it answers what tests ask of a tests.vm.v2_cluster.V2Cluster."""

    logins = LoginLimits(mib=256, processes=100, cpu_millis=1000)

    def __init__(self, slurm: Slurm) -> None:
        self.slurm = slurm
        self._workers: dict[str, Container] = {}

    def jail(self, script: str, *, user: int = 0, seconds: int = 60) -> subprocess.CompletedProcess[str]:
        return _completed(self.slurm.sh(script, user=USER if user else ADMIN, seconds=seconds))

    def ssh(self, script: str, *, seconds: int = 60) -> subprocess.CompletedProcess[str]:
        return _completed(self.slurm.sh(script, seconds=seconds))

    def pod(self, script: str, *, name: str = WORKER, seconds: int = 60) -> subprocess.CompletedProcess[str]:
        return _completed(self.slurm.on_pod(name, script, seconds=seconds))

    def log(self, name: str) -> str:
        return self.slurm.kubectl("logs", name).ok()

    def state(self) -> str:
        return self.pod("cat /run/slurm-node/state").stdout

    def wait(self, what: str, condition: Callable[[], object], seconds: float) -> object:
        return self.slurm.wait(what, condition, seconds)

    def worker(self, name: str = WORKER) -> Container:
        """The container of a worker pod."""
        if name not in self._workers:
            (self._workers[name],) = containers(self.slurm, self.slurm.get("pod", name))
        return self._workers[name]

    def forget_workers(self) -> None:
        """Looks for the workers' containers anew: their pods may be others."""
        self._workers.clear()

    def slurm_groups(self, name: str = WORKER) -> set[str]:
        return below(self.worker(name).group)

    def processes(self, user: int = ALICE, name: str = WORKER) -> list[str]:
        """Command lines of a user's processes in a worker."""
        lines = []
        for process in self.worker(name).processes():
            try:
                if of_status(process, "Uid")[0] == str(user):
                    lines.append((process / "cmdline").read_text().replace("\0", " "))
            except OSError:  # It has ended.
                continue
        return lines

    def left(self) -> dict[str, list[str]]:
        """Return what jobs have left on the workers: groups and processes."""
        left = {
            name: [*sorted(self.slurm_groups(name) - rest_of(name)), *self.processes(name=name)]
            for name in (WORKER, SECOND)
        }
        return {name: remains for name, remains in left.items() if remains}

    def is_at_rest(self) -> bool:
        """Return whether no job is left, and all nodes are idle.

        Raises:
            LookupError: something of a job is left; `wait` shows what.
        """
        if left := self.left():
            raise LookupError(left)
        return self.slurm.sh("squeue -h; sinfo -h -N -o '%T %E' | sort -u", user=ADMIN).ok() == "idle none"

    @contextmanager
    def life_of_a_job(self, seconds: float = 40) -> Iterator[None]:
        try:
            yield
        except BaseException:
            self.slurm.sh(f"scancel --user={USER}", user=ADMIN)
            raise
        self.wait("rest", self.is_at_rest, seconds)
        following = self.jail("srun -Q -N2 hostname", user=ALICE)
        assert sorted(following.stdout.split()) == [WORKER, SECOND], following

    @contextmanager
    def bound_processes(self) -> Iterator[None]:
        with bound_processes(self.worker().group):
            yield

    def restart_worker(self) -> None:
        """Deletes the pod under its jobs, as somebody who forces it does."""
        old = self.worker()
        self.slurm.kubectl("delete", "pod", WORKER, "--grace-period=1", "--wait=false").ok()
        self.wait("the old pod has no group", lambda: not old.group.exists(), 60)
        self.forget_workers()
        self.wait("another is ready", lambda: self.state() == "ready", 90)
        self.wait("the node is idle", lambda: self.slurm.nodes()[WORKER] == "idle", 60)


def _completed(done: Done) -> subprocess.CompletedProcess[str]:
    return subprocess.CompletedProcess([], done.status, done.stdout, done.stderr)
