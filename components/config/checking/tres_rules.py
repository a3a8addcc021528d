"""Rules about trackable resources (TRES) and their weights: slurmctld does not start with one that it does not know.

The config dry run starts slurmctld without slurmdbd, which alone counts other resources than Slurm's own. So it can't
try these.
"""

import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Final

from components.config.model import NotParsedError
from components.config.nodes.gres import tracked
from components.config.partitions import Partition
from components.config.program import Config
from components.config.rule import Violation, rows_with

_ALWAYS: Final = ("cpu", "mem", "node", "energy", "billing", "pages", "vmem", "fs/disk")
"""Resources that Slurm always counts (DEFAULT_ACCOUNTING_TRES)."""
_WITH_GPUS: Final = ("gres/gpumem", "gres/gpuutil")
_TRACKED: Final = re.compile(r"(?i:cpu|mem|node|energy|billing|pages|vmem|(gres|license|bb|fs|ic)/[^/]+)")
"""A resource that slurmctld can count (_init_tres of controller.c)."""
_WEIGHT: Final = re.compile(r"-?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?[KMGTPkmgtp]?")


def _counted(config: Config) -> list[str]:
    """Return the resources that slurmctld counts."""
    if not config.accounting.is_on:
        return [*_ALWAYS]
    own = tracked(kind for _, node_set in rows_with(config.node_sets, "gpus", "gres") for kind in node_set.gres_kinds)
    usage = _WITH_GPUS if "gres/gpu" in own else ()
    option = config.slurm.slurm_conf_options.get("AccountingStorageTRES", "")
    return list(dict.fromkeys([*_ALWAYS, *own, *usage, *filter(None, option.split(","))]))


def _wanted(config: Config, weights: str) -> str:
    """Return what weights have to be; empty if slurmctld takes these."""
    items = [(item, *item.partition("=")[::2]) for item in weights.split(",")]
    wanted = []
    if wrong := [item for item, _, weight in items if not _WEIGHT.fullmatch(weight)]:
        wanted.append(f"weights such as CPU=1.0,Mem=0.25G in place of {', '.join(wrong)}")
    with suppress(NotParsedError):
        counted = _counted(config)
        known = {resource.lower() for resource in counted}
        if uncounted := [resource for _, resource, _ in items if resource.lower() not in known]:
            more = "" if config.accounting.is_on else ", or accounting.mode mariadb or external, which counts more"
            kinds = ", ".join(counted)
            wanted.append(f"resources that Slurm counts ({kinds}){more}, in place of {', '.join(uncounted)}")
    return "; ".join(wanted)


def of_partition(config: Config, partition: Partition) -> Iterator[Violation]:
    """A partition's jobs are billed by resources that are counted."""
    weights = partition.options.get("TRESBillingWeights")
    if weights is not None and (want := _wanted(config, weights)):
        yield Violation("options", "TRESBillingWeights", want=want)


def counted(config: Config) -> Iterator[Violation]:
    """Resources that accounting has to count are resources of Slurm."""
    for name, resources in config.slurm.options.items():
        wrong = [one for one in resources.split(",") if one and not _TRACKED.fullmatch(one)]
        if name.lower() == "accountingstoragetres" and wrong:
            right = "resources such as gres/gpu, gres/gpu:a100, license/matlab or fs/lustre"
            want = f"{right}, in place of {', '.join(wrong)}"
            yield Violation("slurm", "options", name, want=want)


def of_priority(config: Config) -> Iterator[Violation]:
    """Jobs have their priority by resources that are counted."""
    for name, weights in config.slurm.options.items():
        if name.lower() == "priorityweighttres" and (want := _wanted(config, weights)):
            yield Violation("slurm", "options", name, want=want)
