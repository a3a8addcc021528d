"""A configuration with declared topologies."""

from __future__ import annotations

from typing import Any, Final

from tests.unit.samples import SMALL

LEAF: Final = "network.topology.nvidia.com/leaf"
NVLINK: Final = "network.topology.nvidia.com/accelerator"
GPU: Final[dict[str, Any]] = {
    "name": "gpu",
    "replicas": 8,
    "resources": {"cpu": 1, "memory": "1Gi"},
    "topology": [{"name": "fabric", "unit": "pods", "labels": [LEAF]}, {"name": "nvlink", "labels": [NVLINK]}],
}
CPU: Final = {**SMALL["nodeSets"][0], "topology": [{"name": "fabric", "unit": "rack1"}]}
FABRIC: Final[dict[str, Any]] = {
    "name": "fabric",
    "type": "tree",
    "default": True,
    "switches": {"core": ["rack1", "pods"]},
}
BLOCKS: Final[dict[str, Any]] = {"name": "nvlink", "type": "block", "blocks": ["a", "b"], "blockSizes": [4, 8]}
FLAT: Final[dict[str, Any]] = {"name": "plain", "type": "flat"}
PATHS: Final = {
    f"slurm.topologies.{key}" for key in ("name", "type", "default", "switches", "blocks", "blockSizes")
} | {f"nodeSets.topology.{key}" for key in ("name", "unit", "labels")}
"""Fields whose effects are shown here."""
DECLARED: Final[dict[str, Any]] = {
    **SMALL,
    "nodeSets": [CPU, GPU],
    "slurm": {"topologies": [FABRIC, BLOCKS, FLAT]},
    "partitions": [
        {"name": "main", "nodeSets": ["cpu", "gpu"], "default": True},
        {"name": "nvl", "nodeSets": ["gpu"], "options": {"Topology": "nvlink"}},
        {"name": "flat", "nodeSets": ["cpu", "gpu"], "options": {"Topology": "plain"}},
    ],
}
