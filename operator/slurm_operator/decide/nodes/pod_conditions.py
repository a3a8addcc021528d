"""Slurm's state of a node as a condition of its pod, so that whoever looks at the pod sees it."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterable

from contract import names
from slurm_operator.decide.nodes import slurm_nodes
from slurm_operator.decide.nodes.workers import is_record_of
from slurm_operator.findings import UNKNOWN_AUTHOR
from slurm_operator.state import Nodes, Pod, PodCondition, SlurmNode

TYPE = names.POD_CONDITION
MOST_SERVING = 5
"""Changes such as Idle to Allocated that a pass writes: with short jobs, thousands of nodes change all the time."""
_SERVING = 2
NOT_REGISTERED = PodCondition("False", "NotRegistered", "slurmctld has no record of this pod's slurmd yet")
_BASES = ("DOWN", "ERROR", "FUTURE", "UNKNOWN", "ALLOCATED", "MIXED", "IDLE")
_SILENT = frozenset({"DYNAMIC_NORM", "DYNAMIC_FUTURE", "CLOUD", "EXTERNAL", "PLANNED"})
"""Flags that say where a record came from, or what the scheduler thinks of next."""


@dataclasses.dataclass(frozen=True, slots=True)
class Told:
    """A change of a pod's condition."""

    pod: str
    uid: str
    condition: PodCondition


def wanted(pod: Pod, node: SlurmNode | None) -> PodCondition | None:
    """The condition that a pod should have; None if there is nothing to say of it yet, or any more."""
    if pod.terminating:
        return None
    if node is None or not is_record_of(node, pod):
        return NOT_REGISTERED if pod.running else None
    takes_jobs = "True" if slurm_nodes.is_usable(node) else "False"
    return PodCondition(takes_jobs, _word(node.states, working=slurm_nodes.has_work(node)), _message(node))


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
        condition = wanted(pod, nodes.get(pod.name))
        if condition is None or condition == pod.slurm:
            continue
        turns = pod.slurm is None or pod.slurm.status != condition.status
        rank = 0 if turns else 1 if condition.status == "False" else _SERVING
        since = "" if turns or pod.slurm is None else pod.slurm.since
        told = Told(pod.name, pod.uid, dataclasses.replace(condition, since=since))
        ranked.append(((rank, pod.name <= after, pod.name), told))
    ranked.sort(key=lambda row: row[0])
    telling = [told for (rank, *_), told in ranked if rank != _SERVING]
    serving = [told for (rank, *_), told in ranked if rank == _SERVING]
    return [*telling, *serving[:MOST_SERVING]][:most]


@functools.lru_cache(1000)
def _word(states: frozenset[str], *, working: bool) -> str:
    """Slurm's state in one word: as sinfo says it, then other flags, as in DrainedDown or IdleNotResponding."""
    base = next((state for state in _BASES if state in states), "UNKNOWN")
    said = {base}
    if states & {"DRAIN", "FAIL"}:
        drains, fails = ("DRAINING", "FAILING") if working else ("DRAINED", "FAIL")
        word, said = (drains, {"DRAIN"}) if "DRAIN" in states else (fails, {"FAIL"})
        said = said | {"ALLOCATED", "MIXED", "IDLE", "COMPLETING"}
    else:
        word = base
    return "".join(map(_camel, [word, *sorted(states - said - _SILENT)]))


def _camel(word: str) -> str:
    return word.title().replace("_", "")


def _message(node: SlurmNode) -> str:
    """Slurm's reason with who set it, and when."""
    if not node.reason:
        return ""
    since = f"@{node.reason_set:%Y-%m-%dT%H:%M:%SZ}" if node.reason_set else ""
    return f"{node.reason} [{node.reason_user or UNKNOWN_AUTHOR}{since}]"
