"""Ends of drains without a cause: those that the operator wrote, those of new nodes, and one that Slurm leaves."""

from __future__ import annotations

from contract import reasons
from contract.conditions import Reason
from slurm_operator import drains
from slurm_operator.actions import Drain, Undrain
from slurm_operator.decide.node_sets import features, remediate, update
from slurm_operator.decide.nodes.k8s_case import Case, case_of
from slurm_operator.decide.nodes.workers import NodeSetState, Worker
from slurm_operator.drains import Owner
from slurm_operator.findings import Finding, shown, under_way

_COMES_BACK = (Owner.NEW, Owner.REPAIR, Owner.K8S_NODE, Owner.UNTESTED, Owner.SLURM)
"""Drains after which a node is tested first, if a long check comes before its jobs."""


def actions(state: NodeSetState) -> list[Undrain | Drain]:
    """Return actions for drains without a cause: lift them, or call a node new or untested while it is that."""
    return [_next(state, worker) for worker in without_cause(state) if _may_serve(worker)]


def _next(state: NodeSetState, worker: Worker) -> Undrain | Drain:
    if not worker.is_up:
        return Drain(worker.name, reasons.NEW)
    # A node whose jobs ran on was not repaired meanwhile.
    worked_on = worker.drain is Owner.K8S_NODE and worker.has_work
    if state.first_checks and worker.drain in _COMES_BACK and not worked_on:
        return Drain(worker.name, f"{reasons.UNTESTED}{state.first_checks[0]}")
    return Undrain(worker.name)


def without_cause(state: NodeSetState) -> list[Worker]:
    """Nodes whose drain has no more cause; one that leaves, or whose pod ends, must not serve while it is removed."""
    there = [worker for worker in state.members() if worker.pod and not worker.pod.terminating]
    return [worker for worker in there if not _has_cause(state, worker)]


def _has_cause(state: NodeSetState, worker: Worker) -> bool:
    match worker.drain:
        case Owner.NEW:
            # A ready pod means that a jail probe succeeded.
            return not (worker.is_up and features.has_its_features(state, worker))
        case Owner.SLURM:
            # It is in the place of a new node's drain.
            is_well = worker.is_up and features.has_its_features(state, worker)
            is_over = is_well and worker.node is not None and drains.is_left_by_slurm(worker.node)
        case Owner.SCALE_IN:
            is_over = True
        case Owner.UNTESTED:
            reason = worker.node.reason if worker.node else ""
            is_over = reason.removeprefix(reasons.UNTESTED) not in state.first_checks
        case Owner.UPDATE:
            is_over = not update.keeps(state, worker)
        case Owner.REPAIR | Owner.K8S_NODE:
            is_over = remediate.is_over(state, worker)
        case _:
            return True
    return not (is_over and worker.has_registered)


def untested(state: NodeSetState) -> list[Finding]:
    """Return a finding about the nodes that wait for a long check to pass; else none."""
    there = [worker.node for worker in state.expected() if worker.node and worker.drain is Owner.UNTESTED]
    words = [f"{node.name} ({node.reason.removeprefix(reasons.UNTESTED)})" for node in there]
    told = f"nodes take jobs when their long check has passed: {shown(words, 5)}"
    return [under_way(Reason.NODES_UNTESTED, told)] if there else []


def _may_serve(worker: Worker) -> bool:
    """Return whether a node may take jobs: Slurm takes it, its pod can't be evicted, its Kubernetes node is well."""
    if worker.node and "INVALID_REG" in worker.node.states:
        return False
    return not worker.is_evictable and case_of(worker)[0] in (Case.WELL, Case.UNKNOWN)
