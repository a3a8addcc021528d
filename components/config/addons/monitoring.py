"""Configuration of monitoring: how Prometheus finds Slurm's and the operator's metrics."""

from collections.abc import Iterator
from enum import StrEnum

from components.config.model import Model, setting
from components.config.rule import Violation, rule
from components.config.values.addresses import Cidr
from components.config.values.object_names import DnsLabel, LabelKey, LabelValue
from components.config.values.quantities import Duration


class MonitoringMode(StrEnum):
    """The way in which a Prometheus finds its targets."""

    ANNOTATIONS = "annotations"
    PROMETHEUS_OPERATOR = "prometheusOperator"
    OFF = "off"


class Monitoring(Model):
    """Targets of Prometheus, the way in which it finds them, and the sources that may scrape."""

    mode: MonitoringMode = setting(
        "annotations: Services with the usual prometheus.io annotations; prometheusOperator: PodMonitor objects, whose "
        "CRD is there already; off: slurmctld serves no metrics, and nobody may scrape.",
        default=MonitoringMode.ANNOTATIONS,
    )
    interval: Duration | None = setting(
        "Time between two scrapes, for prometheusOperator; left out: Prometheus's own.", unit="s, m or h", default=None
    )
    labels: dict[LabelKey, LabelValue] = setting(
        "More labels of the Services or PodMonitors, by which a Prometheus selects them, such as release.", factory=dict
    )
    users: bool = setting(
        "Whether there are series for each user and account, too; their number grows with those.", default=False
    )
    namespaces: list[DnsLabel] = setting(
        "Namespaces whose pods may scrape, besides the rules of Slurm itself.",
        factory=lambda: ["monitoring"],
    )
    cidrs: list[Cidr] = setting("Addresses outside Kubernetes that may scrape.", factory=list)

    @rule
    def _keys_of_mode(self) -> Iterator[Violation]:
        if self.mode is MonitoringMode.OFF:
            for key in self.given - {"mode"}:
                yield Violation(key, want="nothing while monitoring.mode is off, or another mode")
        elif self.mode is MonitoringMode.ANNOTATIONS and self.interval is not None:
            want = "nothing: with annotations Prometheus's own interval counts; or monitoring.mode: prometheusOperator"
            yield Violation("interval", want=want)
