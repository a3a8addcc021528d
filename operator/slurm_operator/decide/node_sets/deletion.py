"""The end of a NodeSet's deletion: it may go when nothing of it can run a job, or when it is forced."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from contract import commands, names
from contract.conditions import Reason
from slurm_operator.decide.node_sets import records, scale
from slurm_operator.decide.nodes import slurm_nodes
from slurm_operator.decide.nodes.workers import NodeSetState
from slurm_operator.findings import Finding, shown, under_way
from slurm_operator.state.kubernetes import Workload
from slurm_operator.state.slurm import SlurmJob, Unknown


@dataclasses.dataclass(frozen=True, slots=True)
class RemoveFinalizer:
    """Delete the StatefulSet, if there is one to delete, and let the NodeSet go."""

    workload: Workload | None
    why: str


def judge(state: NodeSetState, *, cluster_stays: bool) -> RemoveFinalizer | Finding:
    """Return the removal of the finalizer if the NodeSet may go now, else a finding about what it waits for.

    Args:
        state: the NodeSet, its workload, pods, nodes and jobs.
        cluster_stays: whether the SlurmCluster stays. Slurm's records of the nodes must go first then.
    """
    node_set, workload = state.node_set, state.workload
    if node_set.forced:
        return RemoveFinalizer(workload, "forced, its jobs are killed")
    title = f"node set {node_set.name} is being deleted"
    force = f"annotate nodeset {node_set.name} {names.ANNOTATION_FORCE}=true"
    way_out = f"to kill its jobs: {commands.kubectl(node_set.namespace, force)}"
    unseen = state.nodes if isinstance(state.nodes, Unknown) else None
    if state.current and unseen:
        held = f"{title}: held, since its jobs cannot be seen ({unseen.message}); {way_out}"
        return under_way(Reason.DELETION_HELD, held)
    if state.current:
        if working := _working(state):
            waits = f"waits for the end of {working}{scale.until(state)}"
            return under_way(Reason.WAITING_FOR_JOBS, f"{title}: {waits}; {way_out}")
        kept = slurm_nodes.kept((worker.node for worker in state.leaving() if worker.node), node_set.namespace)
        why = f"; Slurm keeps {kept}" if kept else ""
        return under_way(Reason.DRAINING, f"{title}: waits until its {state.current} nodes are drained and idle{why}")
    if state.pods and workload is None:
        stray = f"{shown(sorted(state.pods))} of no StatefulSet; delete them when they are idle"
        return under_way(Reason.PODS_WITHOUT_STATEFUL_SET, f"{title}: there are pods {stray}")
    if state.pods:
        return under_way(Reason.PODS_ENDING, f"{title}: waits for the end of {shown(sorted(state.pods))}")
    if cluster_stays and unseen:
        stay = f"its records in Slurm cannot be deleted yet ({unseen.message})"
        return under_way(Reason.DELETION_HELD, f"{title}: {stay}")
    if cluster_stays and (orphans := records.orphans(state)):
        left = [node.name for node in orphans]
        named = f"which stay as long as a job or a reservation names their nodes{records.kept_for(state, left)}"
        return under_way(Reason.RECORDS_LEFT, f"{title}: Slurm still has records of {shown(left)}, {named}")
    return RemoveFinalizer(workload, "nothing of it can run a job any more")


def _working(state: NodeSetState) -> str:
    """Return the jobs that have processes on the set's nodes as text, else the nodes that have work."""
    own = frozenset(worker.name for worker in state.leaving())
    known = () if isinstance(state.jobs, Unknown) else state.jobs
    jobs = [(job.job_id, slurm_nodes.busy_nodes([job]) & own, _end(job)) for job in known]
    rows = [
        f"{number} ({shown(sorted(busy))}{end})" for number, busy, end in sorted(jobs, key=lambda row: row[0]) if busy
    ]
    if rows:
        return f"{'job' if len(rows) == 1 else 'jobs'} {shown(rows)}"
    busy = sorted(worker.name for worker in state.leaving() if worker.has_work)
    return f"the jobs on {shown(busy)}" if busy else ""


def _end(job: SlurmJob) -> str:
    return f", ends by {job.ends:%Y-%m-%d %H:%M} UTC" if job.ends else ""


def fates(jobs: Iterable[SlurmJob] | Unknown, node: str) -> str:
    """Return as text what becomes of the jobs of a node that goes."""
    if isinstance(jobs, Unknown):
        return f"those that may be are requeued, the others ended ({jobs.message})"
    rows = [job for job in jobs if node in slurm_nodes.busy_nodes([job])]
    again = shown([str(job.job_id) for job in rows if job.requeues])
    ended = shown([str(job.job_id) for job in rows if not job.requeues])
    return "; ".join([f"requeued {again}"] * bool(again) + [f"ended {ended}, which may not be requeued"] * bool(ended))
