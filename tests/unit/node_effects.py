"""Fields of node sets that are Slurm's own, each with its effect on what is declared."""

from __future__ import annotations

from typing import Any, Final

from components import slurm_cluster
from components.config import Config
from tests.unit.declared import Effect, has, requests, variable


def options(config: Config) -> Any:
    """Options that slurmd of the workers registers with."""
    return variable(config, "StatefulSet", "cpu", "SLURM_NODE").get("options")


def resource(config: Config) -> Any:
    """The spec of the first node set's NodeSet."""
    return slurm_cluster.node_set_resource(config, config.node_sets[0])["spec"]


EFFECTS: Final[list[Effect]] = [
    ("nodeSets.0.features", ["avx512", "bigmem"], lambda c: resource(c).get("features"), ["avx512", "bigmem"]),
    ("nodeSets.0.resources.hugepages", {"2Mi": "64Mi"}, requests("StatefulSet", "cpu", "hugepages-2Mi"), "64Mi"),
    ("nodeSets.0.features", [], lambda c: resource(c).get("features"), []),
    ("nodeSets.0.featureLabels", ["zone"], lambda c: resource(c).get("featureLabels"), ["zone"]),
    ("nodeSets.0.options", {"MemSpecLimit": 64}, options, {"MemSpecLimit": 64}),
    (
        "health.nodeConditions",
        [{"type": "KernelDeadlock"}, {"type": "GpuReady", "failsWhen": False, "nodeSets": ["cpu"]}],
        lambda c: resource(c).get("nodeConditions"),
        [{"type": "KernelDeadlock", "failsWhen": True}, {"type": "GpuReady", "failsWhen": False}],
    ),
    # What slurmd keeps is no memory for jobs.
    (
        "nodeSets.0.options",
        {"MemSpecLimit": 64},
        has("PartitionName=main Nodes=ns_cpu Default=YES MaxTime=UNLIMITED DefMemPerCPU=704 State=UP"),
        True,
    ),
]

PATHS: Final = {f"health.nodeConditions.{key}" for key in ("type", "failsWhen", "nodeSets")}
"""Fields of the rows that one effect above sets together."""
