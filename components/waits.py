"""Waits at the end of an update: for jobs that can run, and for the nodes of sets that ask for it."""

from typing import Any

import pulumi

from components import availability, nodes_ready
from components.config import Config
from components.config.values.quantities import duration_seconds
from components.control import operator


def declare(
    parent: pulumi.Resource, config: Config, revision: pulumi.Output[str], cluster: pulumi.CustomResource
) -> pulumi.CustomResource:
    """Declare the waits, and return the one for jobs.

    Args:
        parent: The parent of all of them.
        config: The configuration: `kubernetes`, `timeouts`, `cluster`, `operator` and `nodeSets`.
        revision: Of the declared objects.
        cluster: The SlurmCluster, which comes before.
    """
    inputs = {
        **_inputs(config, config.timeouts.available),
        "operatorImage": operator.image(config),
        "cluster": config.cluster.name,
    }
    after_cluster = pulumi.ResourceOptions(parent=parent, depends_on=[cluster])
    available = availability.Availability("availability", revision, inputs, after_cluster)
    for node_set in config.node_sets:
        if node_set.wait_for_nodes:
            inputs = {
                **_inputs(config, config.timeouts.nodes),
                "nodeSet": node_set.name,
                "replicas": node_set.replicas,
            }
            after_jobs = pulumi.ResourceOptions(parent=parent, depends_on=[available])
            nodes_ready.NodesReady(f"{node_set.name}-nodes-ready", inputs, after_jobs)
    return available


def _inputs(config: Config, timeout: str) -> dict[str, Any]:
    access = config.kubernetes
    return {
        "namespace": config.cluster.namespace,
        "seconds": duration_seconds(timeout),
        "context": access.context,
        "kubeconfig": pulumi.Output.secret(access.kubeconfig.get_secret_value()) if access.kubeconfig else None,
    }
