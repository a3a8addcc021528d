"""`up`: brings up a Slurm cluster that runs jobs. Each step keeps what an earlier run finished."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from contract.conditions import ConditionType, Reason
from devcluster.cli import first_job
from devcluster.cli.login import ADMIN, USER, Login
from devcluster.images import images
from devcluster.machine.bootstrap import CHECKOUT, cache_folder
from devcluster.machine.progress import Step, StepFailed, say
from devcluster.node import containerd, image_store, node_cli, toolchain
from devcluster.node.instance import Instance
from devcluster.stacks.stack import Stack

KUBECTL_DEADLINE_SECONDS = 120
UPDATE_DEADLINE_SECONDS = 180
_NOT_SOON = (Reason.UPDATE_WAITS_FOR_JOBS, Reason.UPDATE_WAITS_FOR_WINDOW, Reason.UPDATE_PAUSED)


@dataclass(frozen=True, slots=True)
class Cluster:
    """An instance with what runs on it."""

    instance: Instance
    binaries: Path
    kubeconfig: Path

    def kubectl(self, *arguments: str) -> str:
        """Run kubectl against this cluster: its output, or its error text."""
        done = subprocess.run(
            [str(self.binaries / "kubectl"), "--kubeconfig", str(self.kubeconfig), *arguments],
            capture_output=True, text=True, timeout=KUBECTL_DEADLINE_SECONDS, check=False, stdin=subprocess.DEVNULL,
        )  # fmt: skip
        if done.returncode != 0:
            raise StepFailed(f"kubectl {' '.join(arguments[:3])}: {done.stderr.strip()}")
        return done.stdout

    @property
    def stack(self) -> Stack:
        """The dev stack on this instance."""
        return Stack(stack_folder(self.instance), self.binaries, self.kubeconfig)

    @property
    def login(self) -> Login:
        """The way into its login nodes."""
        return Login(login_folder(self.instance))


def stack_folder(instance: Instance) -> Path:
    """Return the folder of the instance's Pulumi backend and config."""
    return instance.state / "pulumi"


def login_folder(instance: Instance) -> Path:
    """Return the folder of the instance's SSH key and known hosts."""
    return instance.state / "ssh"


def default_instance() -> Instance:
    """Return this checkout's own instance: `dev`, or `dev-<hash>` where another checkout has that name."""
    instance = Instance.named("dev")
    if instance.exists() and instance.description().checkout != str(CHECKOUT):
        return Instance.named(f"dev-{hashlib.sha256(str(CHECKOUT).encode()).hexdigest()[:6]}")
    return instance


def is_on_own_cluster(instance: Instance) -> bool:
    """Return whether this instance's stack is on the user's own Kubernetes, not on an embedded one."""
    return _own_cluster(instance).exists()


def _own_cluster(instance: Instance) -> Path:
    return instance.state / "own-cluster"


def up(instance: Instance, owner: int | None = None, settings: Mapping[str, Any] | None = None) -> Cluster:
    """Bring an embedded instance up with the dev stack on it. Run one real job, unless users' jobs have the nodes.

    Args:
        instance: The instance.
        owner: A process with which the instance ends, however that ends: for test runs.
        settings: More configuration, by config key: tests shorten intervals.
    """
    started = time.monotonic()
    toolchain.build()  # Before the images: what it lacks is known at once.
    built = images.build_all(cache_folder())
    program = shutil.which("containerd")  # Without one the node's start says which packages are missing.
    archives = [image.archive for image in built.values()]
    store = image_store.prepare(instance.state, cache_folder(), archives, Path(program)) if program else None
    cluster = start_node(instance, owner, store)
    with Step("images into the node"):
        for archive in archives:
            containerd.load_image(instance, archive)
    apply_stack(cluster, {name: image.reference for name, image in built.items()}, settings)
    wait_for_updates(cluster)
    first_job.run(cluster.login)
    say(f"up in {time.monotonic() - started:.0f} s. Log in:     python3 -m devcluster ssh")
    say("Run a command: python3 -m devcluster run -- srun -N2 hostname")
    return cluster


def up_on_own_cluster(instance: Instance, kubeconfig: Path, registry: str) -> Cluster:
    """Bring the dev stack up on a user's own Kubernetes: images go through `registry`, no node is started.

    Raises:
        StepFailed: When the kubeconfig is not there or no registry is named.
    """
    if not kubeconfig.exists():
        raise StepFailed(f"there is no kubeconfig at {kubeconfig}")
    if not registry:
        raise StepFailed("your own cluster pulls its images from somewhere: add --registry registry.example/team")
    instance.state.mkdir(parents=True, exist_ok=True)
    _own_cluster(instance).write_text(str(kubeconfig.resolve()))
    cluster = Cluster(instance, toolchain.build(), kubeconfig.resolve())
    references = images.push(registry, images.build_all(cache_folder()))
    apply_stack(cluster, references)
    first_job.run(cluster.login)
    say(f"up. Log in:     python3 -m devcluster --name {instance.name} ssh")
    return cluster


def start_node(instance: Instance, owner: int | None = None, store: Path | None = None) -> Cluster:
    """Start an instance without a stack: build the toolchain and start Kubernetes."""
    binaries = toolchain.build()
    node_cli.start(instance, binaries, CHECKOUT, owner, store)
    return Cluster(instance, binaries, node_cli.kubeconfig(instance))


def existing(instance: Instance) -> Cluster:
    """Return the cluster that an earlier `up` left.

    Raises:
        StepFailed: When there is none.
    """
    if is_on_own_cluster(instance):
        return Cluster(instance, toolchain.binaries(), Path(_own_cluster(instance).read_text()))
    if not instance.exists():
        raise StepFailed(f"there is no instance {instance.name}: run 'make up' first")
    return Cluster(instance, toolchain.binaries(), node_cli.kubeconfig(instance))


def apply_stack(cluster: Cluster, references: Mapping[str, str], settings: Mapping[str, Any] | None = None) -> None:
    """`pulumi up` of the dev stack with this instance's facts and more settings."""
    stack = cluster.stack
    with Step("pulumi up of stack dev"):
        stack.prepare()
        stack.write_config({**(settings or {}), **facts(cluster, references)})
        stack.clear_dead_lock()
        try:
            stack.run("up", "--yes", "--skip-preview", "--non-interactive", "--suppress-permalink=true")
        except StepFailed:
            show_condition(cluster)
            raise
    remember_login(cluster)


def facts(cluster: Cluster, references: Mapping[str, str]) -> dict[str, Any]:
    """Return the values that only this instance knows, by config key."""
    keys = {"sshPublicKeys": [cluster.login.public_key()]}
    return {
        "images": {name: references[name] for name in ("slurm", "operator", "database")},
        "jail": {"image": references["jail"]},
        "login": {
            "users": [{"name": USER, **keys, "sudo": True}, {"name": ADMIN, **keys, "sudo": True, "admin": True}]
        },
    }


def remember_login(cluster: Cluster) -> None:
    """Note the login nodes' address from the stack's outputs."""
    host, _, port = str(cluster.stack.outputs()["loginAddress"]).rpartition(":")
    if not is_on_own_cluster(cluster.instance):
        host = node_cli.address(cluster.instance)
    elif host.startswith("<"):  # a NodePort: any node's address will do
        host = cluster.kubectl("get", "nodes", "-o", "jsonpath={.items[0].status.addresses[0].address}")
    cluster.login.remember(host, int(port))


def show_condition(cluster: Cluster) -> None:
    """Print why the cluster is not available, from the resources' own messages."""
    try:
        say(cluster.kubectl("get", "slurmclusters,nodesets,pods", "-A", "-o", "wide"))
    except StepFailed as unknown:
        say(f"the cluster's condition could not be read: {unknown}")


def wait_for_updates(cluster: Cluster) -> None:
    """Wait until idle workers run the newest images. Workers with jobs move later, which it prints."""
    namespace = str(cluster.stack.outputs()["namespace"])
    deadline = time.monotonic() + UPDATE_DEADLINE_SECONDS
    with Step("idle workers on their newest images") as step:
        while True:
            listed = json.loads(cluster.kubectl("get", "nodesets", "-n", namespace, "-o", "json"))["items"]
            rows = [row for item in listed for row in item.get("status", {}).get("conditions", [])]
            moving = [row for row in rows if row["type"] == ConditionType.PROGRESSING and row["status"] == "True"]
            waits = [row["message"] for row in moving if row["reason"] in _NOT_SOON]
            if not moving or waits or time.monotonic() > deadline:
                for message in waits or [row["message"] for row in moving]:
                    step.note(message)
                return
            time.sleep(1)  # `kubectl wait` ends at one condition; this ends at either of two.
