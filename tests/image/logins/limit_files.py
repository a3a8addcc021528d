"""Ways by which a job asks slurmstepd to open a limit of a control group."""

from __future__ import annotations

import shlex

from tests.image.small_cluster import SmallCluster

NUMBER = "31337"
"""Jobs write this number to a limit. With it as its limit of processes a pod would run on."""
SAYS = f"echo {NUMBER}; echo {NUMBER} >&2"
WAYS = {
    "output": f"timeout 50 sbatch -Q --wait -o {{file}} -e own --wrap '{SAYS}'",
    "error": f"timeout 50 sbatch -Q --wait -e {{file}} -o own --wrap '{SAYS}'",
    "appended": f"timeout 50 sbatch -Q --wait --open-mode=append -o {{file}} -e own --wrap '{SAYS}'",
    "input": "timeout 50 sbatch -Q --wait -i {file} -o own --wrap 'cat; echo was read'; cat own",
    "a task's own": f"ln -sfn {{file}} name.0; timeout 40 srun -Q -n1 -o name.%t echo {NUMBER}",
}
READ = "was read"


def ways_in(cluster: SmallCluster, path: str, user: int) -> list[str]:
    """Ways that led to a limit of the worker's pod.

    Args:
        cluster: where.
        path: of the limit, which the user owns meanwhile.
        user: of the jobs.

    Raises:
        AssertionError: the user can't write it in the pod's own root, so that nothing is proved.
    """
    before = cluster.pod(f"cat {path}").stdout.strip()
    cluster.pod(f"chown {user} {path}").check_returncode()
    try:
        found = [name for name in WAYS if leads_to(cluster, name, path, user)]
        by_himself = shlex.quote(f"echo {NUMBER} > {path}")
        cluster.pod(f"setpriv --reuid={user} --clear-groups sh -c {by_himself}").check_returncode()
        assert cluster.pod(f"cat {path}").stdout.strip() == NUMBER != before
    finally:
        cluster.pod(f"echo {before} > {path}; chown 0 {path}").check_returncode()
    return found


def leads_to(cluster: SmallCluster, name: str, path: str, user: int) -> bool:
    """Return whether a job of the user wrote or read the file by the named way."""
    done = cluster.jail(f"rm -f own; {WAYS[name].format(file=path)}", user=user, seconds=70)
    return READ in done.stdout or cluster.jail(f"cat {path}", user=user).stdout.strip().endswith(NUMBER)
