"""Configuration of repairs: what the operator does about unfit nodes."""

from collections.abc import Iterator
from typing import Final

from components.config.model import setting
from components.config.nodes.policy import Policy
from components.config.rule import Violation, rule
from components.config.values.quantities import Duration, WholeNumber
from contract.policies import ReactionPolicy

_DEFAULTS: Final = ReactionPolicy()


class Reactions(Policy):
    """Policy for repairs of unfit nodes of a set; see docs/health.md. They drain themselves in any case."""

    restart: bool = setting(
        "Whether the pod of an unfit node is restarted when no job is left on it.", default=_DEFAULTS.restart
    )
    replace: bool = setting(
        "Whether the idle pod moves to another Kubernetes node when restarts do not help and the Kubernetes node is "
        "at fault. The operator cordons and taints the old one. The pod also leaves one that is not ready, that "
        "others tainted, or that fails by health.nodeConditions.",
        default=_DEFAULTS.replace,
    )
    after: Duration = setting(
        "Time that a node has to recover by itself.", unit="s, m or h", default=f"{_DEFAULTS.after_seconds // 60}m"
    )
    attempts: WholeNumber = setting(
        "Restarts of one node within a day. A node that stays unfit after them is reported and left to you.",
        default=_DEFAULTS.attempts,
        ge=1,
        le=20,
    )
    at_once: WholeNumber = setting(
        "Nodes of the set that are being restarted or replaced at a time. Those that an update has taken don't count.",
        unit="nodes",
        default=_DEFAULTS.at_once,
        ge=1,
    )
    per_hour: WholeNumber = setting(
        "Restarts and replacements in the set within an hour.", default=_DEFAULTS.per_hour, ge=1, le=20
    )
    breaker_percent: WholeNumber = setting(
        "Largest share of the set that may be unfit at once. With a larger share, and more than one node, nothing is "
        "restarted: nodes that fail together have one cause.",
        unit="percent",
        default=_DEFAULTS.breaker_percent,
        ge=1,
        le=100,
    )
    dry_run: bool = setting("Whether the operator only reports what it would do.", default=_DEFAULTS.dry_run)
    approval: bool = setting(
        "Whether each restart or replacement waits for an annotation of the NodeSet.", default=_DEFAULTS.approval
    )

    @rule
    def _budgets(self) -> Iterator[Violation]:
        if self.at_once > self.per_hour:
            most = f"at most reactions.perHour ({self.per_hour}): more are never repaired at a time"
            yield Violation("atOnce", want=most)
