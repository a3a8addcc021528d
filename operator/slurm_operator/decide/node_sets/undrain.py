"""Ends of drains without a cause: those that the operator wrote, and those of new nodes."""

from __future__ import annotations

import datetime

from contract import reasons
from slurm_operator.actions import Drain, Undrain
from slurm_operator.decide.node_sets import features, update
from slurm_operator.decide.nodes.k8s_case import Case, case_of
from slurm_operator.decide.nodes.workers import NodeSetState, Worker
from slurm_operator.drains import Owner

READINESS_PATIENCE = datetime.timedelta(minutes=1)
"""A pod that has just found itself unfit is Ready to Kubernetes for a moment more."""


def actions(state: NodeSetState) -> list[Undrain | Drain]:
    """Return actions for drains without a cause: lift them, or call a node new while its pod is not up."""
    there = [worker for worker in without_cause(state) if _may_serve(worker)]
    return [Undrain(worker.name) if worker.is_up else Drain(worker.name, reasons.NEW) for worker in there]


def without_cause(state: NodeSetState) -> list[Worker]:
    """Nodes whose drain has no more cause; one that leaves, or whose pod ends, must not serve while it is removed."""
    there = [worker for worker in state.members() if worker.pod and not worker.pod.terminating]
    return [worker for worker in there if not _has_cause(state, worker)]


def _has_cause(state: NodeSetState, worker: Worker) -> bool:
    match worker.drain:
        case Owner.NEW:
            # A ready pod means that a jail probe succeeded.
            return not (worker.is_up and features.has_its_features(state, worker))
        case Owner.SCALE_IN:
            is_over = True
        case Owner.REPAIR:
            is_over = _is_repaired(state, worker)
        case Owner.UPDATE:
            is_over = not update.keeps(state, worker)
        case Owner.K8S_NODE:
            is_over = case_of(worker)[0] is Case.WELL and not _is_kept(worker)
        case _:
            return True
    return not (is_over and worker.has_registered)


def _is_kept(worker: Worker) -> bool:
    """Return True if nobody knows whether the condition still holds for which the node is drained."""
    if worker.node is None or worker.pod is None:
        return False
    return worker.conditions.keep(worker.node.reason, worker.pod.k8s_node)


def _is_repaired(state: NodeSetState, worker: Worker) -> bool:
    """Return True if a drain for a repair has no more cause: the pod is new, or no repair is noted any more."""
    if worker.repair or worker.node is None:
        return False
    made_anew = any(repair.node == worker.name for repair in state.node_set.restarts)
    return made_anew or (worker.node.reason_set or state.now) <= state.now - READINESS_PATIENCE


def _may_serve(worker: Worker) -> bool:
    """Return True if a node may take jobs: its pod can't be evicted, and its Kubernetes node is not to be emptied."""
    return not worker.is_evictable and case_of(worker)[0] in (Case.WELL, Case.UNKNOWN)
