"""Promises under each pair of flags of a node: no job, no person's word and no named record goes.

The real decision runs for each. What it must not do is judged here anew, from the words of slurm.h alone.
"""

from __future__ import annotations

import dataclasses
import datetime
import itertools
from collections.abc import Iterable, Iterator

import pytest
from slurm_operator.actions import (
    Action,
    Comment,
    DeletePod,
    DeleteRecord,
    Drain,
    DrainDown,
    NodeAction,
    Purpose,
    RequeueJobs,
    SetEvictable,
    SetReplicas,
    Undrain,
    UndrainReserved,
    UpdateNode,
)
from slurm_operator.decide.node_sets import preconditions
from slurm_operator.decide.node_sets.node_set import decide
from slurm_operator.decide.nodes import slurm_nodes
from slurm_operator.decide.nodes.workers import NodeSetState
from slurm_operator.state.kubernetes import K8sNode
from slurm_operator.state.resources import RemovalPolicy, Restart, UpdatePolicy
from slurm_operator.state.slurm import Facts, FullListing, Named, SlurmJob, SlurmNode

from contract import reasons
from contract.policies import ReactionPolicy
from tests.operator.states.sets import NOW, changed, job, node_set, pod

NAME = "cpu-0"
BASES = ("UNKNOWN", "DOWN", "IDLE", "ALLOCATED", "ERROR", "MIXED", "FUTURE")
FLAGS = (
    *("EXTERNAL", "RESERVED", "UNDRAIN", "CLOUD", "RESUME", "DRAIN", "COMPLETING", "NOT_RESPONDING", "POWERED_DOWN"),
    *("FAIL", "POWERING_UP", "MAINTENANCE", "REBOOT_REQUESTED", "REBOOT_CANCELED", "POWERING_DOWN", "DYNAMIC_FUTURE"),
    *("REBOOT_ISSUED", "PLANNED", "INVALID_REG", "POWER_DOWN", "POWER_UP", "POWER_DRAIN", "DYNAMIC_NORM", "BLOCKED"),
    *("INVALID", "A_FLAG_OF_TOMORROW"),
)
"""NODE_STATES of slurmrestd's v0.0.45 (src/plugins/data_parser), and one that it has not."""
NO_CLAIM = {"DRAIN", "FAIL", "DYNAMIC_NORM", "CLOUD", "NOT_RESPONDING", "INVALID_REG", "BLOCKED"}
"""Flags under which nobody counts on a node without jobs."""
RESTARTS_TOO = {"RESERVED", "MAINTENANCE"}
LONG_AGO = NOW - datetime.timedelta(hours=2)
WORDS = {
    "ours": (reasons.SCALE_IN, "slurm"),
    "an update's": (reasons.UPDATE, "slurm"),
    "a repair's": (f"{reasons.REPAIR}jail: x", "slurm"),
    "its own": (f"{reasons.JAIL}: x", "root"),
    "a long check's": (f"{reasons.LONG_CHECK}disk: slow", "slurm"),
    "none": ("", ""),
    "a person's": ("bad fan", "alice"),
    "a person's, in our words": (reasons.UPDATE, "alice"),
}
PERSONS = ("a person's", "a person's, in our words")
JOBS: dict[str, tuple[tuple[int, int], tuple[SlurmJob, ...]]] = {
    "no job": ((0, 0), ()),
    "a running job": ((1, 1), ()),
    "a suspended job": ((0, 1), ()),
    "a job that the listing alone shows": ((0, 0), (job(1, "SUSPENDED", NAME),)),
}


def records() -> Iterator[tuple[str, SlurmNode, tuple[SlurmJob, ...]]]:
    """Each base state with each flag, and the usual ones with each pair of flags: whose word, record and jobs.

    Whose word it is counts for a node that is out of service.
    """
    for base in BASES:
        for flags in itertools.chain.from_iterable(itertools.combinations(FLAGS, n) for n in (0, 1)):
            for whose in WORDS if base == "DOWN" or {"DRAIN", "FAIL"} & {*flags} else ("none",):
                yield from _with_jobs(whose, {base, *flags}, JOBS)
    for base, flags in itertools.product(("IDLE", "DOWN"), itertools.combinations(FLAGS, 2)):
        whose_words = WORDS if {"DRAIN", "FAIL"} & {*flags} else ("none", "a person's")
        for whose in whose_words if base == "DOWN" or whose_words is WORDS else ("none",):
            yield from _with_jobs(whose, {base, *flags}, ("no job", "a job that the listing alone shows"))


def _with_jobs(
    whose: str, states: set[str], jobs: Iterable[str]
) -> Iterator[tuple[str, SlurmNode, tuple[SlurmJob, ...]]]:
    reason, user = WORDS[whose]
    bare = SlurmNode(NAME, frozenset(states), reason, user, reason_set=LONG_AGO, facts=Facts(4, 2000))
    for shown, listed in (JOBS[title] for title in jobs):
        yield whose, dataclasses.replace(bare, allocated_cpus=shown[0], allocated_memory=shown[1]), listed


def has_job(node: SlurmNode, jobs: Iterable[SlurmJob] = ()) -> bool:
    allocated = node.allocated_cpus or node.allocated_memory
    return bool(allocated or [*jobs] or node.states & {"ALLOCATED", "MIXED", "COMPLETING"})


def is_persons(whose: str, node: SlurmNode) -> bool:
    """Return whether somebody else than the operator took the node out of service."""
    drained = "DRAIN" in node.states
    return "FAIL" in node.states or (whose == "none" and drained) or (whose in PERSONS and not is_in_service(node))


def is_in_service(node: SlurmNode) -> bool:
    return not node.states & {"DRAIN", "FAIL", "DOWN"}


def takes_jobs(node: SlurmNode) -> bool:
    """Return whether Slurm may start a job on the node as soon as its slurmd registers: DOWN alone does not last."""
    return not node.states & {"DRAIN", "FAIL"}


def is_claimed(node: SlurmNode, *but: str) -> bool:
    """Return whether a flag says that somebody counts on the node."""
    return not node.states <= NO_CLAIM | {"IDLE", "DOWN", *but}


def harm(action: Action, whose: str, node: SlurmNode, *, busy: bool, named: bool = False, ends: bool = False) -> str:
    """Return what an action would do that nothing may do; empty if it is harmless.

    Args:
        action: the action.
        whose: whose word the node carries.
        node: its record.
        busy: a job is there.
        named: a job or a reservation names the node.
        ends: its node set is being deleted.
    """
    persons = is_persons(whose, node)
    match action:
        case SetReplicas(replicas=replicas, was=was) if replicas < was:
            # A node's own drain is lifted by the node itself, at any moment.
            returns = takes_jobs(node) or (whose == "its own" and not persons)
            return "ends a pod that may get a job" if busy or returns or is_claimed(node) else ""
        case SetEvictable(evictable=True):
            return "lets a pod go that may get a job" if busy or takes_jobs(node) or is_claimed(node) else ""
        case DeletePod(purpose=Purpose.REBOOT):
            claimed = is_claimed(node, "REBOOT_ISSUED", *RESTARTS_TOO)
            return "restarts what nobody rebooted" if busy or claimed or "REBOOT_ISSUED" not in node.states else ""
        case DeletePod(forget=forget):
            if busy or takes_jobs(node) or is_claimed(node, *RESTARTS_TOO):
                return "restarts a pod that may get a job"
            return "restarts under a person's word" if persons else "forgets a named record" * (forget and named)
        case DeleteRecord():
            if busy or named or is_in_service(node) or "EXTERNAL" in node.states:
                return "deletes a record that somebody needs"
            return "deletes a person's word" * (persons and not ends)
        case DrainDown():
            return "" if persons and takes_jobs(node) else "drains under no person's word"
        case UndrainReserved():
            return "lets another job on a node" * (persons or busy or whose != "a long check's")
        case Drain() | Undrain():
            return "changes a person's word" * (persons or (whose == "a long check's" and not takes_jobs(node)))
        case RequeueJobs():
            return "takes jobs from a node" * (persons or whose not in ("ours", "an update's"))
        case Comment() | UpdateNode() | SetEvictable() | SetReplicas():
            return ""
    return f"an action that nothing here judges: {action}"


WELL, CORDONED, AWAY = K8sNode(), K8sNode(cordoned=True), K8sNode(away_since=LONG_AGO)
SIZE = Facts(2, 1000)


def cpu(wanted: int, current: int = 1, k8s_node: K8sNode = WELL, **more: object) -> NodeSetState:
    """A node set that repairs, updates and replaces as soon as it may."""
    old = pod(NAME, created=LONG_AGO, k8s_node="k8s", revision="old", uid="7")
    reactions = ReactionPolicy(restart=True, replace=True, after_seconds=60)
    policies = {"reactions": reactions, "update": UpdatePolicy(max_unavailable=9), "removal": RemovalPolicy()}
    state = node_set(wanted, current, [old] * current, NOW, k8s_nodes={"k8s": k8s_node}, revision="old")
    return changed(state, **{**policies, **more})


NOTED = Restart(NAME, NOW - datetime.timedelta(minutes=1))
SETS: dict[str, tuple[NodeSetState, set[type]]] = {
    "stays": (cpu(1), {Undrain, DrainDown}),
    "leaves": (cpu(0), {SetReplicas, Drain, DrainDown}),
    "leaves, and its deadline is over": (cpu(0, removal=RemovalPolicy(60)), {SetReplicas, RequeueJobs}),
    "is gone": (cpu(0, 0), {DeleteRecord, Drain}),
    "is gone with its set": (cpu(0, 0, deleting=True), {DeleteRecord, Drain}),
    "is of an older template": (cpu(1, revision="new"), {DeletePod, Drain}),
    "is of an older template and another size": (cpu(1, revision="new", facts=SIZE), {DeletePod}),
    "has a record of another size": (cpu(1, facts=SIZE), {DeletePod, Drain, Undrain}),
    "is cordoned": (cpu(1, k8s_node=CORDONED), {SetEvictable, Drain}),
    "is on a lost machine": (cpu(1, k8s_node=AWAY, restarts=(dataclasses.replace(NOTED, replace=True),)), {Drain}),
    "is to be repaired": (cpu(1, restarts=(NOTED,)), {DeletePod, Drain}),
}
"""A node's lot → its set, and actions that some records have there. A decision that never acts would else pass."""


@pytest.mark.parametrize("case", SETS)
def test_no_decision_harms_a_job_a_persons_word_or_a_named_record(case: str) -> None:
    (size, expected), done = SETS[case], set[type]()
    for whose, node, jobs in records():
        listing, ends = {NAME: node}, size.node_set.deleting
        for named in (False, True) if size.facts or not size.current else (False,):
            names = frozenset({NAME} if named else ())
            full = FullListing(listing, jobs, Named(names, names))
            for action in decide(size.seen(slurm_nodes.with_jobs(listing, jobs), full, jobs)).actions:
                done.add(type(action))
                told = harm(action, whose, node, busy=has_job(node, jobs), named=named, ends=ends)
                assert not told, f"{told}: {action} of {node}, {jobs}, named: {named}"
    assert done >= expected


SCALE_IN = SetReplicas("cpu", 0, 1, "7", (NAME,))
POD = [
    DeletePod(NAME, "7", purpose, f"{reasons.JAIL}: x") for purpose in (Purpose.UPDATE, Purpose.ANEW, Purpose.REBOOT)
]
OTHERS: list[NodeAction] = [
    *(Drain(NAME, reason) for reason in (reasons.SCALE_IN, reasons.UPDATE, reasons.NEW, f"{reasons.NODE}x")),
    *(DrainDown(NAME), Undrain(NAME), UndrainReserved(NAME, WORDS["a long check's"][0], "retry")),
    *(DeleteRecord(NAME), DeleteRecord(NAME, anothers=True), RequeueJobs(NAME), Comment(NAME, "x")),
]


def test_the_last_look_before_an_action_refuses_what_would_harm() -> None:
    """A record may have changed since the decision, to any other."""
    done = set[Action]()
    for whose, node, jobs in records():
        if jobs:
            continue  # The last look is at the record alone.
        held = [each for each in OTHERS if preconditions.hold(each, node)]
        held_pods = [each for each in POD if preconditions.pod_may_end(each, node)]
        leaves = [SCALE_IN] * slurm_nodes.may_leave(node)
        for action in (*held, *held_pods, *leaves):
            done.add(action)
            ends = isinstance(action, DeleteRecord) and action.anothers
            # What asks Slurm to end jobs, or to take no more, may meet some.
            told = harm(action, whose, node, busy=has_job(node), ends=ends)
            assert not told, f"{told}: {action} of {node}"
    assert done == {SCALE_IN, *POD, *OTHERS}
