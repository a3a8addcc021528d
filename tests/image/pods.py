"""Pods of the image's own entry points in namespaces of this machine: started, entered and ended.

No Kubernetes: a pod is a shell script with the mounts that kubelet and a runtime would make. What a job, slurmd or
slurmstepd does in a root is real. Seccomp and the pod's capabilities are missing here (tests/e2e has them). Pods have
cgroups only in tests that make some (tests/vm).
"""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Self

from components.pods.pod_security import LOGIN_CAPABILITIES, WORKER_CAPABILITIES
from tests.image.networks import Networks

REVISION = "r1"
CONTROLLER, WORKER, LOGIN, DIRECTORY = "slurm-controller-0", "cpu-0", "slurm-login-0", "slurm-directory"
SECOND, SECOND_ADDRESS = "cpu-1", "10.77.0.2"
THIRD, THIRD_ADDRESS = "cpu-2", "10.77.0.3"
ENTRY = "/usr/bin/tini -s -- /usr/bin/python3 -m slurm_node"
LEAST_SECONDS = 90.0
"""Least deadline of a wait, since all lanes of the suite share the cores.

Slurm itself lets a requeued job wait for two minutes, and some tests are about that. So it is less.
"""
KUBERNETES_CAPABILITIES = {
    role: "".join(f",+{name.lower()}" for name in capabilities)
    for role, capabilities in (("worker", WORKER_CAPABILITIES), ("login", LOGIN_CAPABILITIES))
}
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

# As the image's pods have it, but that the one image is below all of them.
POD = """
set -e
hostname "$NAME"
mkdir -p "$POD"
mount --bind "$IMAGE" "$POD"
for folder in run tmp var/spool/slurmd var/spool/slurmctld dev; do mount -t tmpfs "$folder" "$POD/$folder"; done
for device in null zero full random urandom tty; do
    touch "$POD/dev/$device"
    mount --bind /dev/$device "$POD/dev/$device"
done
mkdir "$POD/dev/pts" "$POD/dev/shm" "$POD/dev/mqueue"
mount -t devpts -o newinstance,ptmxmode=0666,mode=0620,gid=5 devpts "$POD/dev/pts"
mount -t tmpfs shm "$POD/dev/shm"
mount -t mqueue mqueue "$POD/dev/mqueue"
ln -s pts/ptmx "$POD/dev/ptmx"; ln -s /proc/self/fd "$POD/dev/fd"
touch "$POD/dev/termination-log"
mount -t proc proc "$POD/proc"
mount --bind /sys "$POD/sys"
if [ -n "$GROUP" ]; then
    # As a runtime does it: the pod's own group at the top, read-only.
    mount -t cgroup2 -o ro,nosuid,nodev,noexec cgroup2 "$POD/sys/fs/cgroup"
else
    mount -t tmpfs -o mode=755 cgroups "$POD/sys/fs/cgroup"
fi
mount --bind "$VOLUME" "$POD/mnt/jail"
mount --bind "$CONFIG" "$POD/etc/slurm"
for name in hosts hostname resolv.conf; do touch "$POD/etc/$name"; done
mount --bind "$HOSTS" "$POD/etc/hosts"
case "$ROLE" in
    worker)
        mount --bind "$SCRIPTS/slurm-node-scripts" "$POD/etc/slurm-scripts"
        mount --bind "$SCRIPTS/slurm-task-scripts" "$POD/etc/slurm-task-scripts";;
    controller) mount --bind "$SCRIPTS/slurm-controller-scripts" "$POD/etc/slurm-scripts";;
esac
mkdir -p "$POD/run/secrets"
cp -r "$KEYS" "$POD/run/secrets/slurm"
cp -r "$KEYS" "$POD/run/secrets/ssh"
[ "$ROLE" != controller ] || mount --bind "$STATE" "$POD/var/spool/slurmctld"
chown 64030:64030 "$POD/var/spool/slurmctld"
[ "$ROLE" != worker ] || sh -ec "$BEFORE"
# Workers and logins have a read-only root (components/pods/pod_security.py), and nothing mounted at /tmp.
case "$ROLE" in worker|login) umount "$POD/tmp"; mount -o remount,bind,ro "$POD";; esac
cd "$POD"
pivot_root . .
umount -l .
exec "$@"
"""

# 0 is who writes it: a process of another namespace that stayed in the group would be in the pod's way.
ENTER_GROUP = """
[ -n "$GROUP" ] || exec "$@"
mkdir -p "$GROUP"
echo 0 > "$GROUP/cgroup.procs"
exec unshare --cgroup "$@"
"""


class Pods:
    """The pods of one cluster, whose jobs have the root of REVISION. As a context it ends all of them.

    Args:
        folder: all lies in it; the jail's volume is the folder ``volume``.
        image: the slurm image's root.
        volumes: pod → its own mount of the volume; the folder ``volume`` itself for others.
        groups: folder of a cgroup v2 hierarchy in which each pod gets a group and a cgroup namespace of its own.
        as_in_kubernetes: gives workers and logins only the capabilities of components/pods/pod_security.py.
        before: shell before a worker's root is entered, with it at $POD, as a hook of a container runtime.
    """

    def __init__(
        self,
        folder: Path,
        image: Path,
        volumes: Mapping[str, Path],
        groups: Path | None,
        as_in_kubernetes: bool,
        before: str = "",
    ) -> None:
        self._as_in_kubernetes = as_in_kubernetes
        self._folder = folder
        self._groups = groups
        self._volumes = volumes
        self._pods: dict[str, subprocess.Popen[bytes]] = {}
        self._jail = {"revision": REVISION, "persistent": ["/home", "/root"], "tmpMib": 64, "shmMib": 64}
        self._networks = Networks()
        self._mounts = {
            "IMAGE": image, "CONFIG": folder / "config", "HOSTS": folder / "hosts",
            "KEYS": folder / "keys", "STATE": folder / "state", "SCRIPTS": folder / "scripts", "BEFORE": before,
        }  # fmt: skip

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for name in list(self._pods):
            self.end(name)
        self._networks.close()

    def _pod(self, name: str, command: str, **environment: str) -> list[str]:
        ours = {
            **self._mounts,
            "VOLUME": self._volumes.get(name, self._folder / "volume"),
            "POD": self._folder / f"pod-{name}",
            "NAME": name,
            "GROUP": self.group(name) or "",
            "ROLE": command.rstrip("'").rpartition(" ")[2],
        }
        inside = ["env", "-i", f"PATH={PATH}", f"SLURM_JAIL={json.dumps(self._jail)}"]
        inside += [f"{key}={value}" for key, value in environment.items()]
        return [
            *self._networks.command(self._networks.holder(name)),
            "env", *(f"{key}={value}" for key, value in ours.items()),
            "unshare", "--mount", "--uts", "--ipc", "--pid", "--fork", "--kill-child", "--propagation", "private",
            "sh", "-c", ENTER_GROUP, "sh", "sh", "-c", POD, "sh", *inside, *shlex.split(command),
        ]  # fmt: skip

    def group(self, name: str) -> Path | None:
        """The cgroup of a pod, if pods have any."""
        return self._groups / name if self._groups else None

    def _start(self, name: str, role: str, *, user: bool = False, first: str = "", **environment: str) -> None:
        # Kubernetes starts slurmctld as SlurmUser, with a folder and keys of its own.
        mine = "install -d -o 64030 -g 64030 /run/slurmctld; chown -R 64030:64030 /run/secrets/slurm; "
        become = "exec setpriv --reuid=64030 --regid=64030 --clear-groups " if user else "exec "
        if self._as_in_kubernetes and role in KUBERNETES_CAPABILITIES:
            become = f"exec setpriv --inh-caps=-all --bounding-set=-all{KUBERNETES_CAPABILITIES[role]} "
        command = f"sh -c {shlex.quote(first + (mine if user else '') + become + f'{ENTRY} {role}')}"
        if name in self._pods:
            self.end(name)
        # A runtime gives a pipe of the container's user: whoever opens it by /proc/1/fd writes behind all others.
        (self._folder / f"{name}.log").unlink(missing_ok=True)
        log = (self._folder / f"{name}.log").open("ab")
        if user:
            os.chown(log.fileno(), 64030, 64030)
        self._pods[name] = subprocess.Popen(
            self._pod(name, command, **environment), stdin=subprocess.DEVNULL, stdout=log, stderr=log
        )

    def end(self, name: str) -> None:
        """Ends a pod; its namespaces and mounts go with its processes."""
        pod = self._pods.pop(name)
        # The first process too: --kill-child is void for one that changes its user, as slurmctld's does.
        children = Path(f"/proc/{pod.pid}/task/{pod.pid}/children")
        with suppress(FileNotFoundError, ProcessLookupError):
            for child in children.read_text().split():
                os.kill(int(child), signal.SIGKILL)
        pod.kill()
        pod.wait()

    def first_process(self, name: str) -> int:
        """Number of a pod's process 1, as this machine counts."""
        children = Path(f"/proc/{self._pods[name].pid}/task/{self._pods[name].pid}/children")
        self.wait(f"{name} has a process", lambda: children.read_text().split(), 30)
        return int(children.read_text())

    def log(self, name: str) -> str:
        """Return what a pod has printed."""
        return (self._folder / f"{name}.log").read_text(errors="replace")

    def state(self, name: str = WORKER) -> str:
        """Return what a worker tells its readiness probe."""
        return self.pod("cat /run/slurm-node/state", name=name).stdout

    def _enter(self, name: str) -> list[str]:
        return ["nsenter", "-t", str(self.first_process(name)), "-m", "-u", "-i", "-n", "-p", "env", "-i"]

    def pod(self, script: str, *, name: str = WORKER, seconds: int = 60) -> subprocess.CompletedProcess[str]:
        """Shell in a pod's own root."""
        return run([*self._enter(name), f"PATH={PATH}", "sh", "-c", script], seconds)

    def jail(
        self, script: str, *, user: int = 0, seconds: int = 60, name: str = WORKER
    ) -> subprocess.CompletedProcess[str]:
        """Shell in a node's view of the jail, as somebody who is logged in there."""
        variables = [f"PATH={PATH}", "HOME=/home/alice" if user else "HOME=/root"]
        root = ["chroot", *([f"--userspec={user}:{user}"] if user else []), "/run/jail"]
        return run([*self._enter(name), *variables, *root, "sh", "-c", f"cd; {script}"], seconds)

    def in_network(self, *command: str) -> list[str]:
        """A command in the cluster's network."""
        return [*self._networks.command(self._networks.holder(CONTROLLER)), *command]

    def wait(self, what: str, condition: Callable[[], object], seconds: float) -> None:
        """Waits for a condition; the pods' logs, and what Slurm says of jobs and nodes, are in the failure.

        Args:
            what: is waited for.
            condition: is asked again and again.
            seconds: after which it fails; LEAST_SECONDS if these are more.
        """
        seconds = max(seconds, LEAST_SECONDS)
        deadline = time.monotonic() + seconds
        while not condition():
            ended = [name for name, pod in self._pods.items() if pod.poll() is not None]
            if ended or time.monotonic() >= deadline:
                logs = {name: self.log(name)[-2000:] for name in self._pods}
                raise AssertionError(f"{what}: not within {seconds} s, ended {ended}: {self._asked()} {logs}")
            time.sleep(0.2)  # Pods and Slurm tell nobody that they have changed.

    def _asked(self) -> str:
        with suppress(Exception):  # Whatever it is: the failure that asked is the one to tell.
            return self.pod("for what in jobs nodes; do timeout 20 /opt/slurm/bin/scontrol show $what; done").stdout
        return "slurmctld was not asked"


def run(command: list[str], seconds: int, given: str = "") -> subprocess.CompletedProcess[str]:
    """Run a command and return what it wrote."""
    return subprocess.run(command, input=given, capture_output=True, text=True, timeout=seconds, check=False)
