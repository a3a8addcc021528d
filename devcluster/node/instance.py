"""Instances of the dev cluster: their names, folders, and which of them run.

A state root holds a folder per instance, so the folders are the registry. An instance runs exactly as long as its
supervisor (devcluster/node/instance_supervisor.py) holds the lock in its folder. A lock is never stale; a recorded pid
can be.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from devcluster.machine.progress import StepFailed

DEFAULT_STATE_ROOT = Path("/var/lib/pulumi-slurm")
MACHINE_LOCK = Path("/run/pulumi-slurm.lock")
NAME_PATTERN = re.compile(r"[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?")


def state_root() -> Path:
    """Return the folder that holds the instances: $PULUMI_SLURM_STATE, else /var/lib/pulumi-slurm."""
    return Path(os.environ.get("PULUMI_SLURM_STATE") or DEFAULT_STATE_ROOT)


class InvalidNameError(ValueError):
    """An instance name that is no DNS label of at most 32 characters."""


@dataclass(frozen=True, slots=True)
class Description:
    """Facts about an instance, also while it does not run.

    Attributes:
        checkout: The checkout that made it.
        subnet: Its /30 between the host (first address) and the node (second address).
    """

    checkout: str
    subnet: str


@dataclass(frozen=True, slots=True)
class Runtime:
    """The supervisor's record, once the node's first process runs.

    Attributes:
        supervisor: Pid of the supervisor.
        init: Pid of the instance's pid 1, as the host counts.
        started: Seconds since the epoch.
    """

    supervisor: int
    init: int
    started: float


@dataclass(frozen=True, slots=True)
class Instance:
    """One embedded cluster: its name and the folder with all its state."""

    name: str
    state: Path

    @classmethod
    def named(cls, name: str) -> Instance:
        """Return the instance of that name below the state root, whether it exists or not.

        Raises:
            InvalidNameError: when the name can't be a host name, a cgroup and part of a link's alias.
        """
        if not NAME_PATTERN.fullmatch(name):
            raise InvalidNameError(
                f"instance name {name!r}: use lower case letters, digits and '-', at most 32 characters"
            )
        return cls(name, state_root() / name)

    @property
    def pki(self) -> Path:
        """Folder of certificates and keys."""
        return self.state / "pki"

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig, for use on the host."""
        return self.state / "kubeconfig"

    @property
    def logs(self) -> Path:
        """Folder with a log per component."""
        return self.state / "log"

    @property
    def volumes(self) -> Path:
        """Folder that the storage provisioner makes volumes in."""
        return self.state / "volumes"

    @property
    def status_file(self) -> Path:
        """File in which the instance's init writes the state of its components."""
        return self.state / "status.json"

    @property
    def name_on_host(self) -> str:
        """Unique name of its cgroup, nftables table and kubeconfig context on the host."""
        name = f"pulumi-slurm-{self.name}"
        if self.state.parent == DEFAULT_STATE_ROOT:
            return name
        # Another state root may hold an instance of the same name.
        return f"{name}-{hashlib.sha256(str(self.state).encode()).hexdigest()[:6]}"

    @property
    def lock_file(self) -> Path:
        """File that the supervisor locks as long as the instance runs."""
        return self.state / "lock"

    def exists(self) -> bool:
        """Return whether the instance was made, running or not."""
        return (self.state / "instance.json").exists()

    def is_running(self) -> bool:
        """Return whether the instance's supervisor lives."""
        try:
            with self.lock_file.open() as file:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except FileNotFoundError:
            return False
        except BlockingIOError:
            return True
        return False

    @contextlib.contextmanager
    def held(self) -> Iterator[int]:
        """Hold the lock of a running instance, and yield its file descriptor.

        Raises:
            BlockingIOError: when another supervisor holds it.
        """
        with self.lock_file.open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield file.fileno()

    @contextlib.contextmanager
    def being_started(self) -> Iterator[None]:
        """Hold the lock for starting the instance. Another process waits, and finds it started."""
        with (self.state / "start.lock").open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def description(self) -> Description:
        """Read the description that `describe` recorded."""
        return Description(**json.loads((self.state / "instance.json").read_text()))

    def describe(self, description: Description) -> None:
        """Record the description. From then on the instance exists."""
        write_json(self.state / "instance.json", asdict(description))

    def runtime(self) -> Runtime | None:
        """Read the instance's processes; None when it does not run or is still being started."""
        if not self.is_running():
            return None
        try:
            # Read by position: an instance of another checkout may have another name for the first value.
            return Runtime(*json.loads((self.state / "runtime.json").read_text()).values())
        except FileNotFoundError:
            return None

    def record_runtime(self, runtime: Runtime | None) -> None:
        """Record the instance's processes; None when they have ended."""
        if runtime is None:
            (self.state / "runtime.json").unlink(missing_ok=True)
        else:
            write_json(self.state / "runtime.json", asdict(runtime))


def all_instances() -> list[Instance]:
    """Return every instance below the state root, sorted by name."""
    root = state_root()
    if not root.is_dir():
        return []
    return [
        instance
        for folder in sorted(root.iterdir())
        if NAME_PATTERN.fullmatch(folder.name) and (instance := Instance(folder.name, folder)).exists()
    ]


@contextlib.contextmanager
def machine_lock() -> Iterator[None]:
    """Hold the machine's lock, for choosing a subnet and for changes of what instances share, over all state roots."""
    with MACHINE_LOCK.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def write_json(path: Path, content: object) -> None:
    """Write a JSON file that a reader sees whole or not at all."""
    beside = path.with_name(f".{path.name}.new")
    beside.write_text(json.dumps(content, indent=1) + "\n")
    beside.replace(path)


def enter_command(instance: Instance, command: Sequence[str]) -> list[str]:
    """Return the command line that runs a command inside an instance's namespaces.

    Raises:
        StepFailed: when it does not run.
    """
    runtime = instance.runtime()
    if runtime is None:
        raise StepFailed(f"instance {instance.name} does not run: start it with 'python3 -m devcluster up'")
    return ["nsenter", "--target", str(runtime.init), "--mount", "--net", "--pid", "--", *command]
