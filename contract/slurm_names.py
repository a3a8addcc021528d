"""Names in slurm.conf that follow from names of the configuration."""


def slurm_node_set(node_set: str) -> str:
    """Return the Slurm-side NodeSet name of a node set.

    slurmctld refuses to start when a NodeSet has the name of a node. A node name is a DNS label, so the underscore
    keeps them apart.
    """
    return f"ns_{node_set.replace('-', '_')}"
