"""Tells at preview what an edit means for the jobs of the running cluster, as far as Kubernetes knows.

The operator counts jobs in the SlurmCluster's status, and slurmctld reads the ConfigMap that is asked here. A preview
has no key of slurmrestd. See docs/adr/0040.
"""

import datetime
import functools
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

import httpx
import pulumi

from components.config import Config
from components.kubernetes import configured_cluster, kubernetes_reader
from components.kubernetes.kubernetes_reader import UnreachableError
from components.preflight import counted_jobs
from components.preflight.counted_jobs import CountedJobs
from components.preflight.job_effects import Declared, Line, NodeSize, effects
from components.slurm.conf import slurm_conf
from contract import names

OLD_AFTER: Final = datetime.timedelta(minutes=15)
"""An operator that works gives its counts a new time within 11 minutes."""

_PARTITION: Final = re.compile(r"^PartitionName=.*", re.MULTILINE)
_SETTING: Final = re.compile(r'(\w+)=("[^"]*"|\S+)')


@dataclass(frozen=True, slots=True)
class RunningCluster:
    """A cluster in Kubernetes: the lines of its partitions, and its jobs."""

    partitions: Mapping[str, Line]
    jobs: CountedJobs


def partitions(text: str) -> dict[str, Line]:
    """Return the partitions of a slurm.conf that this program wrote: name → keys and values of its line."""
    lines = [dict(_SETTING.findall(line)) for line in _PARTITION.findall(text)]
    return {line["PartitionName"]: line for line in lines}


def declared(config: Config) -> Declared:
    """Return what the configuration declares of partitions and node sets."""
    sizes = {
        node_set.name: NodeSize(
            node_set.resources.cpu, node_set.schedulable_memory_mib, node_set.replicas, node_set.removal
        )
        for node_set in config.node_sets
    }
    return Declared(partitions(slurm_conf.files(config)[names.SLURM_CONF]), sizes)


def _ask(config: Config, connection: httpx.Client) -> RunningCluster | None:
    namespace = config.cluster.namespace
    cluster = kubernetes_reader.slurm_cluster(connection, namespace, config.cluster.name)
    files = kubernetes_reader.item(connection, f"/api/v1/namespaces/{namespace}/configmaps/{names.CONFIG_ACTIVE}")
    if cluster is None or files is None:
        return None
    text = (files.get("data") or {}).get(names.SLURM_CONF, "")
    return RunningCluster(partitions(text), counted_jobs.read(cluster.get("status") or {}))


def read(config: Config) -> RunningCluster | None:
    """Return the cluster that runs; None without one.

    Args:
        config: The configuration: `cluster` and `kubernetes`.

    Raises:
        UnreachableError: The API server cannot be asked, or does not answer in time.
    """
    return configured_cluster.answer(config, functools.partial(_ask, config))


def sentences(config: Config, running: RunningCluster, now: datetime.datetime) -> list[str]:
    """Return what the configuration means for jobs, and how old the counts are if that is too old."""
    told = effects(running.partitions, declared(config), running.jobs)
    counted_at = running.jobs.counted_at
    if told and counted_at is not None and now - counted_at > OLD_AFTER:
        minutes = int((now - counted_at).total_seconds() // 60)
        told.append(f"jobs were counted {minutes} minutes ago: the operator, or Slurm, does not answer")
    return told


def run(config: Config, look: Callable[[Config], RunningCluster | None] = read) -> None:
    """Warn at preview of what the configuration means for jobs. An update has told it in its own preview.

    Args:
        config: The configuration: `checks`, `cluster`, `kubernetes`, `partitions` and `nodeSets`.
        look: Reads what Kubernetes has.
    """
    if not pulumi.runtime.is_dry_run() or not config.checks.asks_for_jobs:
        return
    try:
        running = look(config)
    except UnreachableError as failure:
        pulumi.log.warn(f"checks.jobs: what the plan means for jobs is not known: {failure}")
        return
    for sentence in sentences(config, running, datetime.datetime.now(datetime.UTC)) if running else ():
        pulumi.log.warn(sentence)
