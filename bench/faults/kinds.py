"""The kinds of fault: the parts that each disturbs and needs, its duration, and the line that tells of it."""

from __future__ import annotations

import enum
import re
from collections.abc import Mapping
from dataclasses import dataclass


class Part(enum.StrEnum):
    """A part of the cluster that a fault takes away, or needs."""

    OPERATOR = "operator"
    SLURMCTLD = "slurmctld"
    SLURMRESTD = "slurmrestd"
    SLURMDBD = "slurmdbd"
    DATABASE = "database"
    LOGIN = "login"
    SIZE = "size of the node set"
    KUBELET = "kubelet"
    K8S_NODE = "Kubernetes node"
    QUEUE = "queue"
    STATUS = "status"
    OBJECTS = "declared objects"
    POD = "pod"
    """Of the fault's target."""
    REASON = "reason"
    """Of the Slurm node that is the fault's target."""


ALL_OF_TARGET = frozenset({Part.POD, Part.REASON})
"""These exclude each other for one target alone."""


class Teller(enum.StrEnum):
    """A program that tells of faults."""

    OPERATOR = "the operator"
    KUBELET = "kubelet"


class Sign(enum.StrEnum):
    """Sign, within a minute of a fault's end, that the fault has passed. It is for faults that nobody has to report."""

    SLURM_ANSWERS = "slurmctld answers"
    ACCOUNTING_IS_READY = "slurmdbd's pod is ready"
    NODE_SERVES = "Slurm has the node, and hears of it"
    K8S_NODES_ARE_READY = "each Kubernetes node is ready"
    KUBERNETES_ANSWERS = "the API server answers"
    STATUS_IS_THE_OPERATORS = "status.message is the operator's"
    STATUS_IS_KNOWN = "Available is not Unknown"


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of fault. Somebody tells of it within a minute, or it passes before anybody has to know.

    Attributes:
        what: What happens, for a person.
        takes: Parts that do not work as usual meanwhile: no other fault may take or need them.
        needs: Parts that must work meanwhile, for the fault itself or for what is to be told of it.
        seconds: How long it lasts at least and at most; of one that passes by itself, until others may follow.
        targets: What it may meet; one is drawn.
        told: A regular expression for the line with which the operator tells of it: a condition, an Event or the lease.
            It may name {target}, and what the injection notes. Empty if it does not.
        told_by_kubelet: The same for the kubelet's Events.
        passed: What shows that it has passed; None if somebody tells of it.
    """

    what: str
    takes: frozenset[Part]
    needs: frozenset[Part] = frozenset()
    seconds: tuple[int, int] = (20, 30)
    targets: tuple[str, ...] = ("",)
    told: str = ""
    told_by_kubelet: str = ""
    passed: Sign | None = None

    def told_by(self, target: str, note: Mapping[str, str]) -> Mapping[Teller, re.Pattern[str]]:
        """Return who tells of one fault of this kind, each with the expression for its lines."""
        words = {key: re.escape(value) for key, value in ({"target": target} | dict(note)).items()}
        said = {Teller.OPERATOR: self.told, Teller.KUBELET: self.told_by_kubelet}
        return {who: re.compile(text.format_map(words)) for who, text in said.items() if text}


def _parts(*parts: Part) -> frozenset[Part]:
    return frozenset(parts)


OTHERS_WORDS = "somebody else's words"
"""Text that the fault status-contested writes into status.message."""
WORKERS = ("cpu-0", "cpu-1")
NODE_SET = "cpu"
HIGHEST = WORKERS[-1]
"""The worker that leaves when the node set shrinks."""

_ANOTHER_HOLDER = r"^Lease holder=(?!{holder}$)\S"
_BLIND = r"^SlurmCluster/\S+ Available=(Unknown|False) |^Event \w+ Available(Unknown|False) SlurmCluster/"
_NO_ANSWER = r"^Event \w+ DegradedTrue SlurmCluster/\S+ .*: no answer in time"
"""Such a pass asked for something else than nodes and jobs when slurmrestd answered no more."""
_RESTORED = r"^Event \w+ Heal SlurmCluster/\S+ restored {target}\b"
_SCALED = r"^NodeSet/\S+ ScaledOutsidePulumi=True "
_BY_PERSON = r"^(NodeSet|SlurmCluster)/\S+ DrainedByPeople=True .*{reason}"

KINDS: Mapping[str, Kind] = {
    "operator-killed": Kind(
        "the pod of the operator that holds the lease is deleted at once",
        _parts(Part.OPERATOR), _parts(Part.K8S_NODE, Part.KUBELET), (30, 45), told=_ANOTHER_HOLDER,
    ),
    "operator-stopped": Kind(
        "the operator that holds the lease gets SIGSTOP, and goes on later",
        _parts(Part.OPERATOR), seconds=(25, 40), told=_ANOTHER_HOLDER,
    ),
    "slurmrestd-killed": Kind(
        "slurmrestd ends by SIGKILL", _parts(Part.SLURMRESTD), _parts(Part.KUBELET),
        told=_BLIND, told_by_kubelet=r"^Event \w+ (Started|BackOff) Pod/slurm-rest-",
    ),
    "slurmrestd-stopped": Kind(
        "slurmrestd gets SIGSTOP: its socket accepts, nobody answers",
        _parts(Part.SLURMRESTD), _parts(Part.SLURMCTLD), (45, 60), told=f"{_BLIND}|{_NO_ANSWER}",
    ),
    "slurmctld-killed": Kind(
        "slurmctld ends by SIGKILL, and its pod starts another one", _parts(Part.SLURMCTLD), passed=Sign.SLURM_ANSWERS
    ),
    "slurmctld-deleted": Kind(
        "slurmctld's pod is deleted", _parts(Part.SLURMCTLD), _parts(Part.K8S_NODE, Part.KUBELET), (40, 60),
        told=_BLIND, told_by_kubelet=r"^Event \w+ (Killing|Started) Pod/slurm-controller-0 ",
    ),
    "slurmctld-stopped": Kind(
        "slurmctld gets SIGSTOP", _parts(Part.SLURMCTLD), _parts(Part.SLURMRESTD), (45, 60), told=_BLIND
    ),
    "reconfigured": Kind(
        "somebody runs scontrol reconfigure", _parts(Part.QUEUE), _parts(Part.SLURMCTLD), (10, 15),
        passed=Sign.SLURM_ANSWERS,
    ),
    "slurmdbd-killed": Kind(
        "slurmdbd ends by SIGKILL, and its pod starts another one", _parts(Part.SLURMDBD),
        passed=Sign.ACCOUNTING_IS_READY,
    ),
    "slurmdbd-stopped": Kind(
        "slurmdbd gets SIGSTOP", _parts(Part.SLURMDBD), _parts(Part.KUBELET), (65, 80),
        told=r"^SlurmCluster/\S+ (Degraded|Progressing)=True .*accounting",
    ),
    "database-deleted": Kind(
        "MariaDB's pod is deleted", _parts(Part.DATABASE, Part.SLURMDBD), _parts(Part.K8S_NODE, Part.KUBELET), (30, 45),
        told=r"^SlurmCluster/\S+ Degraded=True .*accounting",
        told_by_kubelet=r"^Event \w+ (Killing|Started) Pod/slurm-database-0 ",
    ),
    "login-deleted": Kind(
        "the login node's pod is deleted", _parts(Part.LOGIN), _parts(Part.K8S_NODE, Part.KUBELET), (30, 45),
        told=r"^(SlurmCluster/\S+ Available=False|Event \w+ AvailableFalse SlurmCluster/).*slurm-login",
        # Another pod may be ready within three seconds, before any pass of the operator.
        told_by_kubelet=r"^Event \w+ (Killing|Started) Pod/slurm-login-0 ",
    ),
    "object-edited": Kind(
        "somebody edits a declared object", _parts(Part.OBJECTS), seconds=(10, 20), told=_RESTORED,
        targets=("ConfigMap slurm-config-wanted", "Service slurm-rest", "NetworkPolicy slurm-controller"),
    ),
    "template-edited": Kind(
        "somebody edits the pod template of the workers' StatefulSet", _parts(Part.OBJECTS, Part.SIZE),
        seconds=(10, 20), targets=(f"StatefulSet {NODE_SET}",), told=_RESTORED,
    ),
    "object-deleted": Kind(
        "somebody deletes a declared object", _parts(Part.OBJECTS), seconds=(15, 25), told=_RESTORED,
        targets=("ConfigMap slurm-config-wanted", "Service slurm-controller", "NetworkPolicy slurm-controller",
                 "Secret slurm-keys"),
    ),
    "workers-orphaned": Kind(
        "somebody deletes the workers' StatefulSet and leaves its pods", _parts(Part.OBJECTS, Part.SIZE),
        _parts(Part.KUBELET), (20, 30), (f"StatefulSet {NODE_SET}",), told=_RESTORED,
    ),
    "scaled-out": Kind(
        "kubectl asks for one node more than declared", _parts(Part.SIZE), seconds=(45, 75), targets=(NODE_SET,),
        told=_SCALED,
    ),
    "scaled-in": Kind(
        "kubectl asks for one node less than declared", _parts(Part.SIZE, Part.POD), seconds=(45, 75),
        targets=(HIGHEST,), told=_SCALED,
    ),
    "person-drained": Kind(
        "an administrator drains a node for a reason of his own", _parts(Part.REASON),
        _parts(Part.SLURMCTLD, Part.SLURMRESTD, Part.LOGIN), (45, 90), WORKERS, _BY_PERSON,
    ),
    "person-failed": Kind(
        "an administrator sets a node to FAIL", _parts(Part.REASON),
        _parts(Part.SLURMCTLD, Part.SLURMRESTD, Part.LOGIN), (45, 90), WORKERS, _BY_PERSON,
    ),
    "check-failed": Kind(
        "a node's /tmp is full, so that it drains itself", _parts(Part.REASON),
        _parts(Part.POD, Part.SLURMCTLD, Part.SLURMRESTD, Part.K8S_NODE), (60, 80), WORKERS,
        r"^(NodeSet|SlurmCluster)/\S+ Degraded=True .*pulumi-slurm:(repair |)health",
    ),
    "slurmd-killed": Kind(
        "slurmd ends by SIGKILL", _parts(Part.POD), _parts(Part.SLURMCTLD), (15, 25), WORKERS,
        passed=Sign.NODE_SERVES,
    ),
    "node-cordoned": Kind(
        "somebody cordons the Kubernetes node", _parts(Part.K8S_NODE),
        _parts(Part.SLURMCTLD, Part.SLURMRESTD, Part.KUBELET), (45, 60),
        told=r"^(NodeSet|SlurmCluster)/\S+ Degraded=True .*is cordoned",
    ),
    "kubelet-stopped": Kind(
        "the kubelet gets SIGSTOP", _parts(Part.KUBELET), seconds=(15, 25), passed=Sign.K8S_NODES_ARE_READY
    ),
    "api-server-stopped": Kind(
        "the API server gets SIGSTOP", frozenset(), seconds=(5, 12), passed=Sign.KUBERNETES_ANSWERS
    ),
    "status-contested": Kind(
        "somebody writes the status of the custom resources, twice a second", _parts(Part.STATUS), seconds=(20, 30),
        passed=Sign.STATUS_IS_THE_OPERATORS,
    ),
    "queue-deep": Kind(
        "a user submits 200 jobs that wait", _parts(Part.QUEUE), _parts(Part.SLURMCTLD, Part.LOGIN), (30, 50),
        passed=Sign.STATUS_IS_KNOWN,
    ),
}  # fmt: skip


def exclude_each_other(first: tuple[str, str], second: tuple[str, str]) -> bool:
    """Return whether two faults, each a kind and a target, may not be at one time."""
    if first[0] == second[0]:
        return True
    one, other = KINDS[first[0]], KINDS[second[0]]
    met = (one.takes & (other.takes | other.needs)) | (other.takes & one.needs)
    return bool(met - ALL_OF_TARGET) or (bool(met) and first[1] == second[1])
