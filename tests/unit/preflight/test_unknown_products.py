"""Promises about the warning of GPUs without thresholds, whose nodes `health.checks.unknown: drain` keeps drained."""

from __future__ import annotations

from typing import Any

import pulumi
import pytest

from components.config import Config, parse
from components.preflight import cluster_checks, unknown_products
from components.preflight.gpu_checks import ClusterState, KubernetesNode
from contract.thresholds import OF_PRODUCTS
from tests.unit.samples import GPU_SET, changed

A10 = {"gpu.pcieGeneration": 4, "gpu.pcieWidth": 16, "gpu.powerLimit": 150, "gpu.smClock": 1695, "nvlink.links": 0}
RDMA = {"network": {"rdma": {"resource": "rdma/fabric"}}}
NONE = [key for key in OF_PRODUCTS if key != "infiniband.rate"]
"""All that a set without RDMA needs."""
OWN = [{"product": "NVIDIA A10", "numbers": A10}]
OTHERS = {"type": "fast", "perNode": 1, "resource": "example.com/gpu", "devices": "/dev/gpu0"}


def config(of_type: str, unknown: str = "drain", more: dict[str, Any] | None = None, **health: Any) -> Config:
    own = {**GPU_SET, "gpus": {"type": of_type, "perNode": 8}, **(more or {})}
    checks = {"unknown": unknown, "disabled": health.pop("disabled", [])}
    raw = changed("networkOperator", {"mode": "existing", "pools": [{"name": "fabric"}]})
    return parse(changed("health", {"checks": checks, **health}, changed("nodeSets", [own], raw)))


def seen(label: str) -> ClusterState:
    return ClusterState((KubernetesNode("a", {"nvidia.com/gpu.product": label}),), frozenset())


@pytest.mark.parametrize(
    ("wanted", "state"),
    [
        (config("a10", "note"), None),
        (config("h100"), None),
        (config("a100-sxm4-80gb"), None),
        (config("a10", thresholds=OWN), None),
        (config("a10", disabled=["gpu pcie", "gpu power", "gpu clocks", "nvlink"]), None),
        (config("h100"), seen("NVIDIA-H100-80GB-HBM3")),
        (config("h100"), seen("NVIDIA-H100-80GB-HBM3-SHARED")),
        (config("fast", more={"gpus": OTHERS}), None),
    ],
    ids=["noted", "h100", "a hyphen", "of the site", "switched off", "by label", "shared", "not NVIDIA's"],
)
def test_nothing_is_told_where_each_check_has_its_numbers(wanted: Config, state: ClusterState | None) -> None:
    assert unknown_products.sentences(wanted, state) == []


@pytest.mark.parametrize(
    ("wanted", "state", "product", "missing"),
    [
        (config("a10"), None, "a GPU of the type a10", NONE),
        (config("a10", more=RDMA), None, "a GPU of the type a10", [*OF_PRODUCTS]),
        (config("gb200", more=RDMA), None, "a GPU of the type gb200", ["infiniband.rate"]),
        (config("a10", more=RDMA, thresholds=OWN), None, "a GPU of the type a10", ["infiniband.rate"]),
        (config("h100"), seen("NVIDIA-H100-PCIe"), "NVIDIA-H100-PCIe", ["nvlink.links"]),
        (config("h100"), seen("NVIDIA-H100-NVL"), "NVIDIA-H100-NVL", NONE),
    ],
    ids=["a10 is no a100", "rdma", "gb200", "of the site in part", "no bridge", "nvl"],
)
def test_what_is_missing_is_told(wanted: Config, state: ClusterState | None, product: str, missing: list[str]) -> None:
    (said,) = unknown_products.sentences(wanted, state)
    assert f"of {GPU_SET['name']} out of service: {product} has no threshold {', '.join(missing)}; set" in said


def test_a_single_gpu_links_to_nothing() -> None:
    alone = {"gpus": {"type": "h100", "perNode": 1}}
    assert unknown_products.sentences(config("h100", more=alone), seen("NVIDIA-H100-PCIe")) == []


def test_the_preview_warns(monkeypatch: pytest.MonkeyPatch) -> None:
    warned: list[str] = []
    monkeypatch.setattr(pulumi.log, "warn", warned.append)
    cluster_checks.run(config("a10"))
    assert [said for said in warned if said.startswith("health.checks.unknown: drain may keep all nodes of ")]
