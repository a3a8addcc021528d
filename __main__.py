"""Declares one Slurm cluster on Kubernetes from the stack's configuration."""

import signal
import sys

import pulumi

from components import config as configuration
from components import release
from components.control import ownership
from components.kubernetes.provider import kubernetes_provider
from components.preflight import (
    account_checks,
    cluster_checks,
    job_checks,
    preemption,
    priority_weights,
    topology_tree,
    update_windows,
)
from components.slurm_cluster import SlurmCluster


def main() -> None:
    """Read the whole configuration, then declare everything: a wrong configuration touches nothing."""
    config = configuration.from_pulumi()
    cluster_checks.run(config)
    update_windows.run(config)
    preemption.run(config)
    priority_weights.run(config)
    job_checks.run(config)
    account_checks.run(config)
    topology_tree.run(config)
    options = pulumi.ResourceOptions(provider=kubernetes_provider(config))
    cluster = SlurmCluster(config.cluster.name, config, options, ownership.read(config))
    pulumi.export("namespace", cluster.namespace)
    pulumi.export("loginAddress", cluster.login_address)
    if config.login.sets:
        pulumi.export("loginSetAddresses", cluster.login_set_addresses)
    pulumi.export("restAddress", cluster.rest_address)
    pulumi.export("conditionCommand", cluster.condition_command)
    pulumi.export("watchNodesCommand", cluster.watch_nodes_command)
    pulumi.export("version", release.version())


# Pulumi ends this program by SIGINT when a resource has failed. A traceback from here would hide its error.
signal.signal(signal.SIGINT, lambda *_: sys.exit(1))
main()
