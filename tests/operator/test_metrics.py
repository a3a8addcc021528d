"""The page about monitoring says what the operator serves."""

from __future__ import annotations

from prometheus_client.metrics import MetricWrapperBase
from slurm_operator import metrics

from devcluster.machine.bootstrap import CHECKOUT

PAGE = CHECKOUT / "docs" / "monitoring.md"


def row(metric: MetricWrapperBase) -> str:
    """The table's line about a metric, as Prometheus sees it: a counter ends in _total."""
    (family,) = metric.describe()
    name = f"{family.name}_total" if family.type == "counter" else family.name
    labels = f"{{{','.join(metric._labelnames)}}}" if metric._labelnames else ""
    return f"| `{name}{labels}` | {family.type} | {family.documentation} |"


def test_the_page_names_every_metric_with_its_labels_and_its_meaning() -> None:
    served = {row(each) for each in vars(metrics).values() if isinstance(each, MetricWrapperBase)}
    written = {line for line in PAGE.read_text().splitlines() if line.startswith("| `pulumi_slurm_")}
    assert written == served, "put into the table:\n" + "\n".join(sorted(served - written))
