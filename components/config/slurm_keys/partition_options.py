"""Each key of a partition in slurm.conf is in one of four lists: typed, this program's own, refused, or free to set.

tests/image/configuration/test_options.py compares them with the keys that the installed Slurm's parser takes.
"""

import re
from typing import Final

from components.config.slurm_keys.line_keys import LineKeys

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
    "Topology",
    "TRESBillingWeights",
)
"""Keys that partitions[].options sets."""

KEYS: Final = LineKeys("a partition", "partitions[]", TYPED, OWNED, REFUSED, ALLOWED)

_YES_OR_NO: Final = ("(?i:yes|no)", "YES or NO")
_NUMBER: Final = ("[0-9]{1,9}|(?i:unlimited|infinite)", "a whole number, or UNLIMITED")
_WORDS: Final = {
    "CpuBind": (
        "(?i:none|no|sockets?|ldoms?|cores?|threads?|off)",
        "none, socket, ldom, core, thread or off: Slurm ignores other words",
    ),
    "LLN": _YES_OR_NO,
    "MaxCPUsPerNode": _NUMBER,
    "MaxCPUsPerSocket": _NUMBER,
    "OverTimeLimit": (
        "[0-9]{1,5}|(?i:unlimited|infinite)",
        "a number of minutes, or UNLIMITED: Slurm reads others as 0",
    ),
    "ReqResv": _YES_OR_NO,
    "RootOnly": _YES_OR_NO,
}
"""Key that options set → what its whole value matches, and what that is in words. The other keys take more."""


def refusal(name: str, value: str) -> str:
    """Return what the value of a key has to be; empty if this one is right."""
    pattern, want = _WORDS.get(name, (".*", ""))
    return "" if re.fullmatch(pattern, value) else want
