"""A warning of fair shares and priorities that have a weight of 0: they decide nothing about waiting jobs.

Slurm's weights are 0 unless somebody sets them (PriorityWeight… in slurm.conf's manual), and so are those of this
program. It is no error: shares can be declared before the day on which they begin to count.
"""

from collections.abc import Iterator
from typing import Final

import pulumi

from components.config import Config
from components.config.accounting import PRIORITY_KEYS

_BASIC: Final = "priority/basic"


def without_effect(config: Config) -> list[str]:
    """Return a sentence for each weight of 0 whose factor is declared, with the first path that declares it.

    It says nothing of TRESBillingWeights and decayHalfLife: limits and sreport also use what they count.
    """
    accounting, options = config.accounting, config.slurm.slurm_conf_options
    declared = dict(_declared(config))
    if options.get("PriorityType", "").lower() == _BASIC:
        given = [f"accounting.priority.{key}" for key in sorted(accounting.priority.given) if key.startswith("weight")]
        paths = [path for group in (given, *declared.values()) for path in group]
        return [f"{_first(paths)} decides nothing: leave slurm.options.PriorityType: {_BASIC} out"] if paths else []
    weights = accounting.priority.model_dump(by_alias=True) if accounting.is_on else {}
    sentences = []
    for key, paths in declared.items():
        name = PRIORITY_KEYS[key]
        if paths and not str(options.get(key, weights.get(name, 0))).strip("0"):
            place = f"accounting.priority.{name}" if accounting.is_on and key not in options else f"slurm.options.{key}"
            sentences.append(f"{_first(paths)} does not change which job starts first: set {place}, which is 0")
    return sentences


def run(config: Config) -> None:
    """Warn of fair shares and priorities without a weight.

    Args:
        config: The configuration: `accounting`, `partitions` and `slurm.options`.
    """
    for sentence in without_effect(config):
        pulumi.log.warn(sentence)


def _declared(config: Config) -> Iterator[tuple[str, list[str]]]:
    """Yield each weight's key of slurm.conf, with the paths of what it weighs."""
    accounts = [(f"accounting.accounts[{index}]", account) for index, account in enumerate(config.accounting.accounts)]
    users = [(f"{path}.users[{at}]", user) for path, account in accounts for at, user in enumerate(account.users)]
    yield "PriorityWeightFairshare", [f"{path}.fairshare" for path, row in (*accounts, *users) if row.fairshare]
    qos = enumerate(config.accounting.qos)
    yield "PriorityWeightQOS", [f"accounting.qos[{index}].priority" for index, one in qos if one.priority]
    partitions = [(index, one.priority_job_factor) for index, one in enumerate(config.partitions)]
    factors = [f"partitions[{index}].priorityJobFactor" for index, factor in partitions if factor is not None]
    yield "PriorityWeightPartition", factors
    yield "PriorityWeightAge", ["accounting.priority.maxAge"] if "maxAge" in config.accounting.priority.given else []


def _first(paths: list[str]) -> str:
    """Return the first path, with the number of others like it."""
    return paths[0] + (f" (and {len(paths) - 1} more)" if len(paths) > 1 else "")
