"""Checks between a configuration's GPUs and who brings them."""

from collections.abc import Iterator, Mapping
from typing import Any

from components.config.addons.gpu_operator import GpuOperatorMode, Provider
from components.config.nodes.node_sets import NVIDIA_PREFIX
from components.config.problems import Problem
from components.config.values.files import device_count
from components.config.values.raw import mapping as _map
from components.config.values.raw import rows as _rows


def _gpus(config: Mapping[str, Any]) -> Iterator[Problem]:
    mode = _map(config.get("gpuOperator")).get("mode", GpuOperatorMode.OFF)
    for index, row in _rows(config.get("nodeSets")):
        gpus = row.get("gpus")
        if not isinstance(gpus, Mapping):
            continue
        path = ("nodeSets", index, "gpus")
        devices, per_node = gpus.get("devices"), gpus.get("perNode")
        resource = gpus.get("resource", f"{NVIDIA_PREFIX}gpu")
        if devices is None and mode == GpuOperatorMode.OFF:
            want = (
                "gpuOperator.mode: install, or existing where the nodes offer GPUs already (it is off, so nothing "
                f"brings them); or nodeSets[{index}].gpus.devices, the device files, where another device plugin does"
            )
            yield Problem(path, dict(gpus), want)
        if devices is None and isinstance(resource, str) and not resource.startswith(NVIDIA_PREFIX):
            want = f"gpus.devices beside it, the device files: Slurm finds only GPUs of {NVIDIA_PREFIX} by itself"
            yield Problem((*path, "resource"), resource, want)
        if isinstance(devices, str) and isinstance(per_node, int):
            try:
                count = device_count(devices)
            except ValueError:
                continue
            if count != per_node:
                yield Problem(
                    (*path, "devices"), devices, f"as many files as gpus.perNode says: {per_node}, not {count}"
                )


def _gpu_operator(config: Mapping[str, Any]) -> Iterator[Problem]:
    own = _map(config.get("gpuOperator"))
    if own.get("gdrcopy") is True and own.get("driver") == Provider.PREINSTALLED:
        want = "driver: operator beside it: the operator loads gdrdrv together with its driver, not with another one"
        yield Problem(("gpuOperator", "gdrcopy"), True, want)
    if own.get("serviceMonitor") is True and own.get("dcgmExporter") is False:
        want = "dcgmExporter: true beside it: without the exporter there is nothing to scrape"
        yield Problem(("gpuOperator", "serviceMonitor"), True, want)


def _feature_discovery(config: Mapping[str, Any]) -> Iterator[Problem]:
    # By the defaults the GPU operator's chart brings it and the network operator's does not.
    charts = [(_map(config.get(key)), default) for key, default in (("gpuOperator", True), ("networkOperator", False))]
    if all(chart.get("mode") == "install" and chart.get("nodeFeatureDiscovery", default) for chart, default in charts):
        want = "false for one of gpuOperator and networkOperator: both charts would bring Node Feature Discovery"
        yield Problem(("gpuOperator", "nodeFeatureDiscovery"), True, want)


def _checks(config: Mapping[str, Any]) -> Iterator[Problem]:
    mode = _map(config.get("gpuOperator")).get("mode", GpuOperatorMode.OFF)
    if _map(config.get("checks")).get("cluster") is True and mode == GpuOperatorMode.INSTALL:
        want = "false while gpuOperator.mode is install: nodes offer their GPUs only after it is there"
        yield Problem(("checks", "cluster"), True, want)


def cross_field_problems(config: Mapping[str, Any]) -> Iterator[Problem]:
    """Everything in which node sets with GPUs, gpuOperator and checks do not fit together."""
    yield from _gpus(config)
    yield from _gpu_operator(config)
    yield from _feature_discovery(config)
    yield from _checks(config)
