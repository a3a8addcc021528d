"""Fields of partitions, each with its effect on the partition's line of slurm.conf."""

from __future__ import annotations

from typing import Any, Final

from components import slurm_cluster
from components.config import Config
from components.slurm.conf import slurm_conf
from tests.unit.effects.declared import Effect, Probe, variable


def partition(pair: str) -> Probe:
    """Return whether the first partition's line has this pair of key and value."""

    def probe(config: Config) -> bool:
        lines = slurm_conf.slurm_conf(config).splitlines()
        return pair in next(line for line in lines if line.startswith("PartitionName=")).split()

    return probe


def _hangs(config: Config) -> Any:
    """Return the jobs that the operator looks at."""
    return slurm_cluster.cluster_resource(config)["spec"].get("hangs", [])


def _requeues(config: Config) -> Any:
    """Return whether a job that hangs is queued again."""
    return [row["requeues"] for row in _hangs(config)] == [True]


def _noted_after(config: Config) -> Any:
    """Return after how many seconds the nodes of the first set note a quiet job."""
    return variable(config, "StatefulSet", config.node_sets[0].name, "SLURM_NODE").get("hangsAfter")


EFFECTS: Final[list[Effect]] = [
    ("partitions.0.state", "DRAIN", partition("State=DRAIN"), True),
    ("partitions.0.hidden", True, partition("Hidden=YES"), True),
    ("partitions.0.hidden", False, partition("Hidden=NO"), True),
    ("partitions.0.defaultTime", "1:00:00", partition("DefaultTime=1:00:00"), True),
    ("partitions.0.defaultTime", "7-0:0:0", partition("DefaultTime=7-0:0:0"), True),
    ("partitions.0.minNodes", 2, partition("MinNodes=2"), True),
    ("partitions.0.maxNodes", 4, partition("MaxNodes=4"), True),
    ("partitions.0.priorityTier", 0, partition("PriorityTier=0"), True),
    ("partitions.0.priorityJobFactor", 10, partition("PriorityJobFactor=10"), True),
    ("partitions.0.qos", "short", partition("QOS=short"), True),
    ("partitions.0.allowAccounts", ["physics", "bio"], partition("AllowAccounts=physics,bio"), True),
    ("partitions.0.denyAccounts", ["guests"], partition("DenyAccounts=guests"), True),
    ("partitions.0.allowQos", ["normal", "short"], partition("AllowQos=normal,short"), True),
    ("partitions.0.denyQos", ["long"], partition("DenyQos=long"), True),
    ("partitions.0.overSubscribe", "FORCE:4", partition("OverSubscribe=FORCE:4"), True),
    ("partitions.0.exclusive", "NODE", partition("Exclusive=NODE"), True),
    ("partitions.0.preemptMode", "REQUEUE", partition("PreemptMode=REQUEUE"), True),
    ("partitions.0.graceTime", 90, partition("GraceTime=90"), True),
    ("partitions.0.defMemPerCpu", "512Mi", partition("DefMemPerCPU=512"), True),
    ("partitions.0.defMemPerGpu", "1Gi", partition("DefMemPerGPU=1024"), True),
    ("partitions.0.defMemPerGpu", "1Gi", partition("DefMemPerCPU=768"), False),
    ("partitions.0.defMemPerNode", "1Gi", partition("DefMemPerNode=1024"), True),
    ("partitions.0.maxMemPerCpu", "1Gi", partition("MaxMemPerCPU=1024"), True),
    # Ours gives way, so that Slurm does not give each job more CPUs for its memory.
    ("partitions.0.maxMemPerCpu", "256Mi", partition("DefMemPerCPU=256"), True),
    ("partitions.0.maxMemPerNode", "1Gi", partition("MaxMemPerNode=1024"), True),
    ("partitions.0.defCpuPerGpu", 8, partition("DefCPUPerGPU=8"), True),
    ("partitions.0.resumeTimeout", 900, partition("ResumeTimeout=900"), True),
    ("partitions.0.options", {"LLN": "YES", "ReqResv": "YES"}, partition("LLN=YES"), True),
    ("partitions.0.hangs.after", "2h", _hangs, [{"partition": "main", "afterSeconds": 7200, "requeues": False}]),
    ("partitions.0.hangs.after", "2h", _noted_after, 7200),
    ("partitions.0.hangs.then", "requeue", _requeues, True),
    # Slurm takes one default of memory, so ours goes.
    ("partitions.0.defMemPerNode", "1Gi", partition("DefMemPerCPU=768"), False),
]

_BY_TIER: Final = ("slurm.options", {"PreemptType": "preempt/partition_prio", "PreemptMode": "CANCEL"})
_ASSOCIATIONS: Final = ("accounting.enforce", ["associations"])
_QOS: Final = ("accounting.qos", [{"name": "short"}, {"name": "long"}])
_GPUS: Final = ("nodeSets.0.gpus", {"type": "h100", "perNode": 2})
BESIDES: Final[dict[str, tuple[str, Any]]] = {
    "partitions.0.preemptMode": _BY_TIER,
    "partitions.0.graceTime": _BY_TIER,
    "partitions.0.allowAccounts": _ASSOCIATIONS,
    "partitions.0.denyAccounts": _ASSOCIATIONS,
    "partitions.0.qos": ("accounting", {"mode": "mariadb", "enforce": ["safe"], "qos": [{"name": "short"}]}),
    "partitions.0.allowQos": _QOS,
    "partitions.0.denyQos": _QOS,
    "partitions.0.defMemPerGpu": _GPUS,
    "partitions.0.defCpuPerGpu": _GPUS,
}
"""Field → what it needs in another section."""
