"""What a user's start-up files may use that slurmd runs by `su` before his job exists (`sbatch --export=NONE`).

They are in no job's control group. slurmd ends them after 120 s (src/common/env.c); the rest is
native/login/su.c's.
"""

from slurm_node.accounts import login_limits
from slurm_node.pod import paths
from slurm_node.pod.cgroups import Controllers
from slurm_node.pod.settings import Login

MEMORY_MIB = 512
"""Of one user's files, as the pod's memory and outside of any job."""
PROCESSES = 256


def install(controllers: Controllers) -> None:
    """Writes the rules, which are a login's; without them `su` runs nothing.

    Args:
        controllers: the pod's control groups, writable.
    """
    login_limits.write(Login(memory_mib=MEMORY_MIB, processes=PROCESSES), controllers, paths.PROFILE_LIMITS)
