"""Commands that messages tell people to run, whole: each can be pasted where kubectl reaches the cluster."""

from contract import names


def kubectl(namespace: str, words: str) -> str:
    """Return a kubectl command about objects of a namespace."""
    return f"kubectl -n {namespace} {words}"


def scontrol(namespace: str, words: str) -> str:
    """Return an scontrol command in slurmctld's pod, whose root is Slurm's administrator."""
    return kubectl(namespace, f"exec {names.CONTROLLER}-0 -- scontrol {words}")


def squeue(namespace: str, words: str) -> str:
    """Return an squeue command in slurmctld's pod."""
    return kubectl(namespace, f"exec {names.CONTROLLER}-0 -- squeue {words}")


def sacctmgr(namespace: str, words: str) -> str:
    """Return an sacctmgr command in slurmdbd's pod, which asks no question."""
    return kubectl(namespace, f"exec {names.ACCOUNTING}-0 -- sacctmgr -i {words}")
