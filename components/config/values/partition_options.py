"""Each key of a partition in slurm.conf is in one of four lists: typed, this program's own, refused, or free to set.

tests/image/test_options.py compares them with the keys that the installed Slurm's parser takes.
"""

import difflib
from typing import Final

from components.config.values.validation import wrong

TYPED: Final = {
    "MaxTime": "maxTime",
    "DefaultTime": "defaultTime",
    "DefMemPerCPU": "defMemPerCpu",
    "DefMemPerGPU": "defMemPerGpu",
    "DefMemPerNode": "defMemPerNode",
    "State": "state",
    "Hidden": "hidden",
    "PriorityTier": "priorityTier",
    "PriorityJobFactor": "priorityJobFactor",
    "QOS": "qos",
    "AllowAccounts": "allowAccounts",
    "DenyAccounts": "denyAccounts",
    "AllowQos": "allowQos",
    "DenyQos": "denyQos",
    "MinNodes": "minNodes",
    "MaxNodes": "maxNodes",
    "OverSubscribe": "overSubscribe",
    "Exclusive": "exclusive",
    "PreemptMode": "preemptMode",
    "GraceTime": "graceTime",
    "MaxMemPerCPU": "maxMemPerCpu",
    "MaxMemPerNode": "maxMemPerNode",
    "DefCPUPerGPU": "defCpuPerGpu",
    "ResumeTimeout": "resumeTimeout",
    "PartitionName": "name",
    "Nodes": "nodeSets",
    "Default": "default",
}
"""Key as Slurm writes it → the key of partitions[] that sets it, in the order of a line of slurm.conf."""

_PODS = "nodes are pods, started and removed by the operator"
OWNED: Final = {
    "DisableRootJobs": "slurmstepd would open files for root's jobs with root's rights",
    "SelectTypeParameters": "memory limits of jobs depend on it",
    "PowerDownOnIdle": _PODS,
    "SuspendTime": _PODS,
    "SuspendTimeout": _PODS,
}
"""Key → why this program alone sets it."""

REFUSED: Final = {
    "AllowGroups": "slurmctld knows no groups, since people are in the jail alone, and would admit nobody; "
    "allowAccounts says who may use the partition",
    "Topology": "it names a part of topology.yaml, which this program does not write",
    "ExclusiveUser": "Slurm 26.05 has another key in its place; exclusive: USER says the same",
    "ExclusiveTopo": "Slurm 26.05 has another key in its place; exclusive: TOPO says the same",
    "Priority": "it would set two keys at once; priorityTier and priorityJobFactor set each",
    "Shared": "Slurm has another key in its place; overSubscribe says the same",
}
"""Key → why nobody may set it."""

ALLOWED: Final = (
    "AllocNodes",
    "Alternate",
    "CpuBind",
    "LLN",
    "MaxCPUsPerNode",
    "MaxCPUsPerSocket",
    "OverTimeLimit",
    "ReqResv",
    "RootOnly",
    "TRESBillingWeights",
)
"""Keys that partitions[].options sets."""

_KNOWN: Final = {key.lower(): key for key in (*TYPED, *OWNED, *REFUSED, *ALLOWED)}


def check_partition_option(name: str) -> str:
    """Return the key as it was written.

    Raises:
        PydanticCustomError: A partition has no such key in Slurm, it is written in another case, or it is not free.
    """
    key = _KNOWN.get(name.lower())
    if key is None:
        close = difflib.get_close_matches(name.lower(), _KNOWN, n=1)
        hint = f"; did you mean {_KNOWN[close[0]]}?" if close else ""
        raise wrong(f"a key of a partition that Slurm 26.05 knows{hint}")
    if key in TYPED:
        raise wrong(f"partitions[].{TYPED[key]} in its place, which sets {key}")
    if key in OWNED:
        raise wrong(f"another key: {key} is set by this program, {OWNED[key]}")
    if key in REFUSED:
        raise wrong(f"no {key}: {REFUSED[key]}")
    if key != name:
        raise wrong(f"{key}, as Slurm writes it")
    return name
