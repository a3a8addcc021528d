"""Warnings of preemption that a site may expect: jobs that wait for long checks, and grace times that jobs do not get.

They are no errors. A small cluster may have one partition for all, and its checks may take a minute. Where memory is
left for one of two jobs alone, Slurm keeps to a grace time.
"""

from collections.abc import Iterable, Iterator

import pulumi

from components.config import Config
from components.config.nodes.long_checks import LongCheck
from components.config.partitions import Partition, PreemptMode
from components.config.values.quantities import is_slurm_time, slurm_seconds

_BY_TIER = "preempt/partition_prio"
_BY_QOS = "preempt/qos"
_ENDS = frozenset[str]({PreemptMode.CANCEL, PreemptMode.REQUEUE})
"""Modes that free the nodes: a check has all memory of its nodes, and a job that is suspended keeps its memory."""
_DEFAULT_TIER = 1


def lasting(config: Config) -> list[str]:
    """Return a sentence for each check whose jobs some job can't preempt, with its path.

    With preemption by QOS nobody knows here: the QOS of the checks' user stands in slurmdbd.
    """
    return list(_sentences(config))


def without_grace(config: Config) -> list[str]:
    """Return a sentence for each partition whose jobs the gang scheduler ends, with its path (gang.c of slurmctld)."""
    options = config.slurm.slurm_conf_options
    mode = options.get("PreemptMode", "")
    if "GANG" not in mode.upper().split(",") or options.get("PreemptType", "").lower() != _BY_TIER:
        return []
    return [
        f"partitions[{index}].graceTime: with PreemptMode: {mode} Slurm ends a preempted job at once if the node has "
        "memory for both jobs: set slurm.options.PreemptMode to CANCEL or REQUEUE, or preempt by QOS"
        for index, partition in enumerate(config.partitions)
        if partition.grace_time
    ]


def run(config: Config) -> None:
    """Warn of checks that make jobs wait, and of grace times without effect.

    Args:
        config: The configuration: `health.longChecks`, `partitions` and `slurm.options`.
    """
    for sentence in (*lasting(config), *without_grace(config)):
        pulumi.log.warn(sentence)


def _sentences(config: Config) -> Iterator[str]:
    options = config.slurm.slurm_conf_options
    by = options.get("PreemptType", "").lower()
    if by == _BY_QOS:
        return
    exempt = options.get("PreemptExemptTime", "0")
    exempts = is_slurm_time(exempt) and slurm_seconds(exempt) > 0
    partitions = {partition.name: partition for partition in config.effective_partitions}
    for index, check in enumerate(config.health.long_checks):
        own = partitions[check.partition]
        sharing = [other for other in partitions.values() if not {*other.node_sets}.isdisjoint(own.node_sets)]
        others = [other for other in sharing if other is not own]
        modes = (own.preempt_mode or options.get("PreemptMode", "")).upper().split(",")
        if others and by == _BY_TIER and not exempts and not _ENDS.isdisjoint(modes):
            waiting = [other for other in others if _tier(other) <= _tier(own)]
        else:
            waiting = sharing
        if waiting:
            yield _told(index, check, waiting) + (f", without PreemptExemptTime: {exempt}" if exempts else "")


def _tier(partition: Partition) -> int:
    return _DEFAULT_TIER if partition.priority_tier is None else partition.priority_tier


def _told(index: int, check: LongCheck, waiting: Iterable[Partition]) -> str:
    names = ", ".join(partition.name for partition in waiting)
    return (
        f"health.longChecks[{index}].partition: jobs of {names} wait up to {check.time_limit} for a job of "
        f"{check.name}: give the checks a partition of their own with preemptMode: CANCEL and a priorityTier below "
        f"theirs, and set slurm.options to PreemptType: {_BY_TIER} and PreemptMode: CANCEL"
    )
