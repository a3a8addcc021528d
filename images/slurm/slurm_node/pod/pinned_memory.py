"""The limit of locked memory. Jobs inherit slurmd's, unless Slurm propagates the submitter's.

RDMA pins the buffers that an adapter writes to. The kernel counts them against this limit for every process without
IPC_LOCK. A job's user has no capability, and containers start with 8 MiB or less.
"""

import resource

from slurm_node.pod.log import say

_NO_LIMIT = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)


def raise_limit() -> None:
    """Removes this process's limit. If the pod may not, it raises the limit as far as possible and logs that."""
    hard = resource.getrlimit(resource.RLIMIT_MEMLOCK)[1]
    try:
        resource.setrlimit(resource.RLIMIT_MEMLOCK, _NO_LIMIT)
    except (ValueError, PermissionError):
        resource.setrlimit(resource.RLIMIT_MEMLOCK, (hard, hard))
        say(
            f"jobs can pin {hard // 1024} KiB of memory each and no more, which is too little for RDMA:"
            " the pod lacks SYS_RESOURCE; LimitMEMLOCK=infinity of the node's container runtime would do too"
        )
