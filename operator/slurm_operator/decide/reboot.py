"""`scontrol reboot`: the pod of a node that Slurm has rebooted is started anew.

Slurm waits until the node is idle. Then it sets it DOWN with REBOOT_ISSUED and has slurmd run RebootProgram, which does
nothing here: a container has no machine to reboot. It starts no job on the node until a slurmd registers that booted
later (waiting_for_node_boot in src/slurmctld/node_mgr.c, tag slurm-26-05-3-1). The first slurmd of a new pod says that
it did (`slurmd -b`). That registration ends REBOOT_ISSUED, and the drain of `scontrol reboot ASAP`. A person's drain
stays. After ResumeTimeout Slurm gives up: the node is DOWN until its slurmd registers, whether it booted or not.
"""

from __future__ import annotations

from slurm_operator.actions import DeletePod, Purpose
from slurm_operator.decide import nodes as slurm_nodes
from slurm_operator.decide import scale
from slurm_operator.decide.scale import NodeSetState
from slurm_operator.findings import Finding, shown, under_way
from slurm_operator.reasons import Reason
from slurm_operator.state import Evidence, Nodes, SlurmNode


def needs_evidence(state: NodeSetState, nodes: Nodes) -> bool:
    """Whether full listings could lead to the restart of a pod."""
    return bool(_to_restart(state, nodes))


def moves(state: NodeSetState, nodes: Nodes, evidence: Evidence | None, hold: str = "") -> list[DeletePod]:
    """What to do about nodes that Slurm has rebooted.

    Args:
        state: the pods of the node set.
        nodes: the listing with which this pass began.
        evidence: full listings of nodes and jobs made after `nodes`; None if none were made.
        hold: why no pod may be restarted; empty if nothing keeps it.
    """
    if evidence is None or hold:
        return []
    free = {*_to_restart(state, nodes)} & {*_to_restart(state, evidence.nodes)}
    going = sorted(free - slurm_nodes.busy_nodes(evidence.jobs))
    return [DeletePod(name, state.pods[name].uid, Purpose.REBOOT, "as scontrol reboot asked") for name in going]


def findings(state: NodeSetState, nodes: Nodes, hold: str = "") -> list[Finding]:
    """Nodes that start anew, since somebody asked for that."""
    there = [name for name in state.members() if name in nodes and slurm_nodes.is_rebooting(nodes[name])]
    why = f"; it waits: {hold}" if hold else ""
    return (
        [under_way(Reason.NODES_REBOOT, f"{shown(there)} starts anew, as scontrol reboot asked{why}")] if there else []
    )


def _to_restart(state: NodeSetState, nodes: Nodes) -> list[str]:
    """Nodes that were rebooted and whose pods are still the ones of before."""
    there = [name for name in {*state.members(), *state.leaving()} if name in nodes and name in state.pods]
    return [name for name in there if slurm_nodes.may_reboot(nodes[name]) and _is_of_before(state, nodes[name])]


def _is_of_before(state: NodeSetState, node: SlurmNode) -> bool:
    """Whether a pod had registered and was there when Slurm rebooted its node, and its machine can end it."""
    pod, k8s_node = state.pods[node.name], state.k8s_node(node.name)
    if pod.terminating or state.is_lost(node.name) or (k8s_node and k8s_node.away_since):
        return False
    issued = node.reason_set  # Slurm sets the reason with it, and a person who undrains the node takes that away.
    if pod.created is None or (issued is not None and pod.created >= issued):
        return False
    has_registered = node.started is not None and node.started >= pod.created
    return has_registered or (issued is not None and scale.is_record_of(node, pod))
