"""Configuration of where Kubernetes puts pods; names and meaning are those of Kubernetes."""

from collections.abc import Iterator
from enum import StrEnum
from typing import Final

from components.config.model import Model, setting
from components.config.rule import Violation, rule
from components.config.values.object_names import DnsLabel, LabelKey, LabelValue
from components.config.values.quantities import WholeNumber


class Operator(StrEnum):
    """Comparison of a label; the values are Kubernetes' own."""

    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"


_WITH_VALUES: Final = (Operator.IN, Operator.NOT_IN)


class Expression(Model):
    """A condition about a label."""

    key: LabelKey = setting("Key of the label.")
    operator: Operator = setting("In, NotIn, Exists or DoesNotExist.")
    values: list[LabelValue] = setting("Values for In and NotIn.", factory=list)

    @rule
    def _values(self) -> Iterator[Violation]:
        if (self.operator in _WITH_VALUES) != bool(self.values):
            yield Violation("values", want="one value or more with In and NotIn, and none with Exists and DoesNotExist")


class NodeTerm(Model):
    """Conditions about the labels of a Kubernetes node, which hold together."""

    match_expressions: list[Expression] = setting("The conditions.", min_length=1)


class RequiredNodes(Model):
    """Kubernetes nodes that fit one of several terms."""

    node_selector_terms: list[NodeTerm] = setting("The terms.", min_length=1)


class PreferredNodes(Model):
    """Kubernetes nodes that are better than others."""

    weight: WholeNumber = setting("How much better.", ge=1, le=100)
    preference: NodeTerm = setting("Which they are.")


class NodeAffinity(Model):
    """Kubernetes nodes that a pod runs on."""

    required_during_scheduling_ignored_during_execution: RequiredNodes | None = setting(
        "Those that it may run on.", default=None
    )
    preferred_during_scheduling_ignored_during_execution: list[PreferredNodes] = setting(
        "Those that it runs on if it can.", factory=list
    )


class LabelSelector(Model):
    """Pods with these labels."""

    match_labels: dict[LabelKey, LabelValue] = setting("Labels with their values.", factory=dict)
    match_expressions: list[Expression] = setting("Conditions about labels.", factory=list)


class PodTerm(Model):
    """Pods near which, or far from which, a pod runs."""

    label_selector: LabelSelector | None = setting("Their labels; left out: the pods of the same kind.", default=None)
    namespaces: list[DnsLabel] = setting("Their namespaces; left out: the cluster's.", factory=list)
    topology_key: LabelKey = setting("Label of Kubernetes nodes that are near if they have the same value of it.")


class PreferredPods(Model):
    """Pods whose nearness or distance is better."""

    weight: WholeNumber = setting("How much better.", ge=1, le=100)
    pod_affinity_term: PodTerm = setting("Which they are.")


class PodAffinity(Model):
    """Pods near which, or far from which, a pod runs."""

    required_during_scheduling_ignored_during_execution: list[PodTerm] = setting("What must hold.", factory=list)
    preferred_during_scheduling_ignored_during_execution: list[PreferredPods] = setting(
        "What holds if it can.", factory=list
    )


class Affinity(Model):
    """Kubernetes nodes and neighbours of a pod."""

    node_affinity: NodeAffinity | None = setting("Kubernetes nodes to run on.", default=None)
    pod_affinity: PodAffinity | None = setting("Pods to run near.", default=None)
    pod_anti_affinity: PodAffinity | None = setting("Pods to run far from.", default=None)


class Unsatisfiable(StrEnum):
    """Fate of a pod that fits no constraint; the values are Kubernetes' own."""

    DO_NOT_SCHEDULE = "DoNotSchedule"
    SCHEDULE_ANYWAY = "ScheduleAnyway"


class TopologySpread(Model):
    """Spread of the pods of one kind over Kubernetes nodes."""

    max_skew: WholeNumber = setting("Largest difference in the number of pods.", default=1, ge=1, le=10_000)
    topology_key: LabelKey = setting("Label of Kubernetes nodes whose values are the places, such as a zone's.")
    when_unsatisfiable: Unsatisfiable = setting(
        "DoNotSchedule or ScheduleAnyway.", default=Unsatisfiable.SCHEDULE_ANYWAY
    )
