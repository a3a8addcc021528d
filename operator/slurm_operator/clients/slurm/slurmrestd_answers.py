"""slurmrestd's answers: their shape, as far as decisions need it, and their errors.

What grows with nodes or jobs is decoded into small records; the rest of an answer makes no objects.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

import httpx
import msgspec

from slurm_operator.clients.slurm.slurm_error import SlurmError, Trouble

_SLURMCTLD_AWAY = frozenset({*range(1800, 1806), 1900, *range(5003, 5006)})
"""No connection to slurmctld, or one that it did not answer on to the end (slurm_errno.h)."""
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
    comment: str = ""


class QuietJob(msgspec.Struct):
    """A job that a node noted as quiet, as far as it matters."""

    job_id: int
    job_state: tuple[str, ...]
    nodes: str
    partition: str
    requeue: bool = False
    batch_flag: bool = False
    excluded_nodes: str = ""
    node_count: Number | None = None
    start_time: Number | None = None
    suspend_time: Number | None = None
    admin_comment: str = ""
    hold: bool = False


class QuietJobs(Answer):
    """An answer about jobs that may hang."""

    jobs: list[QuietJob] | None = None


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
    """Decode an answer into one kind of record. slurmrestd passes on users' texts, such as comments, in any bytes."""
    try:
        try:
            return msgspec.json.decode(content, type=kind)
        except UnicodeDecodeError:
            return msgspec.json.decode(bytes(content).decode(errors="replace"), type=kind)
    except msgspec.DecodeError as error:
        raise SlurmError(Trouble.UNUSABLE, f"{call}: {error}") from error


def listed(call: str, items: list[_T] | None) -> list[_T]:
    """The list of an answer, which has to have one."""
    if items is None:
        raise SlurmError(Trouble.UNUSABLE, f"{call}: the answer holds no list of them")
    return items
