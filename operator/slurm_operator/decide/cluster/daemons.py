"""Decides the order in which daemons get changed templates: slurmdbd, slurmctld, then workers.

None may be newer than the one before it (Slurm's rule for upgrades). Kubernetes replaces slurmdbd's pod, the operator
slurmctld's. That also helps a pod that never became ready, for which Kubernetes would wait for ever. A slurmctld that
works stays until the config dry run, which has the same image, has tried the new version.
"""

from __future__ import annotations

from collections.abc import Iterable

from slurm_operator.actions import DeletePod, Purpose, SetOnDelete
from slurm_operator.decide.cluster import config
from slurm_operator.state.kubernetes import Kubernetes, Pod, Unread
from slurm_operator.state.slurm import Running, Unknown


def controller_pod(seen: Kubernetes) -> Pod | None:
    """Return slurmctld's pod; None without one, or while it ends."""
    pod = seen.pods.get(f"{seen.cluster.controller}-0")
    return None if pod is None or pod.terminating else pod


def is_controller_old(seen: Kubernetes) -> bool:
    """Return whether slurmctld's pod, also one that ends, has another template than its set's newest."""
    workload, pod = seen.workloads.get(seen.cluster.controller), seen.pods.get(f"{seen.cluster.controller}-0")
    return workload is not None and pod is not None and workload.revision not in ("", pod.revision)


def holds_controller(seen: Kubernetes) -> str:
    """Return why slurmctld may not get a changed template now; empty if it may.

    A slurmdbd that cannot start and says why holds nothing up: no older one is there that slurmctld could meet.
    """
    if Unread.LEDGER in seen.unread:
        return f"{Unread.LEDGER} can't be read"
    if seen.ledger_revision != seen.cluster.revision:
        return "pulumi up is under way"
    slurmdbd = seen.workloads.get(seen.cluster.accounting)
    if slurmdbd and not slurmdbd.is_ready and not (slurmdbd.current and seen.accounting_words):
        return f"{slurmdbd.name} comes first"
    return _untried(seen) if is_working(seen) else ""


def is_working(seen: Kubernetes) -> bool:
    """Return whether slurmctld's pod is ready, so that a new version that does not start would cost something."""
    pod = controller_pod(seen)
    return pod is not None and pod.ready


def tried_by(seen: Kubernetes) -> str:
    """Return what tells the config dry run's present pods from others: a pod of another image may say otherwise."""
    return " ".join(pod.uid for pod in _dry_run_pods(seen))


def _untried(seen: Kubernetes) -> str:
    """Return why the new version of slurmctld can't be tried yet; empty if it can, or if there is no dry run."""
    if Unread.DRY_RUN in seen.unread:
        return f"{Unread.DRY_RUN} can't be read"
    if seen.dry_run is None or seen.dry_run.is_rolled_out:
        return ""
    return f"{seen.dry_run.name} has to start with the new image first{first_trouble(_dry_run_pods(seen))}"


def first_trouble(pods: Iterable[Pod]) -> str:
    """Return what keeps the first of some pods from starting, as the end of a sentence; empty if nothing does."""
    return next((f" ({pod.name}: {pod.trouble})" for pod in pods if pod.trouble and not pod.terminating), "")


def _dry_run_pods(seen: Kubernetes) -> list[Pod]:
    own = [pod for name, pod in sorted(seen.pods.items()) if seen.dry_run and name.startswith(f"{seen.dry_run.name}-")]
    return [pod for pod in own if not pod.terminating]


def controller(seen: Kubernetes) -> SetOnDelete | DeletePod | None:
    """Return the next action for slurmctld's pod; None if there is none."""
    workload, pod = seen.workloads.get(seen.cluster.controller), controller_pod(seen)
    if workload is None:
        return None
    if not workload.on_delete:
        return SetOnDelete(workload.name, workload.resource_version)
    if pod is None or not is_controller_old(seen) or holds_controller(seen):
        return None
    return restart(pod, "a new one has the current template")


def restart(pod: Pod, why: str) -> DeletePod:
    """Return the action that starts slurmctld's pod anew; jobs go on."""
    return DeletePod(pod.name, pod.uid, Purpose.CONTROLLER, why)


def holds_workers(seen: Kubernetes, running: Running | Unknown, died: str = "") -> str:
    """Return why no worker may get a changed template now; empty if one may.

    Args:
        seen: what is in Kubernetes.
        running: what slurmctld runs with.
        died: what to say of an `up` that ended half way; empty if none did.
    """
    if unread := seen.unread.keys() & {Unread.LEDGER, Unread.CONFIGURATION}:
        return f"{min(unread)} can't be read"
    if seen.ledger_revision != seen.cluster.revision:
        return died or "pulumi up is under way"
    for name in (seen.cluster.accounting, seen.cluster.controller):
        workload = seen.workloads.get(name)
        if workload and not workload.is_ready:
            return f"{name} is not ready in its current generation, and no slurmd may be newer"
    if is_controller_old(seen):
        return f"{seen.cluster.controller} is updated first, and no slurmd may be newer"
    if config.is_pending_for_workers(seen.desired_config, seen.active_config, running):
        return "slurmctld does not run with the declared configuration yet, which workers are to start with"
    return ""
