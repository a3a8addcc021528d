"""What workers wait for before they move to changed templates, and slurmctld's own restart.

No slurmd may be newer than slurmctld, and slurmctld not newer than slurmdbd (Slurm's rule for upgrades).
"""

from __future__ import annotations

import dataclasses

from slurm_operator.decisions import config
from slurm_operator.seen import Kubernetes, Pod, Running, Unknown


@dataclasses.dataclass(frozen=True, slots=True)
class RestartController:
    """Delete slurmctld's pod, provided that it is still as it was seen; its StatefulSet makes a new one."""

    pod: str
    resource_version: str
    why: str


def controller_pod(seen: Kubernetes) -> Pod | None:
    """Slurmctld's pod, if there is one that does not end."""
    pod = seen.pods.get(f"{seen.cluster.controller}-0")
    return None if pod is None or pod.terminating else pod


def holds_workers(seen: Kubernetes, running: Running | Unknown, died: str = "") -> str:
    """Why no worker may move to a changed template now, empty if it may.

    Args:
        seen: what is in Kubernetes.
        running: what slurmctld runs with.
        died: what to say of an `up` that ended half way; empty if none did.
    """
    if seen.ledger_revision != seen.cluster.revision:
        return died or "pulumi up is under way"
    for name in (seen.cluster.accounting, seen.cluster.controller):
        workload = seen.workloads.get(name)
        if workload and not workload.is_ready:
            return f"{name} is not ready in its current generation, and no slurmd may be newer"
    if config.is_pending_for_workers(seen.wanted_config, seen.active_config, running):
        return "slurmctld does not run with the declared configuration yet, which workers are to start with"
    return ""
