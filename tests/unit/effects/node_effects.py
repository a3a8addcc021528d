"""Fields of node sets that are Slurm's own, each with its effect on what is declared."""

from __future__ import annotations

from typing import Any, Final

from components import slurm_cluster
from components.config import Config
from contract import names
from tests.unit.effects.declared import Effect, body, has, requests, variable


def options(config: Config) -> Any:
    """Options that slurmd of the workers registers with."""
    return variable(config, "StatefulSet", "cpu", "SLURM_NODE").get("options")


def resource(config: Config) -> Any:
    """The spec of the first node set's NodeSet."""
    return slurm_cluster.node_set_resource(config, config.node_sets[0])["spec"]


def long_checks(config: Config) -> Any:
    """The long checks of the SlurmCluster."""
    return slurm_cluster.cluster_resource(config)["spec"].get("longChecks", [])


def thresholds(config: Config) -> list[str]:
    """The thresholds in the scripts of long checks."""
    return [line for check in long_checks(config) for line in check["script"].splitlines() if line.startswith("LEAST=")]


EFFECTS: Final[list[Effect]] = [
    (
        "health.longChecks",
        [
            {
                "name": "site",
                "partition": "main",
                "script": "/opt/site/check",
                "every": "2h",
                "timeLimit": "30m",
                "sharePercent": 3,
                "nodes": 4,
                "returnAfterPasses": 3,
                "reaction": "note",
            }
        ],
        long_checks,
        [
            {
                "name": "site",
                "partition": "main",
                "nodeSets": ["cpu"],
                "everySeconds": 7200,
                "timeLimitMinutes": 30,
                "sharePercent": 3,
                "nodes": 4,
                "passes": 3,
                "drains": False,
                "beforeJobs": False,
                "needs": "/opt/site/check",
                "least": "",
                "script": "#!/bin/sh\nexec /opt/site/check\n",
            }
        ],
    ),
    (
        "health.longChecks",
        [{"name": "site", "partition": "main", "script": "/opt/site/check", "beforeJobs": True}],
        lambda c: [check["beforeJobs"] for check in long_checks(c)],
        [True],
    ),
    *(
        (
            "health.longChecks",
            [{"name": "site", "partition": "main", "script": "/opt/check", "timeLimit": "5m", "schedule": line}],
            lambda c: [(check.get("schedule"), check.get("everySeconds")) for check in long_checks(c)],
            [(line, None)],
        )
        for line in ("0 3 * * *", "*/10 0-6/2 1,15 JAN-mar 7", "30 2 * * mon-FRI", "0 0 29 2 *")
    ),
    (
        "health.longChecks",
        [{"name": "disk", "partition": "main", "builtin": "disk", "least": 200, "directory": "/scratch"}],
        lambda c: "mktemp /scratch/check.XXXXXX" in long_checks(c)[0]["script"],
        True,
    ),
    (
        "health.longChecks",
        [{"name": "bandwidth", "partition": "main", "builtin": "memory-bandwidth", "least": 12}],
        thresholds,
        ["LEAST=12"],
    ),
    (
        "health.longChecks",
        [
            {"name": "bandwidth", "partition": "main", "builtin": "memory-bandwidth", "least": 12},
            {"name": "wire", "partition": "main", "builtin": "network", "least": 900, "nodes": 2},
        ],
        lambda c: [check["least"] for check in long_checks(c)],
        ["12 GB/s", "900 MB/s"],
    ),
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
    (
        "health.thresholds",
        [{"product": "NVIDIA A10", "numbers": {"gpu.smClock": 1695}}, {"product": "any", "numbers": {"cpu.steal": 0}}],
        lambda c: body(c, "ConfigMap", names.NODE_SCRIPTS)["data"]["thresholds.json"],
        '{"NVIDIA A10": {"gpu.smClock": 1695}, "any": {"cpu.steal": 0}}\n',
    ),
    # What slurmd keeps is no memory for jobs.
    (
        "nodeSets.0.options",
        {"MemSpecLimit": 64},
        has("PartitionName=main Nodes=ns_cpu Default=YES MaxTime=UNLIMITED DefMemPerCPU=704 State=UP"),
        True,
    ),
]

_CHECK: Final = (
    *("name", "partition", "builtin", "script", "nodes", "least", "every", "timeLimit", "sharePercent", "reaction"),
    *("returnAfterPasses", "beforeJobs", "directory", "schedule"),
)
PATHS: Final = {
    *(f"health.nodeConditions.{key}" for key in ("type", "failsWhen", "nodeSets")),
    *(f"health.longChecks.{key}" for key in _CHECK),
    *(f"health.thresholds.{key}" for key in ("product", "numbers")),
}
"""Fields of the rows that one effect above sets together."""
