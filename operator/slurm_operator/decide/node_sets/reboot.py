"""`scontrol reboot`: the pod of a node that Slurm has rebooted is started anew.

Slurm waits until the node is idle. Then it sets it DOWN with REBOOT_ISSUED and has slurmd run RebootProgram, which does
nothing here: a container can't reboot its host. It starts no job on the node until a slurmd registers that booted
later (waiting_for_node_boot in src/slurmctld/node_mgr.c, tag slurm-26-05-3-1). The first slurmd of a new pod says that
it did (`slurmd -b`). That registration ends REBOOT_ISSUED, and the drain of `scontrol reboot ASAP`. A person's drain
stays. After ResumeTimeout Slurm gives up: the node is DOWN until its slurmd registers, whether it booted or not.

There is one pod for each reboot. If Slurm refuses its slurmd, the reboot is over (clients/slurm/slurmrestd_records.py).
The node is then treated as any other that Slurm refuses.
"""

from __future__ import annotations

from contract.conditions import Reason
from slurm_operator.actions import DeletePod, Purpose
from slurm_operator.decide.nodes import slurm_nodes, waits
from slurm_operator.decide.nodes.workers import NodeSetState, Worker
from slurm_operator.findings import Finding, shown, under_way
from slurm_operator.state.slurm import SlurmNode


def needs_full_listing(state: NodeSetState) -> bool:
    """Return whether full listings could lead to the restart of a pod."""
    return any(_is_of_before(worker, worker.node) for worker in _there(state))


def actions(state: NodeSetState) -> list[DeletePod]:
    """Return the deletions of pods whose nodes Slurm has rebooted."""
    if state.hold:
        return []
    going = [
        worker for worker in _there(state) if _is_of_before(worker, worker.node) and _is_of_before(worker, worker.full)
    ]
    return [DeletePod(worker.name, worker.uid, Purpose.REBOOT, "as scontrol reboot asked") for worker in going]


def findings(state: NodeSetState) -> list[Finding]:
    """Nodes that start anew since somebody asked for that, or do when their jobs have ended."""
    asked = [worker.name for worker in state.members() if worker.node and slurm_nodes.waits_for_reboot(worker.node)]
    when = "as scontrol reboot asked, {} starts anew when its jobs have ended"
    waiting = [under_way(Reason.NODES_REBOOT, when.format(name) + waits.for_jobs([name], state.jobs)) for name in asked]
    there = [worker.name for worker in state.members() if worker.node and slurm_nodes.is_rebooting(worker.node)]
    why = f"; it waits: {state.hold}" if state.hold else ""
    told = f"{shown(there)} starts anew, as scontrol reboot asked{why}"
    return [*([under_way(Reason.NODES_REBOOT, told)] if there else []), *waiting]


def _there(state: NodeSetState) -> list[Worker]:
    return [worker for worker in state.workers.values() if worker.is_there]


def _is_of_before(worker: Worker, node: SlurmNode | None) -> bool:
    """Return whether Slurm rebooted a node, the node is idle, and its pod is older than the reboot."""
    pod = worker.pod
    if node is None or not slurm_nodes.may_reboot(node):
        return False
    if pod is None or pod.terminating or pod.created is None or worker.is_away:
        return False
    issued = node.reason_set  # Slurm sets the reason with it, and a person who undrains the node takes that away.
    if issued is not None and pod.created >= issued:
        return False
    has_registered = node.started is not None and node.started >= pod.created
    return has_registered or (issued is not None and pod.ready)
