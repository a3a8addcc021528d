"""Keys of slurm.conf that the program and the operator must treat alike."""

from typing import Final

WORKER_START: Final = {
    # Options of slurmd's socket, which a reconfigure keeps.
    "communicationparameters": frozenset({"noinaddrany", "enableipv6", "disableipv4"}),
    # Options of the hardware that slurmd reports: slurmctld ignores a change for a node that it knows.
    "slurmdparameters": frozenset({"allow_ecores", "l3cache_as_socket", "numa_node_as_socket"}),
}
"""Key in lower case → words of its value that take effect only with a new worker pod (slurm.conf(5), slurmd.c)."""
