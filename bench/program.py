"""Measures the Pulumi program: warm `up`, a stack from nothing to Available, previews with more node sets."""

from __future__ import annotations

import json
import tempfile
import time
from pathlib import Path
from typing import Any

import yaml

from bench.measurement import Measurement, run
from devcluster.cli import up
from devcluster.cli.up import Cluster
from devcluster.machine.bootstrap import CHECKOUT


def warm_up(cluster: Cluster) -> list[Measurement]:
    """Measure `make up` again, when everything exists."""
    began = time.monotonic()
    run(["python3", "-m", "devcluster", "--name", cluster.instance.name, "up"], deadline_seconds=600, cwd=CHECKOUT)
    return [Measurement("warm make up", time.monotonic() - began, 120, "s")]


def stack_from_nothing(cluster: Cluster) -> list[Measurement]:
    """Measure `pulumi up` to Available, after a destroy, with images present."""
    stack = cluster.stack
    pulumi = str(stack.binaries / "pulumi")
    environment = stack.environment()
    quiet = ["--yes", "--skip-preview", "--non-interactive"]
    run([pulumi, *stack.arguments(["destroy", *quiet])], deadline_seconds=600, env=environment, cwd=CHECKOUT)
    began = time.monotonic()
    run([pulumi, *stack.arguments(["up", *quiet])], deadline_seconds=900, env=environment, cwd=CHECKOUT)
    taken = time.monotonic() - began
    up.remember_login(cluster)
    return [Measurement("pulumi up from nothing to Available", taken, 60, "s")]


def previews(cluster: Cluster) -> list[Measurement]:
    """Measure the preview of a new stack with 30 node sets ÷ with 3."""
    seconds = {count: min(_preview(cluster, count) for _ in range(3)) for count in (3, 30)}
    detail = {f"{count} node sets, s": taken for count, taken in seconds.items()}
    return [Measurement("preview with 30 node sets ÷ 3", seconds[30] / seconds[3], 4, detail=detail)]


def _preview(cluster: Cluster, count: int) -> float:
    stack = cluster.stack
    config: dict[str, Any] = yaml.safe_load(stack.config_file.read_text())
    node_set = config["config"]["pulumi-slurm:nodeSets"][0]
    node_sets = [{**node_set, "name": f"set{number}"} for number in range(count)]
    config["config"]["pulumi-slurm:nodeSets"] = node_sets
    names = [node_set["name"] for node_set in node_sets]
    config["config"]["pulumi-slurm:partitions"] = [{"name": "main", "nodeSets": names, "default": True}]
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "Pulumi.dev.yaml"
        file.write_text(yaml.safe_dump(config))
        began = time.monotonic()
        command = [str(stack.binaries / "pulumi"), "preview", "--config-file", str(file), "--json", "--non-interactive"]
        json.loads(run(command, deadline_seconds=300, env=stack.environment(), cwd=CHECKOUT))
        return time.monotonic() - began


def memory(cluster: Cluster) -> list[Measurement]:
    """Measure the working set of each pod, by kubelet."""
    kubectl = [str(cluster.binaries / "kubectl"), "--kubeconfig", str(cluster.kubeconfig)]
    node = run([*kubectl, "get", "nodes", "-o", "jsonpath={.items[0].metadata.name}"], deadline_seconds=30)
    summary = json.loads(
        run([*kubectl, "get", "--raw", f"/api/v1/nodes/{node}/proxy/stats/summary"], deadline_seconds=30)
    )
    pods = {
        pod["podRef"]["name"]: pod["memory"]["workingSetBytes"] / 2**20
        for pod in summary["pods"]
        if pod["podRef"]["namespace"] == "slurm" and "memory" in pod
    }
    return [Measurement(f"memory of {name}", mebibytes, None, "MiB") for name, mebibytes in sorted(pods.items())]
