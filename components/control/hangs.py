"""The part of the SlurmCluster from which the operator knows when a job hangs."""

from typing import Any

from components.config import Config
from components.config.nodes.hangs import Then


def declared(config: Config) -> list[dict[str, Any]]:
    """Return the partitions whose jobs are looked at, as the SlurmCluster has them."""
    return [
        {
            "partition": partition.name,
            "afterSeconds": partition.hangs.after_seconds,
            "requeues": partition.hangs.then is Then.REQUEUE,
        }
        for partition in config.effective_partitions
        if partition.hangs
    ]
