"""Waits of an update: for the jail's roots, for jobs that can run, and for the nodes of sets that ask for it."""

from typing import Any

import pulumi

from components import availability, jail_ready, nodes_ready
from components.config import Config
from components.config.values.images import image_revision
from components.config.values.quantities import duration_seconds
from components.control import operator
from components.jail import jail_population


def jail(config: Config, population: jail_population.JailPopulation) -> list[pulumi.CustomResource]:
    """Declare the waits for the jail's roots.

    Args:
        config: The configuration: `kubernetes`, `timeouts`, `cluster`, `jail` and the node sets' `jailImage`.
        population: The Jobs that populate the roots.
    """
    waits: list[pulumi.CustomResource] = []
    for image in jail_population.images(config):
        name = jail_population.job_name(image_revision(image))
        job: Any = population.objects[f"Job/{name}"]
        uid = job.metadata.apply(lambda metadata: getattr(metadata, "uid", None))
        inputs = {**_inputs(config, config.timeouts.populate), "job": name, "uid": uid}
        opts = pulumi.ResourceOptions(parent=population, depends_on=[job])
        waits.append(jail_ready.JailReady(f"{name}-ready", inputs, opts))
    return waits


def declare(
    parent: pulumi.Resource, config: Config, revision: pulumi.Output[str], cluster: pulumi.CustomResource
) -> pulumi.CustomResource:
    """Declare the waits at the end, and return the one for jobs.

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
