"""Helm charts of NVIDIA's operators."""

from collections.abc import Mapping
from typing import Any, Final

import pulumi
import pulumi_kubernetes as kubernetes

from components.config.addons.gpu_operator import GpuOperator
from components.config.addons.network_operator import NetworkOperator

REPOSITORY: Final = "https://helm.ngc.nvidia.com/nvidia"
"""NVIDIA's chart repository, as the operators' installation guides name it."""


def release(
    chart: str,
    operator: GpuOperator | NetworkOperator,
    values: Mapping[str, Any],
    seconds: int,
    opts: pulumi.ResourceOptions,
) -> kubernetes.helm.v3.Release:
    """A release under the chart's own name: Pulumi would add a random end, and one Kubernetes has one of them.

    Args:
        chart: Name of the chart.
        operator: Its version and namespace.
        values: Its values.
        seconds: How long Pulumi waits for its pods.
        opts: Options of the resource.
    """
    return kubernetes.helm.v3.Release(
        chart,
        name=chart,
        chart=chart,
        version=operator.version,
        namespace=operator.namespace,
        create_namespace=True,
        repository_opts=kubernetes.helm.v3.RepositoryOptsArgs(repo=REPOSITORY),
        values=dict(values),
        timeout=seconds,
        opts=opts,
    )
