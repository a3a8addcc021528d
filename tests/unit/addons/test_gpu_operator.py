"""The GPU operator's chart, as the official provider would get it: Helm cannot be had on the dev cluster."""

from __future__ import annotations

from typing import Any

import pytest

from components.addons import gpu_operator
from components.config import parse
from components.config.addons.gpu_operator import CHART_VERSION
from tests.unit.samples import GPU_SET, SMALL, Engine, Registered, changed, run_program

SETS = [SMALL["nodeSets"][0], GPU_SET]


def installed(path: str = "gpuOperator.mode", value: Any = "install", *, preview: bool = False) -> Engine:
    """The program with the chart installed and one more value changed."""
    raw = changed("gpuOperator.mode", "install", changed("nodeSets", SETS))
    return run_program(changed(path, value, raw), preview=preview)[0]


def release(engine: Engine) -> Registered:
    return engine.one("Release", "gpu-operator")


@pytest.mark.parametrize("preview", [True, False], ids=["preview, outputs unknown", "update"])
def test_install_declares_one_release_of_a_pinned_chart(preview: bool) -> None:
    engine = installed(preview=preview)
    found = release(engine)
    assert found.type == "kubernetes:helm.sh/v3:Release"
    assert {key: found.inputs[key] for key in ("name", "chart", "version", "namespace", "createNamespace")} == {
        "name": "gpu-operator",
        "chart": "gpu-operator",
        "version": CHART_VERSION,
        "namespace": "gpu-operator",
        "createNamespace": True,
    }
    assert found.inputs["repositoryOpts"] == {"repo": "https://helm.ngc.nvidia.com/nvidia"}
    assert found.inputs["values"] == gpu_operator.values(parse(changed("nodeSets", SETS)))


def test_the_component_has_its_type_its_parent_and_the_one_provider() -> None:
    engine = installed()
    component = engine.one("GpuOperator", "gpu-operator")
    assert component.type == "pulumi-slurm:index:GpuOperator"
    assert component.request.parent == engine.one("SlurmCluster", "dev").urn
    assert release(engine).request.parent == component.urn
    assert release(engine).request.provider.startswith(engine.one("kubernetes", "kubernetes").urn)


@pytest.mark.parametrize(("key", "value"), [("version", "v25.10.1"), ("namespace", "nvidia")])
def test_an_update_of_the_chart_changes_the_release_alone(key: str, value: str) -> None:
    before, after = installed(), installed(f"gpuOperator.{key}", value)
    assert release(after).inputs[key] == value
    old, new = ({each.urn: each.inputs for each in engine.registered} for engine in (before, after))
    assert [urn.rpartition("::")[2] for urn in old if old[urn] != new[urn]] == ["gpu-operator"]


def test_gpu_nodes_come_after_the_operator_and_others_do_not_wait_for_it() -> None:
    engine = installed()
    assert release(engine).urn in engine.one("StatefulSet", "h100").dependencies
    assert release(engine).urn not in engine.one("StatefulSet", "cpu").dependencies


@pytest.mark.parametrize("mode", ["existing", "off"])
def test_other_modes_declare_nothing(mode: str) -> None:
    raw = changed("gpuOperator.mode", mode)
    assert not [each for each in run_program(raw)[0].registered if "helm" in each.type or "Gpu" in each.type]


def test_the_operators_pods_go_where_gpu_pods_go() -> None:
    taint = {"key": "pool", "operator": "Equal", "value": "gpu", "effect": "NoSchedule"}
    found = gpu_operator.values(parse(changed("nodeSets", [{**GPU_SET, "tolerations": [taint, taint]}])))
    own = {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}
    assert found["daemonsets"]["tolerations"] == [own, taint]


def test_the_operator_makes_the_runtime_class_that_node_sets_name() -> None:
    config = parse(changed("nodeSets", [{**GPU_SET, "gpus": {**GPU_SET["gpus"], "runtimeClass": "gpus"}}]))
    assert gpu_operator.values(config)["operator"] == {"runtimeClass": "gpus"}
