"""Begins and ends each kind of fault."""

from __future__ import annotations

import functools
import signal
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from bench.faults.cluster import CORE, CUSTOM, NODE_SET_PATH, PATHS, CallFailed, Cluster, send
from bench.faults.kinds import OTHERS_WORDS
from bench.faults.schedule import Fault
from contract import names
from devcluster.cli.login import ADMIN

FILL = "dd if=/dev/zero of=/run/jail/tmp/fill bs=1M 2>/dev/null; true"
EMPTY = "rm -f /run/jail/tmp/fill"
WAITING_JOBS = 200
WAITING_SECONDS = 90
CONTEST_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class Begun:
    """A fault that began.

    Attributes:
        note: What the judge needs to know of it.
        end: Ends it; of one that passes by itself, nothing.
    """

    note: Mapping[str, str] = field(default_factory=dict)
    end: Callable[[], object] = lambda: None


Begin = Callable[[Cluster, Fault], Begun]


def _signalled(pids: list[int], number: signal.Signals) -> Begun:
    """Kill processes, or stop them until the fault ends."""
    send(pids, number)
    stopped = number is signal.SIGSTOP
    return Begun(end=functools.partial(send, pids, signal.SIGCONT)) if stopped else Begun()


def _daemon(component: str, program: str, number: signal.Signals) -> Begin:
    """Send a signal to a program of a component's pods."""

    def begin(cluster: Cluster, _: Fault) -> Begun:
        return _signalled(cluster.processes([*cluster.pods(component).values()], program), number)

    return begin


def _node_program(name: str) -> Begin:
    """Stop a program of the Kubernetes node."""
    return lambda cluster, _: _signalled([cluster.node_program(name)], signal.SIGSTOP)


def _pod_deleted(pod: str) -> Begin:
    def begin(cluster: Cluster, _: Fault) -> Begun:
        cluster.change("DELETE", f"{CORE}/pods/{pod}")
        return Begun()

    return begin


def _holder(cluster: Cluster) -> tuple[str, str]:
    """Return the holder of the lease, and the name of its pod."""
    holder = cluster.holder()
    return holder, holder.rpartition("-")[0]


def _operator_killed(cluster: Cluster, _: Fault) -> Begun:
    holder, pod = _holder(cluster)
    cluster.change("DELETE", f"{CORE}/pods/{pod}", {"gracePeriodSeconds": 0})
    return Begun({"holder": holder})


def _operator_stopped(cluster: Cluster, _: Fault) -> Begun:
    holder, pod = _holder(cluster)
    pids = cluster.processes([cluster.pods("operator").get(pod, "")], "slurm_operator")
    return Begun({"holder": holder}, _signalled(pids, signal.SIGSTOP).end)


def _slurmd_killed(cluster: Cluster, fault: Fault) -> Begun:
    uid = cluster.pods("worker").get(fault.target, "")
    return _signalled(cluster.processes([uid], "slurmd"), signal.SIGKILL)


def _reconfigured(cluster: Cluster, _: Fault) -> Begun:
    cluster.in_pod("controller", f"{names.CONTROLLER}-0", "scontrol reconfigure")
    return Begun()


EDITS: Mapping[str, Any] = {
    "ConfigMap": {"data": {"slurm.conf": "ClusterName=mine\n", "more.conf": "x"}},
    "Service": {"spec": {"selector": {names.LABEL_COMPONENT: "nobody"}}},
    "NetworkPolicy": {"spec": {"ingress": [{}]}},
    "StatefulSet": {"spec": {"template": {"spec": {"nodeSelector": {"no": "where"}}}}},
}


def _path(target: str) -> tuple[str, str]:
    """Return the kind of a target, and its API path."""
    kind, _, name = target.partition(" ")
    return kind, f"{PATHS[kind]}/{name}"


def _edited(cluster: Cluster, fault: Fault) -> Begun:
    kind, path = _path(fault.target)
    cluster.change("PATCH", path, EDITS[kind])
    return Begun()


def _deleted(policy: str) -> Begin:
    def begin(cluster: Cluster, fault: Fault) -> Begun:
        cluster.change("DELETE", _path(fault.target)[1], {"propagationPolicy": policy})
        return Begun()

    return begin


def _scaled(by: int) -> Begin:
    """Change the node set's number of nodes, and restore it at the end."""

    def begin(cluster: Cluster, _: Fault) -> Begun:
        path = f"{NODE_SET_PATH}/scale"
        declared = int(cluster.patiently(path)["spec"]["replicas"])
        cluster.change("PATCH", path, {"spec": {"replicas": declared + by}})
        back = {"spec": {"replicas": declared}}
        return Begun({"declared": str(declared)}, lambda: cluster.change("PATCH", path, back))

    return begin


def _by_person(state: str, reason: str, back: str) -> Begin:
    """Set a state and a reason of a Slurm node as an administrator does, and undo it at the end."""

    def begin(cluster: Cluster, fault: Fault) -> Begun:
        said = f"{reason}-{fault.number}"
        update = f"scontrol update nodename={fault.target}"
        cluster.administer(f"{update} state={state} reason={said}")
        return Begun({"reason": said, "user": ADMIN}, lambda: cluster.administer(f"{update} state={back}"))

    return begin


def _check_failed(cluster: Cluster, fault: Fault) -> Begun:
    cluster.in_pod("worker", fault.target, FILL)
    return Begun(end=lambda: cluster.in_pod("worker", fault.target, EMPTY))


def _cordoned(cluster: Cluster, _: Fault) -> Begun:
    path = f"/api/v1/nodes/{cluster.k8s_node()}"
    cluster.change("PATCH", path, {"spec": {"unschedulable": True}})
    return Begun(end=lambda: cluster.change("PATCH", path, {"spec": {"unschedulable": None}}))


def _status_contested(cluster: Cluster, _: Fault) -> Begun:
    """Overwrite each status as another field manager, until the fault ends."""
    clusters = cluster.patiently(f"{CUSTOM}/{names.SLURM_CLUSTERS}")["items"]
    paths = [f"{CUSTOM}/{names.SLURM_CLUSTERS}/{clusters[0]['metadata']['name']}/status", f"{NODE_SET_PATH}/status"]
    over = threading.Event()

    def write() -> None:
        turn = 0
        while not over.wait(CONTEST_SECONDS):
            turn += 1
            try:
                cluster.change("PATCH", paths[turn % 2], {"status": {"message": f"{OTHERS_WORDS} {turn}"}})
            except CallFailed:
                continue

    writer = threading.Thread(target=write, daemon=True)
    writer.start()

    def end() -> None:
        over.set()
        writer.join()

    return Begun(end=end)


def _queue_deep(cluster: Cluster, fault: Fault) -> Begun:
    name = f"waiting-{fault.number}"
    submit = f"sbatch -Q -H -n1 -J {name} -o /dev/null --wrap true"
    cluster.ssh(f"for turn in $(seq {WAITING_JOBS}); do {submit} || exit; done", seconds=WAITING_SECONDS)
    return Begun(end=lambda: cluster.ssh(f"scancel -n {name}", seconds=WAITING_SECONDS))


INJECTIONS: Mapping[str, Begin] = {
    "operator-killed": _operator_killed,
    "operator-stopped": _operator_stopped,
    "slurmrestd-killed": _daemon("rest", "slurmrestd", signal.SIGKILL),
    "slurmrestd-stopped": _daemon("rest", "slurmrestd", signal.SIGSTOP),
    "slurmctld-killed": _daemon("controller", "slurmctld", signal.SIGKILL),
    "slurmctld-deleted": _pod_deleted(f"{names.CONTROLLER}-0"),
    "slurmctld-stopped": _daemon("controller", "slurmctld", signal.SIGSTOP),
    "reconfigured": _reconfigured,
    "slurmdbd-killed": _daemon("accounting", "slurmdbd", signal.SIGKILL),
    "slurmdbd-stopped": _daemon("accounting", "slurmdbd", signal.SIGSTOP),
    "database-deleted": _pod_deleted(f"{names.DATABASE}-0"),
    "login-deleted": _pod_deleted(f"{names.LOGIN}-0"),
    "object-edited": _edited,
    "template-edited": _edited,
    "object-deleted": _deleted("Background"),
    "workers-orphaned": _deleted("Orphan"),
    "scaled-out": _scaled(1),
    "scaled-in": _scaled(-1),
    "person-drained": _by_person("drain", "bad-fan", "undrain"),
    "person-failed": _by_person("fail", "rma", "resume"),
    "check-failed": _check_failed,
    "slurmd-killed": _slurmd_killed,
    "node-cordoned": _cordoned,
    "kubelet-stopped": _node_program("kubelet"),
    "api-server-stopped": _node_program("kube-apiserver"),
    "status-contested": _status_contested,
    "queue-deep": _queue_deep,
}


def begin(cluster: Cluster, fault: Fault) -> Begun:
    """Begin a fault.

    Raises:
        CallFailed: it could not be done.
    """
    return INJECTIONS[fault.kind](cluster, fault)
