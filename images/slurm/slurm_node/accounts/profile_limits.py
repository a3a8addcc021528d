"""Limits of a user's start-up files, which slurmd runs by `su` before the job exists (`sbatch --export=NONE`).

They run in no job's control group. slurmd ends them after 120 s (src/common/env.c). native/login/su.c does the rest.
"""

from slurm_node.accounts import login_limits
from slurm_node.pod import paths
from slurm_node.pod.cgroups import Controllers
from slurm_node.pod.settings import Login

MEMORY_MIB = 512
"""Memory for one user's files. It counts as the pod's, outside of any job."""
PROCESSES = 256


def install(controllers: Controllers) -> None:
    """Writes the rules, in the form of a login's. Without them `su` runs nothing.

    Args:
        controllers: the pod's control groups, writable.
    """
    login_limits.write(Login(memory_mib=MEMORY_MIB, processes=PROCESSES), controllers, paths.PROFILE_LIMITS)
