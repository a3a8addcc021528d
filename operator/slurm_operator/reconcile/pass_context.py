"""The record of one pass over a cluster: its clients, and what it has seen."""

from __future__ import annotations

import dataclasses

from slurm_operator.clients.kubernetes import Object
from slurm_operator.clients.slurm.slurmrestd import SlurmRest
from slurm_operator.reconcile.pass_budget import PassBudget
from slurm_operator.state.kubernetes import Kubernetes
from slurm_operator.state.slurm import Running, Unknown


@dataclasses.dataclass(frozen=True, slots=True)
class PassContext:
    """One pass over a cluster.

    Attributes:
        rest: its slurmrestd.
        body: the SlurmCluster, for Events.
        seen: what is in Kubernetes.
        running: what slurmctld runs with.
        budget: the pass's time.
    """

    rest: SlurmRest
    body: Object
    seen: Kubernetes
    running: Running | Unknown
    budget: PassBudget
