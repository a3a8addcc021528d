"""Turns slurmrestd's answers into state."""

from __future__ import annotations

import datetime
import functools
import re

import msgspec

from contract import reasons
from slurm_operator.clients.slurm import hostlist
from slurm_operator.clients.slurm import slurmrestd_answers as answers
from slurm_operator.clients.slurm.slurm_error import SlurmError, Trouble
from slurm_operator.gres import canonical
from slurm_operator.state.slurm import (
    EVERY_NODE,
    Facts,
    Reservation,
    SeenCheckJob,
    SeenQuietJob,
    SlurmJob,
    SlurmNode,
    all_of,
)

_ADDED = re.compile(rf"(?: : ({'|'.join((reasons.NOT_RESPONDING, *reasons.REBOOTS))}))+$")
"""Endings that slurmctld adds to a node's reason for good: it was silent for SlurmdTimeout, or rebooted."""

LAST = datetime.datetime(9000, 1, 1, tzinfo=datetime.UTC)
"""Python has no date beyond the year 9999."""


def node(raw: msgspec.Raw) -> SlurmNode:
    """A node's record as state."""
    item = answers.decoded("node", raw, answers.Node)
    return SlurmNode(
        name=item.name,
        states=_states(item),
        reason=_reason(item),
        reason_user=item.reason_set_by_user,
        allocated_cpus=item.alloc_cpus,
        started=since(item.slurmd_start_time),
        reason_set=since(item.reason_changed_at),
        comment=item.comment,
        extra=item.extra,
        facts=_facts(item.cpus, item.real_memory, item.gres, tuple(item.options.items())),
        allocated_memory=item.alloc_memory,
        features=None if item.features is None else _shared(item.features),
        weight=item.weight,
        topology=item.topology,
    )


def _states(item: answers.Node) -> frozenset[str]:
    """Return a node's states, without REBOOT_ISSUED once Slurm has refused the slurmd that came after the reboot.

    slurmctld then leaves that flag for good, also after ResumeTimeout. It puts the cause in the place of the reason,
    which ended with "reboot issued" (26.05, validate_node_specs).
    """
    is_over = "INVALID_REG" in item.state and reasons.REBOOT_ISSUED not in item.reason
    return states(item.name, tuple(flag for flag in item.state if not (is_over and flag == "REBOOT_ISSUED")))


def _reason(item: answers.Node) -> str:
    """Return a node's reason without what Slurm added; of one that is DOWN alone that addition is the reason."""
    added = _ADDED.search(item.reason)
    if added and "DOWN" in item.state and not {"DRAIN", "FAIL"} & {*item.state}:
        return added[1]
    return _ADDED.sub("", item.reason)


@functools.lru_cache(1000)
def _facts(cpus: int | None, memory_mib: int | None, gres: str, options: tuple[tuple[str, int], ...]) -> Facts | None:
    """A record's size, the same object for all nodes of a kind."""
    if cpus is None or memory_mib is None:
        return None
    return Facts(cpus, memory_mib, "" if gres == "(null)" else canonical(gres), options)


def job(item: answers.Job) -> SlurmJob:
    """A job as state."""
    named = [_nodes_or_every(item.required_nodes), _nodes_or_every(item.excluded_nodes)]
    cpus = max(1, _given(item.minimum_cpus_per_node) or 1)
    memory = _given(item.memory_per_node)
    return SlurmJob(
        job_id=item.job_id,
        states=states(str(item.job_id), item.job_state),
        partitions=frozenset(item.partition.split(",")) - {""},
        nodes=_nodes_or_every(item.nodes),
        requeues=item.requeue and item.batch_flag,
        names=all_of(named),
        node_count=max(1, item.node_count.number) if item.node_count else 1,
        waits_for=item.state_reason,
        # Without a limit Slurm counts a year.
        ends=since(item.end_time) if item.time_limit is None or not item.time_limit.infinite else None,
        limit_minutes=_given(item.time_limit),
        account=item.account,
        qos=item.qos,
        cpus_per_node=cpus,
        memory_per_node=(_given(item.memory_per_cpu) or 0) * cpus if memory is None else memory,
    )


def check_job(item: answers.CheckJob) -> SeenCheckJob:
    """A job of a long check as state."""
    status = _given(item.exit_code.return_code) if item.exit_code else None
    seen = states(item.name, item.job_state)
    nodes = _nodes_or_every(item.required_nodes)
    return SeenCheckJob(item.name, item.user_id, nodes, seen, status, item.hold, item.comment)


def quiet_job(item: answers.QuietJob) -> SeenQuietJob:
    """A job that a node noted as quiet, as state."""
    moments = [moment for moment in (since(item.start_time), since(item.suspend_time)) if moment]
    return SeenQuietJob(
        job_id=item.job_id,
        states=states(str(item.job_id), item.job_state),
        partition=item.partition,
        nodes=_nodes_or_every(item.nodes),
        resumed=max(moments, default=None),
        requeues=item.requeue and item.batch_flag,
        excluded=_nodes_or_every(item.excluded_nodes),
        node_count=max(1, item.node_count.number) if item.node_count else 1,
        comment=item.admin_comment,
        held=item.hold,
    )


def reservation(item: answers.Reservation) -> Reservation:
    """A reservation as state; one whose nodes nobody can read hides no other."""
    nodes: frozenset[str] = EVERY_NODE
    unread = ""
    try:
        nodes = hostlist.expand(item.node_list)
    except ValueError as error:
        unread = str(error)
    return Reservation(
        name=item.name,
        nodes=nodes,
        starts=since(item.start_time) or moment(0),
        ends=since(item.end_time) or moment(0),
        users=item.users,
        accounts=item.accounts,
        flags=frozenset(item.flags),
        unread=unread,
    )


def _nodes_or_every(words: str) -> frozenset[str]:
    """The nodes of a hostlist; what nobody can read may be any."""
    try:
        return hostlist.expand(words)
    except ValueError:
        return EVERY_NODE


def _given(value: answers.Number | None) -> int | None:
    """A number, None if there is none or it is infinite."""
    return value.number if value is not None and value.set and not value.infinite else None


def since(value: answers.Number | None) -> datetime.datetime | None:
    """A time, None if there is none."""
    return moment(value.number) if value is not None and value.number else None


def moment(seconds: int) -> datetime.datetime:
    """A time of slurmctld's; LAST for a later one, since users may have a job begin in any year."""
    try:
        return datetime.datetime.fromtimestamp(min(seconds, int(LAST.timestamp())), datetime.UTC)
    except (OverflowError, ValueError, OSError) as error:
        raise SlurmError(Trouble.UNUSABLE, f"{seconds} is no time: {error}") from error


def states(of: str, states: tuple[str, ...]) -> frozenset[str]:
    """Return the states of a record as a set.

    Raises:
        SlurmError: there is none; `of` names the record in its words.
    """
    if not states:
        raise SlurmError(Trouble.UNUSABLE, f"{of} has no state")
    return _shared(states)


@functools.lru_cache(1000)
def _shared(words: tuple[str, ...]) -> frozenset[str]:
    """Return the words as a set, the same object for the same words: thousands of nodes and jobs share a few sets."""
    return frozenset(words)
