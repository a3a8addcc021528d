"""Commands of `python3 -m devcluster` for a node: start, stop, status."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import shutil
import signal
import ssl
import subprocess
import time
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from devcluster.apiserver import control_plane
from devcluster.apiserver.pki import Authority
from devcluster.machine.progress import Step, StepFailed, say
from devcluster.node import (
    addons,
    containerd,
    image_store,
    instance_supervisor,
    links,
    node_images,
    processes,
    readiness,
    supervision,
)
from devcluster.node.instance import Description, Instance, Runtime, all_instances, machine_lock
from devcluster.node.links import Subnet
from devcluster.node.plan import writing
from devcluster.node.plan.facts import CNI_FOLDERS, PAUSE_IMAGE, NodeFacts
from devcluster.node.supervision import ComponentState
from devcluster.standin import kubeconfig as credentials

KUBECTL_SECONDS = 120
SUPERVISOR_SECONDS = 5
INIT_SECONDS = 60
SUBNET_TRIES = 3
CONTAINERD_SECONDS = 60
READY_SECONDS = 120
STOP_SECONDS = 40
WANTED_PROGRAMS = {
    "containerd": "containerd", "ctr": "containerd", "runc": "runc", "iptables": "iptables", "nft": "nftables",
    "conntrack": "conntrack", "ip": "iproute2", "unshare": "util-linux", "mount": "mount",
}  # fmt: skip
"""Program → Debian package, of what the node uses from the machine."""


@dataclass(frozen=True, slots=True)
class ComponentReport:
    """A line of `status`: the component as its supervisor sees it, and the last error in its log."""

    state: ComponentState
    last_error: str


@dataclass(frozen=True, slots=True)
class Status:
    """State of an instance.

    Attributes:
        running: Whether its node runs at all.
        address: The node's address, as seen from the host.
        checkout: The checkout that made it.
        components: Empty when it does not run.
    """

    running: bool
    address: str
    checkout: str
    components: tuple[ComponentReport, ...]


def start(
    instance: Instance, binaries: Path, checkout: Path = Path(__file__).parents[2], owner: int | None = None,
    store: Path | None = None,
) -> None:  # fmt: skip
    """Start the node of an instance and wait until it is Ready and resolves names.

    On a running node it restarts only components with a changed program, arguments or configuration.

    Args:
        instance: The instance.
        binaries: Folder with the built toolchain.
        checkout: The checkout that it belongs to, which `list` shows.
        owner: A process with which the instance ends, however that ends: for test runs.
        store: Images for a new node (image_store.py).

    Raises:
        StepFailed: with the sentence for the user and the log to read.
    """
    instance.state.mkdir(parents=True, exist_ok=True)
    # Volumes hold other users' programs and files, so only the host's root may enter here.
    instance.state.chmod(0o700)
    with instance.being_started(), Step(f"starting the node of instance {instance.name}"):
        if instance.is_running():
            changed = writing.write(_describe(instance, binaries, checkout))
            runtime = _wait_for_init(instance)
            if changed:
                os.kill(runtime.init, signal.SIGHUP)
        else:
            runtime = _begin(instance, binaries, checkout, owner, store)
    with Step("waiting for the API server"):
        url, deadline = f"https://{address(instance)}:6443", time.monotonic() + control_plane.READY_SECONDS
        try:
            control_plane.wait_ready(url, Authority(instance.pki), deadline, instance.is_running)
        except TimeoutError as error:
            if not instance.is_running():
                raise _ended(instance) from None
            raise StepFailed(str(error), instance.logs / "kube-apiserver.log") from None
    with Step("images and objects of the node"):
        _wait_for_containerd(instance)
        _load_own_images(instance, binaries)
        forwards = bool((instance.state / "resolv.conf").read_text())
        objects = addons.manifests(address(instance), forwards)
        apply = ("apply", "--server-side", "--force-conflicts", "--field-manager=devcluster", "-f", "-")
        content = json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})
        kubectl(instance, binaries, apply, stdin=content)
    with Step("waiting for the node and its DNS") as step:
        _wait_until_ready(instance, step)


def stop(instance: Instance, gently: bool = True) -> None:
    """End an instance: all its processes, mounts, links, cgroups. Its state stays. Does nothing if it does not run.

    Args:
        instance: The instance.
        gently: Give its programs time to end by themselves.

    Raises:
        StepFailed: when something of it can't be ended.
    """
    began = time.monotonic()
    kill_at, give_up_at = began + (STOP_SECONDS if gently else 0), began + 2 * STOP_SECONDS
    seen: set[int] = set()
    # The supervisor lets go of its lock a moment before it is gone.
    while instance.is_running() or any(processes.runs(pid) for pid in seen):
        now = time.monotonic()
        if now > give_up_at:
            raise StepFailed(f"instance {instance.name} does not end", instance.state / "supervisor.log")
        runtime = instance.runtime()
        if runtime:
            seen.add(runtime.supervisor)
            # Signalled repeatedly, since a starting init does not listen yet. It may end in between.
            with contextlib.suppress(ProcessLookupError):
                os.kill(runtime.init, signal.SIGTERM if now < kill_at else signal.SIGKILL)
        time.sleep(0.2)  # Nobody is told when processes end that are not his children.
    # Things that a killed supervisor could not remove.
    instance_supervisor.clean(instance)


def remove(instance: Instance) -> None:
    """End an instance and delete its state, volumes included: nobody needs what its programs would still write."""
    stop(instance, gently=False)

    def unless_gone(_function: object, _path: str, error: tuple[type[BaseException], BaseException, object]) -> None:
        # Another program that ends the same instance may remove its files meanwhile.
        if not isinstance(error[1], FileNotFoundError):
            raise error[1]

    if instance.state.exists():
        shutil.rmtree(instance.state, onerror=unless_gone)


def instances() -> list[Instance]:
    """Return all instances of this machine's state root."""
    return all_instances()


def address(instance: Instance) -> str:
    """Return the node's address as seen from the host: the API server's port 6443 and NodePorts answer there."""
    return Subnet.parse(instance.description().subnet).node


def kubeconfig(instance: Instance) -> Path:
    """Return the administrator's kubeconfig for use on the host."""
    return instance.kubeconfig


def status(instance: Instance) -> Status:
    """Return the state of an instance and of each of its components."""
    description = instance.description()
    node = Subnet.parse(description.subnet).node
    runtime = instance.runtime()
    if runtime is None:
        return Status(False, node, description.checkout, ())
    host_pids = processes.inside_to_host(runtime.init)
    content = instance.status_file.read_text() if instance.status_file.exists() else "[]"
    states = [ComponentState(**state) for state in json.loads(content)]
    reports = (
        ComponentReport(
            ComponentState(s.name, host_pids.get(s.pid) if s.pid else None, s.since, s.restarts, s.last_exit),
            supervision.last_error_line(instance.logs / f"{s.name}.log"),
        )
        for s in states
    )
    return Status(True, node, description.checkout, tuple(reports))


def kubectl(instance: Instance, binaries: Path, arguments: Sequence[str], stdin: str | None = None) -> str:
    """Run kubectl against an instance and return its output.

    Raises:
        StepFailed: with what it said.
    """
    done = subprocess.run(
        [binaries / "kubectl", "--kubeconfig", instance.kubeconfig, *arguments],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=KUBECTL_SECONDS,
        check=False,
    )
    if done.returncode != 0:
        raise StepFailed(f"kubectl {' '.join(arguments)}: {done.stderr.strip()}")
    return done.stdout


def _describe(instance: Instance, binaries: Path, checkout: Path) -> NodeFacts:
    missing = {package for program, package in WANTED_PROGRAMS.items() if not shutil.which(program)}
    cni = next((folder for folder in CNI_FOLDERS if (folder / "bridge").exists()), None)
    if cni is None:
        missing.add("containernetworking-plugins")
    if missing or cni is None:
        raise StepFailed(f"OS packages are missing: apt-get install -y {' '.join(sorted(missing))}")
    containerd = shutil.which("containerd")
    assert containerd
    with machine_lock():
        had = Subnet.parse(instance.description().subnet) if instance.exists() else None
        taken = links.read_networks(links.host_end(instance))
        others = {
            Subnet.parse(other.description().subnet).network: f"devcluster instance {other.name} ({other.state})"
            for other in all_instances()
            if other != instance
        }
        try:
            subnet, owner = links.choose(had, others | taken)
        except links.NoSubnetError as error:
            raise StepFailed(str(error)) from None
        if owner:
            say(f"  subnet {had} is in use now by {owner}: taking {subnet}")
        instance.describe(Description(str(checkout), str(subnet)))
    return NodeFacts(instance, binaries, Path(containerd), cni, subnet, links.mtu_to_the_world())


def _begin(instance: Instance, binaries: Path, checkout: Path, owner: int | None, store: Path | None) -> Runtime:
    """Start a node's supervisor; once more where an instance of another state root took its subnet meanwhile."""
    for number in range(SUBNET_TRIES):
        writing.write(_describe(instance, binaries, checkout))
        if store and number == 0:
            image_store.fill(instance.state, store)
        instance_supervisor.start(instance, instance.state / "supervisor.log", owner)
        try:
            return _wait_for_init(instance)
        except StepFailed as error:
            if number == SUBNET_TRIES - 1 or not str(error).endswith(links.TAKEN):
                raise
            say(f"  {error}")
    raise AssertionError("the last try returns or raises")


def _wait_for_init(instance: Instance) -> Runtime:
    log = instance.state / "supervisor.log"
    started = time.monotonic()
    while (runtime := instance.runtime()) is None:
        waited = time.monotonic() - started
        if waited > SUPERVISOR_SECONDS and not instance.is_running():
            raise _ended(instance)
        if waited > INIT_SECONDS:
            raise StepFailed(f"the node of instance {instance.name} has no first process after {waited:.0f} s", log)
        time.sleep(0.05)  # The supervisor tells by a file of its state alone.
    return runtime


def _ended(instance: Instance) -> StepFailed:
    log = instance.state / "supervisor.log"
    last = (log.read_text().strip().splitlines() or ["it said nothing"])[-1]
    return StepFailed(f"the node of instance {instance.name} ended while it was started: {last}", log)


def _wait_for_containerd(instance: Instance) -> None:
    """Wait until containerd listens: it starts beside the API server, which may answer earlier."""
    deadline = time.monotonic() + CONTAINERD_SECONDS
    while True:
        try:
            containerd.ctr(instance, "version")
        except StepFailed:
            if time.monotonic() > deadline or not instance.is_running():
                raise
            time.sleep(0.2)  # containerd has no event for its socket.
        else:
            return


def _load_own_images(instance: Instance, binaries: Path) -> None:
    for program, name in (("pause", PAUSE_IMAGE), ("coredns", addons.DNS_IMAGE)):
        target = instance.state / f"{program}.tar"
        source = (binaries / program).resolve()
        if not target.exists() or target.stat().st_mtime < source.stat().st_mtime:
            node_images.archive(source, name, target)
        containerd.load_image(instance, target)


def listed(access: credentials.Connection, path: str) -> list[dict[str, Any]]:
    """Return the items of a list at a path of the API server. To start kubectl for it costs a tenth of a second.

    Raises:
        StepFailed: there is no list, or no answer.
    """
    assert isinstance(access.tls, ssl.SSLContext)
    try:
        url = f"{access.server}{path}"
        with urllib.request.urlopen(url, timeout=KUBECTL_SECONDS, context=access.tls) as answer:  # noqa: S310 - https: the kubeconfig is ours
            items: list[dict[str, Any]] = json.load(answer)["items"]
    except (OSError, http.client.HTTPException) as error:
        raise StepFailed(f"{access.server}{path}: {error}") from None
    return items


def _wait_until_ready(instance: Instance, step: Step) -> None:
    runtime = instance.runtime()
    since = runtime.started if runtime else 0.0
    deadline = time.monotonic() + READY_SECONDS
    dns = "/api/v1/namespaces/kube-system/pods?labelSelector=k8s-app%3Dkube-dns"
    access = credentials.read(str(instance.kubeconfig))
    while True:
        nodes, pods = (listed(access, path) for path in ("/api/v1/nodes", dns))
        missing = readiness.missing(nodes, pods, since)
        if missing is None:
            return
        if time.monotonic() > deadline:
            raise StepFailed(f"not ready after {READY_SECONDS} s: {missing}", instance.logs / "kubelet.log")
        step.heartbeat(missing)
        time.sleep(0.25)  # No watch tells of several objects together.
