"""Configuration of NVIDIA's GPU operator, which makes Kubernetes nodes offer their GPUs."""

from collections.abc import Iterator
from enum import StrEnum
from typing import Final

from components.config.addons.mode import AddonMode, Provider
from components.config.model import Model, setting
from components.config.rule import Violation, rule
from components.config.values.images import ChartVersion
from components.config.values.object_names import DnsLabel

CHART_VERSION: Final = "v26.7.0"
"""The release that the values were taken from: deployments/gpu-operator/values.yaml of tag v26.7.0 of
https://github.com/NVIDIA/gpu-operator."""


class MigStrategy(StrEnum):
    """Strategy of the device plugin for MIG devices; the values are the chart's own."""

    NONE = "none"
    SINGLE = "single"
    MIXED = "mixed"


class GpuOperator(Model):
    """NVIDIA's GPU operator: driver, container toolkit, device plugin, node labels, metrics."""

    mode: AddonMode = setting(
        "install: this program installs the Helm chart; existing: the nodes offer GPUs already, by the operator or by "
        "NVIDIA's device plugin and container toolkit alone; off: no GPU node sets, but those with gpus.devices.",
        default=AddonMode.OFF,
    )
    version: ChartVersion = setting("Version of the chart gpu-operator, for install.", default=CHART_VERSION)
    namespace: DnsLabel = setting("Namespace of the operator, for install.", default="gpu-operator")
    driver: Provider = setting(
        "Whether the operator brings the driver, or the nodes' images have it.", default=Provider.OPERATOR
    )
    toolkit: Provider = setting(
        "Whether the operator brings the container toolkit, or the nodes' images have it.", default=Provider.OPERATOR
    )
    cdi: bool = setting("Whether GPUs reach containers by the Container Device Interface.", default=True)
    mig_strategy: MigStrategy = setting(
        "How GPUs that are split by MIG are offered: none, single (as nvidia.com/gpu) or mixed (a resource per size).",
        default=MigStrategy.NONE,
    )
    gdrcopy: bool = setting(
        "Whether the nodes load gdrdrv, by which a network card and the CPU copy to GPU memory with low latency; GPU "
        "node sets then get its device.",
        default=False,
    )
    dcgm_exporter: bool = setting("Whether each GPU node exports DCGM's metrics.", default=True)
    service_monitor: bool = setting(
        "Whether Prometheus finds those metrics by a ServiceMonitor; its CRD must be there.", default=False
    )
    node_feature_discovery: bool = setting(
        "Whether the chart brings Node Feature Discovery; false where it runs already, such as with the network "
        "operator.",
        default=True,
    )

    @property
    def brings_feature_discovery(self) -> bool:
        """Return whether the operator's chart puts Node Feature Discovery into Kubernetes."""
        return self.mode is AddonMode.INSTALL and self.node_feature_discovery

    @rule
    def _parts(self) -> Iterator[Violation]:
        if self.gdrcopy and self.driver is Provider.PREINSTALLED:
            want = (
                "driver: operator beside it: the operator loads gdrdrv together with its driver, not with another one"
            )
            yield Violation("gdrcopy", want=want)
        if self.service_monitor and not self.dcgm_exporter:
            want = "dcgmExporter: true beside it: without the exporter there is nothing to scrape"
            yield Violation("serviceMonitor", want=want)
