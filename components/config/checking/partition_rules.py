"""Rules between a partition and the rest of the configuration: node sets, accounting, Slurm's options."""

from collections.abc import Iterator
from typing import Final

from components.config.checking import topology_rules, tres_rules
from components.config.partitions import Partition, PreemptMode
from components.config.program import Config
from components.config.rule import Violation, is_whole, one_of, rows_with
from contract.accounts import NORMAL

_BY_TIER: Final = "preempt/partition_prio"
_IN_THE_DATABASE: Final = {
    "qos": "QOS",
    "allowAccounts": "accounts",
    "denyAccounts": "accounts",
    "allowQos": "QOS",
    "denyQos": "QOS",
}


def _accounting(config: Config, partition: Partition) -> Iterator[Violation]:
    if config.accounting.is_on:
        return
    for key, what in _IN_THE_DATABASE.items():
        if key in partition.given:
            yield Violation(key, want=f"nothing, or accounting.mode mariadb or external: Slurm keeps {what} there")


def _enforced(config: Config, partition: Partition) -> Iterator[Violation]:
    """Yield what Slurm passes over (part_policy_valid_acct of partition_mgr.c, acct_policy.c)."""
    accounting = config.accounting
    if not accounting.is_on or not is_whole(accounting.enforce):
        return
    for key in ("allowAccounts", "denyAccounts"):
        if key in partition.given and not accounting.has_associations:
            want = "nothing, or accounting.enforce: [associations]: without it Slurm admits jobs of every account"
            yield Violation(key, want=want)
    if "qos" in partition.given and not accounting.enforces_limits:
        want = "nothing, or limits or safe in accounting.enforce: Slurm keeps no job to the limits of a QOS else"
        yield Violation("qos", want=want)


def _qos(config: Config, partition: Partition) -> Iterator[Violation]:
    """Yield QOS that nobody declares: slurmctld does not start with one that slurmdbd lacks."""
    if not config.accounting.is_on:
        return
    known = [NORMAL, *filter(None, (getattr(qos, "name", "") for qos in config.accounting.qos))]
    want = one_of("normal, or the name of a QOS of accounting.qos", known)
    if "qos" in partition.given and partition.qos not in known:
        yield Violation("qos", want=want)
    for key, names in (("allowQos", partition.allow_qos), ("denyQos", partition.deny_qos)):
        yield from (Violation(key, index, want=want) for index, name in enumerate(names) if name not in known)


def _gpus(config: Config, partition: Partition) -> Iterator[Violation]:
    members = [node_set for _, node_set in rows_with(config.node_sets, "name") if node_set.name in partition.node_sets]
    if any(getattr(node_set, "gpus", True) for node_set in members):
        return
    for key in ("defMemPerGpu", "defCpuPerGpu"):
        if key in partition.given:
            yield Violation(key, want="nothing, or a node set with GPUs in nodeSets of the partition")


def _preemption(config: Config, partition: Partition) -> Iterator[Violation]:
    options = config.slurm.slurm_conf_options
    if options.get("PreemptType", "").lower() != _BY_TIER:
        for key in ("preemptMode", "graceTime"):
            if key in partition.given:
                want = f"nothing, or slurm.options.PreemptType: {_BY_TIER}: without it Slurm ignores this key"
                yield Violation(key, want=want)
    elif partition.preempt_mode is PreemptMode.SUSPEND and "gang" not in options.get("PreemptMode", "").lower():
        want = "another mode, or slurm.options.PreemptMode: SUSPEND,GANG: suspended jobs would never go on"
        yield Violation("preemptMode", want=want)


def _state(config: Config, partition: Partition) -> Iterator[Violation]:
    if (
        "state" in partition.given
        and "keeppartstate" in config.slurm.slurm_conf_options.get("ReconfigFlags", "").lower()
    ):
        want = "nothing beside slurm.options.ReconfigFlags: KeepPartState, with which slurmctld takes no edit of it"
        yield Violation("state", want=want)


def _alternate(config: Config, partition: Partition) -> Iterator[Violation]:
    others = [other.name for other in config.partitions if other.name != partition.name]
    if "Alternate" in partition.options and partition.options["Alternate"] not in others:
        want = one_of("the name of another partition", others)
        yield Violation("options", "Alternate", want=want)


ON_PARTITION: Final = (
    _accounting,
    _enforced,
    _qos,
    _gpus,
    _preemption,
    _state,
    _alternate,
    topology_rules.of_partition,
    tres_rules.of_partition,
)
