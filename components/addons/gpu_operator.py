"""NVIDIA's GPU operator, by its Helm chart."""

from collections.abc import Sequence
from typing import Any, Final

import pulumi

from components.addons import nvidia_chart
from components.config import Config
from components.config.addons.mode import AddonMode, Provider
from components.config.nodes.gpus import NO_RUNTIME_CLASS
from components.kubernetes.component import Component

CHART: Final = "gpu-operator"
_DEADLINE_SECONDS: Final = 900
"""For the operator's own pods. Pulumi does not wait for what it starts on the nodes: a driver takes minutes to build.
GPU nodes become ready when Kubernetes can place their pods."""


def is_installed(config: Config) -> bool:
    """Return whether this program installs the chart."""
    return config.gpu_operator.mode is AddonMode.INSTALL


def values(config: Config) -> dict[str, Any]:
    """Return the chart's values, under their names in deployments/gpu-operator/values.yaml of the chart's source.

    Args:
        config: The configuration: `gpuOperator`, and the runtime class and tolerations of `nodeSets`.
    """
    own = config.gpu_operator
    return {
        "operator": {"runtimeClass": _runtime_class(config)},
        "nfd": {"enabled": own.node_feature_discovery},
        "cdi": {"enabled": own.cdi},
        "mig": {"strategy": str(own.mig_strategy)},
        "driver": {"enabled": own.driver is Provider.OPERATOR},
        "toolkit": {"enabled": own.toolkit is Provider.OPERATOR},
        "gdrcopy": {"enabled": own.gdrcopy},
        "dcgmExporter": {
            "enabled": own.dcgm_exporter,
            "serviceMonitor": {"enabled": own.service_monitor},
        },
        "daemonsets": {"tolerations": _tolerations(config)},
    }


def _runtime_class(config: Config) -> str:
    """Return the RuntimeClass that the node sets name. The operator makes it."""
    named = {node_set.gpus.runtime_class for node_set in config.node_sets if node_set.gpus} - {NO_RUNTIME_CLASS}
    return min(named, default="nvidia")


def _tolerations(config: Config) -> list[dict[str, Any]]:
    """Return the tolerations of all GPU node sets, for the operator's pods: a node without its driver has no GPUs."""
    default = {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}
    ours = [
        toleration.model_dump(by_alias=True, exclude_none=True)
        for node_set in config.node_sets
        if node_set.gpus
        for toleration in node_set.tolerations
    ]
    # Each toleration once, in the order of the configuration.
    return [default, *(one for index, one in enumerate(ours) if one != default and one not in ours[:index])]


class GpuOperator(Component):
    """NVIDIA's GPU operator: driver, container toolkit, device plugin, labels and metrics of GPU nodes.

    The chart is pinned by `gpuOperator.version`; components/config/addons/gpu_operator.py has its default and source.
    It is not in the ledger: Helm owns what it makes.

    Args:
        name: Name of the resource in the stack.
        config: The configuration: `gpuOperator` and `nodeSets`.
        depends_on: Resources that come first.
        opts: Options of the resource.

    Attributes:
        release: The Helm release.
    """

    def __init__(
        self,
        name: str,
        config: Config,
        depends_on: Sequence[pulumi.Input[pulumi.Resource]] = (),
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__(name, opts)
        child = pulumi.ResourceOptions(parent=self, depends_on=list(depends_on))
        self.release = nvidia_chart.release(CHART, config.gpu_operator, values(config), _DEADLINE_SECONDS, child)
        self.register_outputs({"status": self.release.status, "version": config.gpu_operator.version})
