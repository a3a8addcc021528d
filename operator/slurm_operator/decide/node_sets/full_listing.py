"""Full listings of Slurm: decisions that take a node away rest on them.

Slurm's record of a node shows each job that has processes there, however many jobs wait; so a deep queue needs no
listing. In src/slurmctld and src/plugins/select/cons_tres of tag slurm-26-05-3-1:

* Running or configuring: allocate_nodes counts the job in run_job_cnt, and the node is ALLOCATED until that is 0.
  A node that is DOWN keeps that state. There alloc_cpus shows the job, which the select plugin counts from cores.
* Completing: make_node_comp sets COMPLETING until the node's epilog has ended. Slurm expects no end from a node that
  is DOWN (make_node_comp, "Don't verify RPC"). It never waited for the end of a job on such a node alone.
* Suspended by a timeslice or for preemption: select_p_job_suspend leaves all that the job has, alloc_cpus too.
* Suspended by `scontrol suspend`: the node reads IDLE without CPUs, since job_res_rm_job with JOB_RES_ACTION_RESUME
  takes the cores. Memory and GRES stay the job's, across slurmctld's restarts too (select_p_reconfigure), and so does
  alloc_memory. With memory as a consumable resource each job has some on each of its nodes (_job_test,
  memory_allocated): what it asked for, or the whole node's. SelectTypeParameters has it (CR_Core_Memory, for one),
  and slurmctld is asked in each pass whether it runs with that.
* Array tasks and the components of a heterogeneous job each have a job record and resources of their own. A requeued
  job is completing first, then pending without nodes.

While the queue is not deep the operator lists jobs all the same: a node that any of them names is busy. Nothing else
says whether a node without a record has work. Without that list a running pod of such a node is never free.
"""

from __future__ import annotations

from slurm_operator.decide.node_sets import k8s_nodes, reboot, records, remediate, scale, update
from slurm_operator.decide.nodes.workers import NodeSetState
from slurm_operator.state.slurm import FullListing, Jobs, Named, Nodes, TooDeep, Unknown


def is_needed(state: NodeSetState, *, records_due: bool = True) -> bool:
    """Return whether full listings could lead to a decision.

    Args:
        state: the node set.
        records_due: it is time to look for records that may be deleted.
    """
    parts = (scale, k8s_nodes, remediate, reboot, update, *([records] if records_due else []))
    return any(part.needs_full_listing(state) for part in parts)


def build(nodes: Nodes, jobs: Jobs | Unknown, *, counts_memory: bool, named: Named | None = None) -> FullListing | None:
    """Join listings of nodes and jobs to a full listing; None if no decision may rest on them.

    Args:
        nodes: a full listing.
        jobs: those that may have processes, listed after it.
        counts_memory: whether slurmctld counts the memory of jobs, suspended ones too, on their nodes.
        named: what jobs and reservations name; None if not all of it is known.
    """
    if isinstance(jobs, Unknown) and not isinstance(jobs, TooDeep):
        return None
    known = Jobs((), complete=False) if isinstance(jobs, Unknown) else jobs
    if not known.complete and not counts_memory:
        return None
    return FullListing(nodes, known.jobs, named, known.complete)
