"""Slurm's state of a node, and the verdict of its checks, as conditions of its pod."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterable

from contract import names, reasons
from slurm_operator import drains
from slurm_operator.decide.nodes import notes, slurm_nodes
from slurm_operator.decide.nodes.workers import is_record_of
from slurm_operator.drains import Owner
from slurm_operator.state.kubernetes import Pod, PodCondition
from slurm_operator.state.slurm import Nodes, SlurmNode

TYPE = names.POD_CONDITION
HEALTH = names.POD_HEALTH
MOST_SERVING = 5
"""Changes such as Idle to Allocated that a pass writes: with short jobs, thousands of nodes change all the time."""
_SERVING = 2
NOT_REGISTERED = PodCondition("False", "NotRegistered", "slurmctld has no record of this pod's slurmd yet")
NOT_CHECKED = PodCondition("Unknown", "NotChecked", "no check of this pod is known yet")
NOT_READY = PodCondition("Unknown", "NotReady", "the pod is not Ready: node-health there says why")
PASSED = PodCondition("True", "ChecksPassed")
_BASES = ("DOWN", "ERROR", "FUTURE", "UNKNOWN", "ALLOCATED", "MIXED", "IDLE")
_SILENT = frozenset({"DYNAMIC_NORM", "DYNAMIC_FUTURE", "CLOUD", "EXTERNAL", "PLANNED"})
"""Flags that say where a record came from, or what the scheduler thinks of next."""


@dataclasses.dataclass(frozen=True, slots=True)
class Told:
    """A change of a pod's conditions: Slurm's state of its node, and the verdict of the checks."""

    pod: str
    uid: str
    slurm: PodCondition
    health: PodCondition


def wanted(pod: Pod, node: SlurmNode | None) -> PodCondition | None:
    """The condition that a pod should have; None if there is nothing to say of it yet, or any more."""
    if pod.terminating:
        return None
    if node is None or not is_record_of(node, pod):
        return NOT_REGISTERED if pod.running else None
    takes_jobs = "True" if slurm_nodes.is_usable(node) else "False"
    return PodCondition(takes_jobs, _word(node.states, working=slurm_nodes.has_work(node)), _message(node))


def health(pod: Pod, node: SlurmNode | None) -> PodCondition:
    """The verdict of the node's own checks, as far as the node told slurmctld."""
    if node is None or not is_record_of(node, pod):
        return NOT_CHECKED
    if drains.owner(node) in (Owner.UNFIT, Owner.REPAIR, Owner.LONG_CHECK):
        return PodCondition("False", *_failed(drains.fault(node)))
    note = notes.read(node.extra)
    if not pod.ready or note.check:
        return NOT_READY
    if not note.warned:
        return PASSED
    return PodCondition("Unknown" if reasons.UNCHECKED in note.warned else "True", "Warning", note.warned)


def verdict(pod: Pod, node: SlurmNode | None) -> str:
    """The same in one word of node-health: PASS, WARNING, FAIL or UNKNOWN."""
    said = health(pod, node)
    if said.status != "True":
        return "FAIL" if said.status == "False" else "UNKNOWN"
    return "PASS" if said == PASSED else "WARNING"


def _failed(fault: str) -> tuple[str, str]:
    """Return the check that drained a node in one word, and its evidence."""
    check, _, evidence = fault.removeprefix(reasons.PREFIX).removeprefix("health ").partition(": ")
    return "".join(word.title() for word in check.split()), evidence


def changes(pods: Iterable[Pod], nodes: Nodes, most: int, after: str = "") -> list[Told]:
    """Return the conditions to write now: first those whose status changes, then those of nodes that take no jobs.

    Args:
        pods: a cluster's workers.
        nodes: Slurm's nodes.
        most: how many are written at once.
        after: the pod that was told last: the next ones come first, so that busy nodes hide no other.
    """
    ranked = []
    for pod in pods:
        slurm = wanted(pod, nodes.get(pod.name))
        if slurm is None:
            continue
        checked = health(pod, nodes.get(pod.name))
        if slurm == pod.slurm and checked == pod.health:
            continue
        turns = _turns(pod.slurm, slurm) or _turns(pod.health, checked)
        serves = slurm.status != "False" and checked == pod.health
        rank = 0 if turns else _SERVING if serves else 1
        told = Told(pod.name, pod.uid, _since(pod.slurm, slurm), _since(pod.health, checked))
        ranked.append(((rank, pod.name <= after, pod.name), told))
    ranked.sort(key=lambda row: row[0])
    telling = [told for (rank, *_), told in ranked if rank != _SERVING]
    serving = [told for (rank, *_), told in ranked if rank == _SERVING]
    return [*telling, *serving[:MOST_SERVING]][:most]


def _turns(before: PodCondition | None, now: PodCondition) -> bool:
    return before is None or before.status != now.status


def _since(before: PodCondition | None, now: PodCondition) -> PodCondition:
    """The condition with the time since which its status is so; without one it is new."""
    return now if before is None or _turns(before, now) else dataclasses.replace(now, since=before.since)


@functools.lru_cache(1000)
def _word(states: frozenset[str], *, working: bool) -> str:
    """Slurm's state in one word: as sinfo says it, then other flags, as in DrainedDown or IdleNotResponding."""
    base = next((state for state in _BASES if state in states), "UNKNOWN")
    said = {base}
    if states & {"DRAIN", "FAIL"}:
        drain, fail = ("DRAINING", "FAILING") if working else ("DRAINED", "FAIL")
        word, said = (drain, {"DRAIN"}) if "DRAIN" in states else (fail, {"FAIL"})
        said = said | {"ALLOCATED", "MIXED", "IDLE", "COMPLETING"}
    else:
        word = base
    return "".join(flag.title().replace("_", "") for flag in (word, *sorted(states - said - _SILENT)))


def _message(node: SlurmNode) -> str:
    """Slurm's reason with who set it, and when."""
    if not node.reason:
        return ""
    since = f"@{node.reason_set:%Y-%m-%dT%H:%M:%SZ}" if node.reason_set else ""
    return f"{node.reason} [{node.reason_user or drains.UNKNOWN_AUTHOR}{since}]"
