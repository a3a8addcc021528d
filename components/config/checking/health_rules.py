"""Rules about health checks and the partitions and node sets that they name."""

from collections.abc import Iterator
from contextlib import suppress

from components.config.model import NotParsedError
from components.config.nodes.health import HEALTH_SECONDS
from components.config.nodes.long_checks import Builtin
from components.config.partitions import Partition
from components.config.program import Config
from components.config.rule import Violation, one_of, rows_with
from components.config.values.quantities import duration_seconds, slurm_seconds
from contract.site_scripts import Kind


def node_conditions(config: Config) -> Iterator[Violation]:
    """Node conditions are readable, and name node sets that there are."""
    conditions = config.health.node_conditions
    if conditions and not config.operator.watch_nodes:
        want = "nothing beside operator.watchNodes: false: the operator could not read them"
        yield Violation("health", "nodeConditions", want=want)
    sets = [node_set.name for node_set in config.node_sets]
    for index, condition in enumerate(conditions):
        for position, name in enumerate(getattr(condition, "node_sets", ())):
            if name not in sets:
                want = one_of("the name of a node set", sets)
                yield Violation("health", "nodeConditions", index, "nodeSets", position, want=want)


def long_checks(config: Config) -> Iterator[Violation]:
    """A check's jobs must fit their partition."""
    if not config.health.long_checks:
        return
    partitions = {partition.name: partition for partition in config.effective_partitions}
    sets = [node_set for _, node_set in rows_with(config.node_sets, "name")]
    if not partitions:
        return
    without_gpus = {node_set.name for node_set in sets if getattr(node_set, "gpus", None) is None}
    without_rdma = {node_set.name for node_set in sets if not has_rdma(node_set)}
    for index, check in enumerate(config.health.long_checks):
        with suppress(NotParsedError):
            partition = partitions.get(check.partition)
            if partition is None:
                want = one_of("the name of a partition", partitions)
                yield Violation("health", "longChecks", index, "partition", want=want)
                continue
            if wrong_limit := _node_limit(partition, check.nodes):
                jobs = "one node" if check.nodes == 1 else f"{check.nodes} nodes"
                want = f"a partition that takes jobs of {jobs}: {wrong_limit} of {check.partition}"
                yield Violation("health", "longChecks", index, "partition", want=want)
            bare = [name for name in partition.node_sets if name in without_gpus]
            if check.builtin is not None and check.builtin.needs_gpus and bare:
                want = f"a partition whose nodes all have GPUs, as {check.builtin} needs: {', '.join(bare)} has none"
                yield Violation("health", "longChecks", index, "partition", want=want)
            bare = [name for name in partition.node_sets if name in without_rdma]
            if check.builtin is Builtin.IB_WRITE_BW and bare:
                want = f"a partition whose nodes all have network.rdma, as it needs: {', '.join(bare)} has none"
                yield Violation("health", "longChecks", index, "partition", want=want)
            if duration_seconds(check.time_limit) > slurm_seconds(partition.max_time):
                want = f"at most maxTime of partition {check.partition} ({partition.max_time})"
                yield Violation("health", "longChecks", index, "timeLimit", want=want)


def has_rdma(node_set: object) -> bool:
    """Return whether a node set, which may be partly invalid, has RDMA devices."""
    return getattr(getattr(node_set, "network", None), "rdma", None) is not None


def health_scripts(config: Config) -> Iterator[Violation]:
    """The next check of a node begins only after the scripts of the one before."""
    longest = HEALTH_SECONDS + config.slurm.scripts.seconds(Kind.HEALTH_CHECK)
    if longest > HEALTH_SECONDS and config.health.interval_seconds <= longest:
        want = f"more than {longest}s, which a check may take with the scripts of slurm.scripts.healthCheck"
        yield Violation("health", "interval", want=want)


def _node_limit(partition: Partition, nodes: int) -> str:
    """Return the limit of a partition that a job of so many nodes breaks; empty for none."""
    if (partition.min_nodes or 0) > nodes:
        return f"minNodes {partition.min_nodes}"
    return f"maxNodes {partition.max_nodes}" if (partition.max_nodes or nodes) < nodes else ""
