"""slurmrestd's answers: their shape, as far as decisions need it, and what they say as state.

What grows with nodes or jobs is decoded into small records; the rest of an answer makes no objects.
"""

from __future__ import annotations

import datetime
import functools
import re
from collections.abc import Mapping
from typing import TypeVar

import httpx
import msgspec

from contract import reasons
from slurm_operator.clients import hostlist
from slurm_operator.clients.slurm_error import SlurmError, Trouble
from slurm_operator.gres import canonical
from slurm_operator.state.slurm import EVERY_NODE, Facts, SeenCheckJob, SlurmJob, SlurmNode
from slurm_operator.state.slurm import Reservation as SlurmReservation

_SLURMCTLD_AWAY = frozenset({*range(1800, 1806), 1900, *range(5003, 5006)})
"""No connection to slurmctld, or one that it did not answer on to the end (slurm_errno.h)."""
_ADDED = re.compile(rf"( : ({'|'.join((reasons.NOT_RESPONDING, *reasons.REBOOTS))}))+$")
"""Endings that slurmctld adds to a node's reason for good: it was silent for SlurmdTimeout, or rebooted."""

_T = TypeVar("_T")


class Problem(msgspec.Struct):
    """One of Slurm's errors (slurm_errno.h)."""

    description: str = ""
    error: str = ""
    error_number: int = 0


class Number(msgspec.Struct, gc=False):
    """A number that may be missing, or infinite."""

    set: bool = False
    infinite: bool = False
    number: int = 0


class Answer(msgspec.Struct):
    """The fields that every answer has."""

    errors: list[Problem]


class Node(msgspec.Struct):
    """A node's record, as far as it matters."""

    name: str
    state: tuple[str, ...]
    reason: str
    reason_set_by_user: str
    alloc_cpus: int
    alloc_memory: int = 0
    comment: str = ""
    extra: str = ""
    cpus: int | None = None
    real_memory: int | None = None
    gres: str = ""
    slurmd_start_time: Number | None = None
    reason_changed_at: Number | None = None
    features: tuple[str, ...] | None = None
    weight: int | None = None
    topology: str | None = None
    sockets: int = 0
    cores: int = 0
    threads: int = 0
    specialized_cores: int = 0
    specialized_memory: int = 0
    res_cores_per_gpu: int = 0
    temporary_disk: int = 0

    @property
    def options(self) -> Mapping[str, int]:
        """Keys of its line in slurm.conf, as nodeSets[].options has them, and their values."""
        return {
            "Sockets": self.sockets,
            "CoresPerSocket": self.cores,
            "ThreadsPerCore": self.threads,
            "CoreSpecCount": self.specialized_cores,
            "MemSpecLimit": self.specialized_memory,
            "RestrictedCoresPerGPU": self.res_cores_per_gpu,
            "TmpDisk": self.temporary_disk,
        }


class Nodes(Answer):
    """An answer about nodes, which are decoded one by one: there may be thousands."""

    nodes: list[msgspec.Raw] | None = None
    last_update: Number | None = None


class State(msgspec.Struct, gc=False):
    """A job's id and state."""

    job_id: str | int
    state: tuple[str, ...]


class States(Answer):
    """An answer about states of jobs."""

    jobs: list[State] | None = None


class Job(msgspec.Struct):
    """A job, as far as it matters."""

    job_id: int
    job_state: tuple[str, ...]
    nodes: str
    partition: str
    requeue: bool = False
    batch_flag: bool = False
    required_nodes: str = ""
    excluded_nodes: str = ""
    node_count: Number | None = None
    state_reason: str = ""
    end_time: Number | None = None
    time_limit: Number | None = None
    account: str = ""
    qos: str = ""
    minimum_cpus_per_node: Number | None = None
    memory_per_cpu: Number | None = None
    memory_per_node: Number | None = None


class Ended(msgspec.Struct):
    """The end of a job's program."""

    return_code: Number | None = None


class CheckJob(msgspec.Struct):
    """A job of a long check, as far as it matters."""

    name: str
    user_id: int
    job_state: tuple[str, ...]
    required_nodes: str = ""
    exit_code: Ended | None = None
    hold: bool = False


class CheckJobs(Answer):
    """An answer about a job of a long check."""

    jobs: list[CheckJob] | None = None


class Submitted(Answer):
    """An answer to a submission."""

    job_id: int | None = None


class Jobs(Answer):
    """An answer about jobs."""

    jobs: list[Job] | None = None


class Reservation(msgspec.Struct):
    """A reservation, as far as it matters."""

    name: str
    node_list: str = ""
    start_time: Number | None = None
    end_time: Number | None = None
    users: str = ""
    accounts: str = ""
    flags: tuple[str, ...] = ()


class Reservations(Answer):
    """An answer about reservations."""

    reservations: list[Reservation] | None = None


class User(msgspec.Struct):
    """An account's AdminLevel."""

    name: str
    administrator_level: list[str]


class Users(Answer):
    """An answer of slurmdbd about users."""

    users: list[User] | None = None


class Statistics(msgspec.Struct):
    """Counts of slurmctld's jobs."""

    jobs_pending: int
    jobs_running: int
    job_states_ts: Number
    req_time: Number | None = None


class Diagnosis(Answer):
    """An answer about slurmctld itself."""

    statistics: Statistics | None = None


class PartitionState(msgspec.Struct):
    """The state of a partition: it takes jobs when it is UP."""

    state: tuple[str, ...] = ()


class Partition(msgspec.Struct):
    """A partition."""

    name: str
    partition: PartitionState


class Partitions(Answer):
    """An answer about partitions."""

    partitions: list[Partition] | None = None


def checked(call: str, status: int, content: bytearray) -> bytearray | None:
    """Return the body of an answer without errors, None for 'not modified'."""
    if status == httpx.codes.NOT_MODIFIED:
        return None
    if status in (httpx.codes.UNAUTHORIZED, httpx.codes.FORBIDDEN):
        raise SlurmError(Trouble.FORBIDDEN, f"{call}: slurmrestd does not accept our token ({status})")
    try:
        errors = msgspec.json.decode(content, type=Answer).errors
    except msgspec.ValidationError as error:
        shape = f"{call}: HTTP {status} with an answer of another shape: {error}"
        raise SlurmError(Trouble.UNUSABLE, shape) from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        if status == httpx.codes.SERVICE_UNAVAILABLE:
            away = f"{call}: the proxy in front of slurmrestd does not reach it"
            raise SlurmError(Trouble.UNREACHABLE, away) from error
        no_json = f"{call}: HTTP {status} with an answer that is no JSON"
        raise SlurmError(Trouble.UNUSABLE, no_json) from error
    if errors:
        words = "; ".join(f"{error.description}: {error.error}" for error in errors)
        numbers = frozenset(error.error_number for error in errors)
        is_away = bool(numbers & _SLURMCTLD_AWAY)
        raise SlurmError(Trouble.CONTROLLER_AWAY if is_away else Trouble.REFUSED, words, numbers)
    if httpx.codes.is_error(status):
        silent = f"{call}: HTTP {status} without the errors that the API promises"
        raise SlurmError(Trouble.UNUSABLE, silent)
    return content


def decoded(call: str, content: bytearray | msgspec.Raw, kind: type[_T]) -> _T:
    """Decode an answer into one kind of record."""
    try:
        return msgspec.json.decode(content, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise SlurmError(Trouble.UNUSABLE, f"{call}: {error}") from error


def listed(call: str, items: list[_T] | None) -> list[_T]:
    """The list of an answer, which has to have one."""
    if items is None:
        raise SlurmError(Trouble.UNUSABLE, f"{call}: the answer holds no list of them")
    return items


def node(raw: msgspec.Raw) -> SlurmNode:
    """A node's record as state."""
    item = decoded("node", raw, Node)
    return SlurmNode(
        name=item.name,
        states=states(item.name, item.state),
        reason=_ADDED.sub("", item.reason),
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


@functools.lru_cache(1000)
def _facts(cpus: int | None, memory_mib: int | None, gres: str, options: tuple[tuple[str, int], ...]) -> Facts | None:
    """A record's size, the same object for all nodes of a kind."""
    if cpus is None or memory_mib is None:
        return None
    return Facts(cpus, memory_mib, "" if gres == "(null)" else canonical(gres), options)


def job(item: Job) -> SlurmJob:
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
        names=EVERY_NODE if any(nodes is EVERY_NODE for nodes in named) else frozenset().union(*named),
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


def check_job(item: CheckJob) -> SeenCheckJob:
    """A job of a long check as state."""
    status = _given(item.exit_code.return_code) if item.exit_code else None
    seen = states(item.name, item.job_state)
    return SeenCheckJob(item.name, item.user_id, item.required_nodes, seen, status, held=item.hold)


def reservation(item: Reservation) -> SlurmReservation:
    """A reservation as state.

    Raises:
        SlurmError: nobody can read its nodes.
    """
    try:
        nodes = hostlist.expand(item.node_list)
    except ValueError as error:
        raise SlurmError(Trouble.UNUSABLE, f"reservation {item.name}: {error}") from error
    return SlurmReservation(
        name=item.name,
        nodes=nodes,
        starts=since(item.start_time) or moment(0),
        ends=since(item.end_time) or moment(0),
        users=item.users,
        accounts=item.accounts,
        flags=frozenset(item.flags),
    )


def _nodes_or_every(words: str) -> frozenset[str]:
    """The nodes of a hostlist; what nobody can read may be any."""
    try:
        return hostlist.expand(words)
    except ValueError:
        return EVERY_NODE


def _given(value: Number | None) -> int | None:
    """A number, None if there is none or it is infinite."""
    return value.number if value is not None and value.set and not value.infinite else None


def since(value: Number | None) -> datetime.datetime | None:
    """A time, None if there is none."""
    return moment(value.number) if value is not None and value.number else None


def moment(seconds: int) -> datetime.datetime:
    """A time of slurmctld's."""
    try:
        return datetime.datetime.fromtimestamp(seconds, datetime.UTC)
    except (OverflowError, ValueError, OSError) as error:
        raise SlurmError(Trouble.UNUSABLE, f"{seconds} is no time: {error}") from error


def states(of: str, states: tuple[str, ...]) -> frozenset[str]:
    """The states of what is named `of`, which has to have one."""
    if not states:
        raise SlurmError(Trouble.UNUSABLE, f"{of} has no state")
    return _shared(states)


@functools.lru_cache(1000)
def _shared(words: tuple[str, ...]) -> frozenset[str]:
    """Few combinations of states, and of features, are shared by many nodes and jobs."""
    return frozenset(words)
