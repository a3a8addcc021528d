"""Actions on node sets and slurmctld, which decisions return and execute.py executes."""

from __future__ import annotations

import dataclasses
import datetime
import enum
from collections.abc import Set

from contract import names, reasons


@dataclasses.dataclass(frozen=True, slots=True)
class SetReplicas:
    """Set the StatefulSet's size, provided that it is still the one that was seen.

    `going` are the nodes that leave because Slurm shows them drained and idle; none while Slurm can't be read.
    """

    stateful_set: str
    replicas: int
    was: int
    resource_version: str
    going: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class SetOnDelete:
    """Set the update strategy OnDelete, so that the operator, not Kubernetes, replaces slurmctld's pod."""

    stateful_set: str
    resource_version: str


@dataclasses.dataclass(frozen=True, slots=True)
class Drain:
    """Drain the node, unless somebody else drained it first. The node's own drain may get another reason."""

    node: str
    reason: str = reasons.SCALE_IN


@dataclasses.dataclass(frozen=True, slots=True)
class DrainDown:
    """Drain a node that a person set DOWN, under the reason and in the name of that person."""

    node: str


@dataclasses.dataclass(frozen=True, slots=True)
class Undrain:
    """Lift the drain, provided that it is still ours."""

    node: str


@dataclasses.dataclass(frozen=True, slots=True)
class UndrainReserved:
    """Lift a long check's drain, provided that it has that reason and our reservation keeps other jobs away."""

    node: str
    reason: str
    reservation: str


@dataclasses.dataclass(frozen=True, slots=True)
class Comment:
    """Set the Slurm node's Comment, unless it is somebody else's; an empty text removes ours."""

    node: str
    text: str


@dataclasses.dataclass(frozen=True, slots=True)
class RestoreReason:
    """Write the reason of another's drain back, provided that Slurm's own words are still in its place."""

    node: str
    reason: str


@dataclasses.dataclass(frozen=True, slots=True)
class UpdateNode:
    """Give the Slurm node other features, weight or place in topologies; None leaves what it has. Jobs run on.

    An empty `topology` takes it out of all of them.
    """

    node: str
    features: tuple[str, ...] | None = None
    weight: int | None = None
    topology: str | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class RequeueJobs:
    """End the node's jobs after the policy's deadline; Slurm requeues those that allow it.

    `seconds` is that deadline. Execution compares it once more with slurmctld's clock, which set the drain's time.
    """

    node: str
    seconds: int = dataclasses.field(default=0, compare=False)


@dataclasses.dataclass(frozen=True, slots=True)
class DeleteRecord:
    """Delete Slurm's record of a node whose pod is gone. `anothers`: also if somebody else drained the node.

    `started` is the start of the slurmd that the record was seen with: that of another one stays.
    """

    node: str
    anothers: bool = False
    started: datetime.datetime | None = dataclasses.field(default=None, compare=False)


@dataclasses.dataclass(frozen=True, slots=True)
class Reserve:
    """Reserve nodes for a user, unless there is a reservation of that name; the default is for updates."""

    name: str
    nodes: tuple[str, ...]
    starts: datetime.datetime
    ends: datetime.datetime
    user: str = names.RESERVATION_USER
    flags: tuple[str, ...] = names.RESERVATION_FLAGS


@dataclasses.dataclass(frozen=True, slots=True)
class ChangeReservation:
    """Give a reservation of ours other nodes and another end, and another start if it is not None."""

    name: str
    nodes: tuple[str, ...]
    ends: datetime.datetime
    starts: datetime.datetime | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class EndReservation:
    """Delete a reservation, provided that it is still ours."""

    name: str
    why: str


@dataclasses.dataclass(frozen=True, slots=True)
class SetEvictable:
    """Let a pod be evicted, provided that it is still the one that was seen, or protect it again."""

    node: str
    uid: str
    evictable: bool


class Purpose(enum.StrEnum):
    """The purpose of a pod's deletion; the value is its name in Events and metrics."""

    UPDATE = "RestartPod"
    ANEW = "RestartUnfit"
    ELSEWHERE = "ReplaceUnfit"
    CONTROLLER = "RestartController"
    REBOOT = "RebootNode"


@dataclasses.dataclass(frozen=True, slots=True)
class DeletePod:
    """Delete a pod, provided that it is still the one that was seen; its StatefulSet makes a new one.

    `cordon` is the Kubernetes node to cordon and taint before, empty for none. `forget`: Slurm's record of the node is
    deleted as well, so that the new slurmd registers with its own size.
    """

    pod: str
    uid: str
    purpose: Purpose
    why: str
    cordon: str = ""
    forget: bool = False


NodeAction = (
    Drain | DrainDown | Undrain | UndrainReserved | RestoreReason | Comment | UpdateNode | RequeueJobs | DeleteRecord
)
"""Changes of Slurm's record of one node."""
ReservationAction = Reserve | ChangeReservation | EndReservation
Action = SetReplicas | SetOnDelete | NodeAction | ReservationAction | SetEvictable | DeletePod


def is_update_of(nodes: Set[str], action: Action) -> bool:
    """Return whether an action is a step of the update of one of these nodes, all of which stay."""
    match action:
        case Drain(node=name, reason=reasons.UPDATE) | RequeueJobs(node=name) | DeletePod(name, purpose=Purpose.UPDATE):
            return name in nodes
    return False


def kind(action: Action) -> str:
    """Return the action's name in Events and metrics."""
    return action.purpose if isinstance(action, DeletePod) else type(action).__name__
