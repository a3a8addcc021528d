"""Keys of slurm.conf that the program and the operator must treat alike."""

from typing import Final

WORKER_START: Final = {
    # How slurmd listens: it keeps its socket when it reads a configuration.
    "communicationparameters": frozenset({"noinaddrany", "enableipv6", "disableipv4"}),
    # What it says of its hardware: slurmctld ignores another word about a node that it knows.
    "slurmdparameters": frozenset({"allow_ecores", "l3cache_as_socket", "numa_node_as_socket"}),
}
"""Key in lower case → words of its value that a worker takes only with a new pod (slurm.conf(5), slurmd.c)."""
