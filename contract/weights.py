"""Slurm's weights of the nodes of a set: low ordinals are filled first, so that a smaller set finds the others free."""

from typing import Final

LAST_GROUP: Final = 15
"""Number of the last group of nodes that share a weight: slurmctld makes a scheduling set of its own for each."""


def node_weight(first: int, group: int, ordinal: int) -> int:
    """Return Slurm's weight of a node.

    Args:
        first: Weight of the first nodes of the set.
        group: Number of nodes that share a weight.
        ordinal: The node's number in its set.
    """
    return first + min(LAST_GROUP, ordinal // max(1, group))
