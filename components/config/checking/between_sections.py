"""Rules between sections of the configuration, such as partitions and the node sets that they name.

Rules of ON_CONFIG read the whole configuration. Rules of ON_NODE_SET are also called for each node set. Rules inside
one section stand in its model.
"""

from collections.abc import Iterator
from typing import Final

from components.config.accounting import AccountingMode
from components.config.checking import addon_rules, health_rules, topology_rules, volume_rules
from components.config.checking.gres_rules import gres_of_all_sets, mig_strategy
from components.config.nodes.line_options import all_sockets_reserved
from components.config.nodes.node_sets import NodeSet
from components.config.program import Config, OperatorMode
from components.config.rule import Violation, named_twice, one_of, rows_with
from contract import commands


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
                want = one_of("the name of a node set", sets)
                yield Violation("partitions", index, "nodeSets", position, want=want)
            elif member in members[:position]:
                yield Violation("partitions", index, "nodeSets", position, want="each node set once")


def _administrators(config: Config) -> Iterator[Violation]:
    want = (
        "accounting.mode mariadb or external: Slurm keeps its administrators there; without it, administer by "
        f"`{commands.scontrol(config.cluster.namespace, '…')}`"
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


def _locked_memory(config: Config) -> Iterator[Violation]:
    if not any(health_rules.has_rdma(node_set) for node_set in config.node_sets):
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
    by_socket = "cr_socket" in others.get("SelectTypeParameters", "").lower()
    spared = others.get("AllowSpecResourcesUsage", "no").lower() in ("yes", "1", "true")
    if by_socket and not spared and all_sockets_reserved(node_set.options, node_set.resources.cpu):
        # _check_allocatable_sockets of select_cons_tres.c: when the node is known, so the config dry run misses it.
        want = (
            "cores of fewer sockets, or another slurm.options.SelectTypeParameters than CR_Socket_Memory: slurmctld "
            "would end for a node without a socket for jobs"
        )
        yield Violation("options", "CoreSpecCount", want=want)
    overrides = "config_overrides" in others.get("SlurmdParameters", "").lower().split(",")
    if "TmpDisk" in node_set.options and not overrides and "TmpFS" not in others:
        want = (
            "nothing, or slurm.options.SlurmdParameters: config_overrides: slurmd reports the size of the pod's own "
            "/tmp, and Slurm would keep each node out of service for having less"
        )
        yield Violation("options", "TmpDisk", want=want)


def _features(config: Config, node_set: NodeSet) -> Iterator[Violation]:
    """A node set's name is the feature by which partitions find its nodes."""
    sets = {other.name for _, other in rows_with(config.node_sets, "name")}
    for index, feature in enumerate(node_set.features or []):
        if feature == getattr(node_set, "name", None):
            yield Violation("features", index, want="further ones: each node has the name of its set already")
        elif feature in sets:
            want = f"another word: the nodes would also join the partitions of node set {feature}"
            yield Violation("features", index, want=want)
    if node_set.feature_labels and not config.operator.watch_nodes:
        want = "nothing beside operator.watchNodes: false: the operator could not read them"
        yield Violation("featureLabels", want=want)


ON_CONFIG: Final = (
    _node_sets,
    _partitions,
    _members,
    health_rules.node_conditions,
    health_rules.long_checks,
    _administrators,
    _operator_image,
    _database,
    addon_rules.rest_tls,
    addon_rules.feature_discovery,
    addon_rules.gpus_to_come,
    addon_rules.gpus,
    gres_of_all_sets,
    mig_strategy,
    _locked_memory,
    health_rules.health_scripts,
    volume_rules.login_submounts,
    volume_rules.pods,
    topology_rules.one_source,
    topology_rules.plugin,
    topology_rules.used,
)
ON_NODE_SET: Final = (
    _replacements,
    _options,
    _features,
    addon_rules.rdma,
    addon_rules.secondary_networks,
    volume_rules.node_submounts,
    volume_rules.node_pods,
    topology_rules.places,
)
