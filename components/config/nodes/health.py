"""Configuration of the health checks of nodes."""

from collections.abc import Iterator
from enum import StrEnum
from typing import Annotated, Any, Final

from pydantic import AfterValidator

from components.config.model import Model, setting
from components.config.nodes.long_checks import LongCheck
from components.config.nodes.thresholds import Thresholds
from components.config.rule import Violation, named_twice, rule
from components.config.values.object_names import ConditionType, SetName
from components.config.values.quantities import Duration, WholeNumber, duration_seconds
from components.config.values.validation import wrong
from contract import policies
from contract.reasons import Check

HEALTH_SECONDS: Final = 12
"""Time after which Slurm ends a check (HealthCheckTimeout). node-health itself takes at most 10 s."""
PROLOG_SECONDS: Final = 30
"""Time after which Slurm ends a prolog (PrologTimeout). Ours reads files, and tells a waiting srun within 10 s."""


class CheckedState(StrEnum):
    """States in which a node is checked; the values are those of slurm.conf's HealthCheckNodeState.

    START_ONLY and NONDRAINED_IDLE are not among them: a node that failed once would never be checked again.
    """

    ANY = "ANY"
    IDLE = "IDLE"
    MIXED = "MIXED"
    ALLOC = "ALLOC"
    CYCLE = "CYCLE"


def _longer_than_a_check(value: str) -> str:
    if duration_seconds(value) <= HEALTH_SECONDS:
        raise wrong(f"more than {HEALTH_SECONDS}s, which one check may take")
    return value


class UnknownPolicy(StrEnum):
    """Meaning of a check that could not look for its node."""

    NOTE = "note"
    DRAIN = "drain"


class Checks(Model):
    """Policy for single checks; docs/health.md lists them."""

    disabled: list[Check] = setting(
        "Checks that are not made. A drain that one of them made is lifted, within some minutes and without a new pod.",
        factory=list,
    )
    unknown: UnknownPolicy = setting(
        "What becomes of a node when a check could not look, as without an answer of the driver: note writes it to the "
        "node's Extra, drain drains the node until the check can look again.",
        default=UnknownPolicy.NOTE,
    )

    @rule
    def _disabled(self) -> Iterator[Violation]:
        for index, check in enumerate(self.disabled):
            if check is Check.JAIL:
                yield Violation("disabled", index, want="another check: without the jail no job runs")
            elif check in self.disabled[:index]:
                yield Violation("disabled", index, want="each check once")


class NodeCondition(Model):
    """A condition of Kubernetes nodes that another program writes; see docs/health.md."""

    type: ConditionType = setting("Type of the condition, such as KernelDeadlock of node-problem-detector.")
    fails_when: bool = setting(
        "Status that drains the nodes there: true for a condition that tells of a fault, false for one that tells that "
        "all is well.",
        default=True,
    )
    node_sets: list[SetName] = setting("Node sets that it concerns; none named: all.", factory=list)

    @rule
    def _type(self) -> Iterator[Violation]:
        if self.type == "Ready":
            yield Violation("type", want="another condition: the operator follows Ready by itself")


class Health(Model):
    """Health checks of nodes; see docs/health.md."""

    interval: Annotated[Duration, AfterValidator(_longer_than_a_check)] = setting(
        "Time between two checks of a node by Slurm; it is checked when it starts and after each job, too.",
        unit="s, m or h",
        default="30s",
    )
    node_states: list[CheckedState] = setting(
        "States of nodes that are checked; CYCLE besides another spreads them over the interval, instead of all at "
        "once.",
        factory=lambda: [CheckedState.ANY, CheckedState.CYCLE],
        min_length=1,
    )
    least_free_percent: WholeNumber = setting(
        "Space that must be free. Less in a node's /tmp, /dev/shm or slurmd's spool drains the node; less in the jail "
        "is a warning.",
        unit="percent",
        default=policies.LEAST_FREE_PERCENT,
        ge=0,
        le=50,
    )

    checks: Checks = setting("Which checks are made, and what UNKNOWN means.", factory=Checks)
    thresholds: list[Thresholds] = setting(
        "Numbers with which checks compare, in place of those that are published or that nobody has published. A "
        "change takes no new pod.",
        factory=list,
        max_length=64,
    )
    node_conditions: list[NodeCondition] = setting(
        "Conditions of Kubernetes nodes that count as checks, written by node-problem-detector, NVSentinel and others. "
        "Needs operator.watchNodes.",
        factory=list,
        max_length=32,
    )
    long_checks: list[LongCheck] = setting(
        "Jobs that test idle nodes, one node each. The operator submits them, and drains the nodes that fail.",
        factory=list,
        max_length=16,
    )

    @rule
    def _long_checks(self) -> Iterator[Violation]:
        yield from named_twice(self.long_checks, "longChecks")

    @rule
    def _thresholds(self) -> Iterator[Violation]:
        yield from named_twice(self.thresholds, "thresholds", "product")

    @rule
    def _node_conditions(self) -> Iterator[Violation]:
        types = [getattr(condition, "type", None) for condition in self.node_conditions]
        for index, kind in enumerate(types):
            if kind is not None and kind in types[:index]:
                yield Violation("nodeConditions", index, "type", want="each type once")

    @property
    def interval_seconds(self) -> int:
        """The interval as slurm.conf has it."""
        return duration_seconds(self.interval)

    def conditions_of(self, node_set: str) -> list[dict[str, Any]]:
        """The conditions that count as checks of a set's nodes, as its NodeSet resource has them."""
        drains = {"unknownDrains": True} if self.checks.unknown is UnknownPolicy.DRAIN else {}
        own = [one for one in self.node_conditions if not one.node_sets or node_set in one.node_sets]
        return [{"type": condition.type, "failsWhen": condition.fails_when, **drains} for condition in own]
