"""Facts of slurm.conf that the program, the operator and nodes must treat alike."""

from typing import Final

LAST_GROUP: Final = 15
"""Number of the last group of nodes that share a weight: slurmctld makes a scheduling set of its own for each."""
WORKER_START: Final = {
    # Options of slurmd's socket, which a reconfigure keeps.
    "communicationparameters": frozenset({"noinaddrany", "enableipv6", "disableipv4"}),
    # Options of the hardware that slurmd reports: slurmctld ignores a change for a node that it knows.
    "slurmdparameters": frozenset({"allow_ecores", "l3cache_as_socket", "numa_node_as_socket"}),
}
"""Key in lower case → words of its value that take effect only with a new worker pod (slurm.conf(5), slurmd.c)."""


def slurm_node_set(node_set: str) -> str:
    """Return the Slurm-side NodeSet name of a node set.

    slurmctld refuses to start when a NodeSet has the name of a node. A node name is a DNS label, so the underscore
    keeps them apart.
    """
    return f"ns_{node_set.replace('-', '_')}"


def node_weight(first: int, group: int, ordinal: int) -> int:
    """Return Slurm's weight of a node. Low ordinals are filled first, so that a smaller set finds the others free.

    Args:
        first: Weight of the first nodes of the set.
        group: Number of nodes that share a weight.
        ordinal: The node's number in its set.
    """
    return first + min(LAST_GROUP, ordinal // max(1, group))
