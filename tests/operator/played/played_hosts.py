"""Kubernetes nodes of a played cluster."""

from __future__ import annotations

import dataclasses
import datetime
import functools

from slurm_operator.state.kubernetes import K8sNode, Taint

from contract import names

MAINTENANCE = "maintenance"
CONDITION = "KernelDeadlock"
RACK = "rack"


@dataclasses.dataclass
class Host:
    """A Kubernetes node: what it lacks, and what others and we said of it."""

    sick: bool = False
    lacks_gpu: bool = False
    cordoned: bool = False
    tainted: bool = False
    away_since: datetime.datetime | None = None
    dead: bool = False
    ours: bool = False
    says: str = "False"
    """Status of its condition that counts as a check."""
    rack: str = ""
    """Its label, which names a place."""

    @property
    def takes_pods(self) -> bool:
        return not (self.cordoned or self.tainted or self.ours or self.away_since)

    @property
    def is_bad(self) -> bool:
        return self.sick or self.lacks_gpu or not self.takes_pods or self.says != "False"

    def taints(self) -> list[str]:
        if not (self.tainted or self.ours):
            return []
        return [key for key, there in ((MAINTENANCE, self.tainted), (names.UNFIT_TAINT, self.ours)) if there]

    def seen(self) -> K8sNode:
        return _k8s_node(self.cordoned or self.ours, self.away_since, self.says, self.rack, *self.taints())


@functools.lru_cache(1000)
def _k8s_node(cordoned: bool, away_since: datetime.datetime | None, says: str, rack: str, *taints: str) -> K8sNode:
    conditions = ((CONDITION, says, ""),) if says else ()
    labels, tainted = ((RACK, rack),) if rack else (), tuple(Taint(key, "NoSchedule") for key in taints)
    return K8sNode(cordoned, tainted, away_since, labels, conditions)
