"""Rules between sections of the configuration, such as partitions and the node sets that they name.

Rules of ON_CONFIG read the whole configuration. Rules of ON_NODE_SET are also called for each node set. Rules inside
one section stand in its model.
"""

from collections.abc import Iterator
from contextlib import suppress
from typing import Final

from components.config.accounting import AccountingMode
from components.config.addons.mode import AddonMode
from components.config.addons.network_operator import NEEDS_OPERATOR
from components.config.checking import topology_rules, volume_rules
from components.config.checking.gres_rules import gres_of_all_sets, mig_strategy
from components.config.model import NotParsedError
from components.config.nodes.health import HEALTH_SECONDS
from components.config.nodes.node_sets import NodeSet
from components.config.partitions import Partition
from components.config.program import Config, OperatorMode
from components.config.rule import Violation, named_twice
from components.config.values.quantities import duration_seconds, slurm_seconds
from contract import names
from contract.site_scripts import Kind


def _node_sets(config: Config) -> Iterator[Violation]:
    yield from named_twice(config.node_sets, "nodeSets")


def _partitions(config: Config) -> Iterator[Violation]:
    yield from named_twice(config.partitions, "partitions")
    default = None
    for index, partition in enumerate(config.partitions):
        if getattr(partition, "default", False):
            if default is not None:
                want = f"one default partition at most; partitions[{default}] is one already"
                yield Violation("partitions", index, "default", want=want)
            default = index


def _members(config: Config) -> Iterator[Violation]:
    sets = [node_set.name for node_set in config.node_sets]
    for index, partition in enumerate(config.partitions):
        members = getattr(partition, "node_sets", ())
        for position, member in enumerate(members):
            if member not in sets:
                want = f"the name of a node set; there are: {', '.join(sets) or 'none'}"
                yield Violation("partitions", index, "nodeSets", position, want=want)
            elif member in members[:position]:
                yield Violation("partitions", index, "nodeSets", position, want="each node set once")


def _node_conditions(config: Config) -> Iterator[Violation]:
    conditions = config.health.node_conditions
    if conditions and not config.operator.watch_nodes:
        want = "nothing beside operator.watchNodes: false: the operator could not read them"
        yield Violation("health", "nodeConditions", want=want)
    sets = [node_set.name for node_set in config.node_sets]
    for index, condition in enumerate(conditions):
        for position, name in enumerate(getattr(condition, "node_sets", ())):
            if name not in sets:
                want = f"the name of a node set; there are: {', '.join(sets) or 'none'}"
                yield Violation("health", "nodeConditions", index, "nodeSets", position, want=want)


def _long_checks(config: Config) -> Iterator[Violation]:
    """A check's jobs must fit their partition."""
    if not config.health.long_checks:
        return
    partitions = {partition.name: partition for partition in config.effective_partitions}
    without_gpus = {node_set.name for node_set in config.node_sets if getattr(node_set, "gpus", None) is None}
    for index, check in enumerate(config.health.long_checks):
        with suppress(NotParsedError):
            partition = partitions.get(check.partition)
            if partition is None:
                want = f"the name of a partition; there are: {', '.join(partitions) or 'none'}"
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
            if duration_seconds(check.time_limit) > slurm_seconds(partition.max_time):
                want = f"at most maxTime of partition {check.partition} ({partition.max_time})"
                yield Violation("health", "longChecks", index, "timeLimit", want=want)


def _node_limit(partition: Partition, nodes: int) -> str:
    """Return the limit of a partition that a job of so many nodes breaks; empty for none."""
    if (partition.min_nodes or 0) > nodes:
        return f"minNodes {partition.min_nodes}"
    return f"maxNodes {partition.max_nodes}" if (partition.max_nodes or nodes) < nodes else ""


def _administrators(config: Config) -> Iterator[Violation]:
    want = (
        "accounting.mode mariadb or external: Slurm keeps its administrators there; without it, administer by "
        f"`kubectl exec {names.CONTROLLER}-0 -- scontrol`"
    )
    for index, user in enumerate(config.login.users if not config.accounting.is_on else ()):
        for key in ("admin", "operator"):
            if getattr(user, key, False):
                yield Violation("login", "users", index, key, want=want)


def _operator_image(config: Config) -> Iterator[Violation]:
    if config.operator.mode is OperatorMode.INSTALL and config.images.operator is None:
        yield Violation("images", "operator", want="the operator's image, or operator.mode: existing")


def _database(config: Config) -> Iterator[Violation]:
    mode = config.accounting.mode
    if mode is AccountingMode.MARIADB:
        if config.images.database is None:
            want = "MariaDB's image, or another accounting.mode than mariadb"
            yield Violation("images", "database", want=want)
    elif config.credentials.existing_database_secret is not None:
        want = f"nothing: accounting.mode is {mode}, and this is for mariadb"
        yield Violation("credentials", "existingDatabaseSecret", want=want)


def _rest_tls(config: Config) -> Iterator[Violation]:
    if config.rest.tls and not config.certificates.is_on:
        want = "nothing, or certificates.mode: install or existing: there is nobody to issue a certificate"
        yield Violation("rest", "tls", want=want)


def _feature_discovery(config: Config) -> Iterator[Violation]:
    if config.gpu_operator.brings_feature_discovery and config.network_operator.brings_feature_discovery:
        want = "false for one of gpuOperator and networkOperator: both charts would bring Node Feature Discovery"
        yield Violation("gpuOperator", "nodeFeatureDiscovery", want=want)
        want = (
            "false, or gpuOperator.nodeFeatureDiscovery: false: two of them in one Kubernetes undo each other's labels"
        )
        yield Violation("networkOperator", "nodeFeatureDiscovery", want=want)


def _gpus_to_come(config: Config) -> Iterator[Violation]:
    if config.checks.cluster and config.gpu_operator.mode is AddonMode.INSTALL:
        want = "false while gpuOperator.mode is install: nodes offer their GPUs only after it is there"
        yield Violation("checks", "cluster", want=want)


def _gpus(config: Config) -> Iterator[Violation]:
    if config.gpu_operator.mode is not AddonMode.OFF:
        return
    for index, node_set in enumerate(config.node_sets):
        gpus = getattr(node_set, "gpus", None)
        if gpus is not None and not gpus.given & {"devices", "multipleFiles"}:
            want = (
                "gpuOperator.mode: install, or existing where the nodes offer GPUs already (it is off, so nothing "
                f"brings them); or nodeSets[{index}].gpus.devices, the device files, where another device plugin does"
            )
            yield Violation("nodeSets", index, "gpus", want=want)


def _locked_memory(config: Config) -> Iterator[Violation]:
    if not any(node_set.network.rdma for node_set in config.node_sets):
        return
    for key in config.slurm.options:
        if key.lower() == "propagateresourcelimits":
            want = (
                "nothing, or limits in PropagateResourceLimitsExcept: node sets with RDMA give jobs the nodes' own "
                "limit of locked memory, and Slurm takes one of the two keys"
            )
            yield Violation("slurm", "options", key, want=want)


def _replacements(config: Config, node_set: NodeSet) -> Iterator[Violation]:
    if node_set.reactions.replace and not config.operator.watch_nodes:
        want = "false beside operator.watchNodes: false, or nodes that the operator may see"
        yield Violation("reactions", "replace", want=want)


def _options(config: Config, node_set: NodeSet) -> Iterator[Violation]:
    """Options that have no effect, or a bad one, without another of Slurm's settings."""
    if "CoreSpecCount" in node_set.options and not config.slurm.constrain_cores:
        want = "nothing, or slurm.constrainCores: true: without it jobs would share the cores that it takes from them"
        yield Violation("options", "CoreSpecCount", want=want)
    others = config.slurm.slurm_conf_options
    overrides = "config_overrides" in others.get("SlurmdParameters", "").lower().split(",")
    if "TmpDisk" in node_set.options and not overrides and "TmpFS" not in others:
        want = (
            "nothing, or slurm.options.SlurmdParameters: config_overrides: slurmd reports the size of the pod's own "
            "/tmp, and Slurm would keep each node out of service for having less"
        )
        yield Violation("options", "TmpDisk", want=want)


def _features(config: Config, node_set: NodeSet) -> Iterator[Violation]:
    """A node set's name is the feature by which partitions find its nodes."""
    sets = {other.name for other in config.node_sets}
    for index, feature in enumerate(node_set.features or []):
        if feature == node_set.name:
            yield Violation("features", index, want="further ones: each node has the name of its set already")
        elif feature in sets:
            want = f"another word: the nodes would also join the partitions of node set {feature}"
            yield Violation("features", index, want=want)
    if node_set.feature_labels and not config.operator.watch_nodes:
        want = "nothing beside operator.watchNodes: false: the operator could not read them"
        yield Violation("featureLabels", want=want)


def _rdma(config: Config, node_set: NodeSet) -> Iterator[Violation]:
    operator, rdma = config.network_operator, node_set.network.rdma
    if rdma is None:
        return
    offered = [f"{operator.resource_prefix}/{pool.name}" for pool in operator.pools]
    if not operator.is_on:
        yield Violation("network", "rdma", "resource", want=NEEDS_OPERATOR)
    elif offered and rdma.resource not in offered:
        want = f"a resource of networkOperator.pools; there are: {', '.join(offered)}"
        yield Violation("network", "rdma", "resource", want=want)


def _secondary_networks(config: Config, node_set: NodeSet) -> Iterator[Violation]:
    operator, secondary = config.network_operator, node_set.network.secondary
    if not operator.is_on and secondary:
        yield Violation("network", "secondary", want=NEEDS_OPERATOR)
    if operator.mode is not AddonMode.INSTALL:
        return
    declared = [network.name for network in operator.networks]
    for position, name in enumerate(secondary):
        if name not in declared:
            want = f"a name of networkOperator.networks; there are: {', '.join(declared) or 'none'}"
            yield Violation("network", "secondary", position, want=want)


def _health_scripts(config: Config) -> Iterator[Violation]:
    """The next check of a node begins only after the scripts of the one before."""
    longest = HEALTH_SECONDS + config.slurm.scripts.seconds(Kind.HEALTH_CHECK)
    if longest > HEALTH_SECONDS and config.health.interval_seconds <= longest:
        want = f"more than {longest}s, which a check may take with the scripts of slurm.scripts.healthCheck"
        yield Violation("health", "interval", want=want)


ON_CONFIG: Final = (
    _node_sets,
    _partitions,
    _members,
    _node_conditions,
    _long_checks,
    _administrators,
    _operator_image,
    _database,
    _rest_tls,
    _feature_discovery,
    _gpus_to_come,
    _gpus,
    gres_of_all_sets,
    mig_strategy,
    _locked_memory,
    _health_scripts,
    volume_rules.login_submounts,
    volume_rules.pods,
    topology_rules.one_source,
    topology_rules.used,
)
ON_NODE_SET: Final = (
    _replacements,
    _options,
    _features,
    _rdma,
    _secondary_networks,
    volume_rules.node_submounts,
    volume_rules.node_pods,
    topology_rules.places,
)
