"""Kubernetes' static CPU manager gives a worker's pod CPUs of its own, unless its declaration shares CPUs."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from node_health.check import Machine
from node_health.checks.cpu import pinning
from node_health.run import answer
from slurm_node.pod import settings
from slurm_node.roles.worker import declared

from components import slurm_cluster
from components.config import parse
from devcluster.node.plan import files
from tests.devcluster.node_under_test import STATIC, Node, eventually, in_namespace, probe_pod
from tests.unit.samples import SMALL, changed

pytestmark = [pytest.mark.e2e, pytest.mark.skipif(os.cpu_count() != 2, reason="one CPU for the system, and one to own")]


def worker(name: str, **resources: str) -> dict[str, Any]:
    """A pod with the resources of a worker's container."""
    own = {"cpu": 1, "memory": "512Mi", "reservedMemory": "64Mi", **resources}
    manifests = slurm_cluster.manifests(parse(changed("nodeSets.0.resources", own, SMALL)))
    (of_set,) = [each for each in manifests if (each.kind, each.name) == ("StatefulSet", "cpu")]
    (container,) = of_set.body["spec"]["template"]["spec"]["containers"]
    return probe_pod(name, container={"resources": container["resources"], "env": container["env"]})


def status(node: Node, pod: str) -> str:
    """Return what the kernel says of a process in a pod; proc_pid_status(5)."""
    return node.run_in("default", pod, "read", "/proc/self/status").stdout


def cpus(node: Node, pod: str) -> str:
    """The CPUs on which a pod's processes may run."""
    found = re.search(r"^Cpus_allowed_list:\s*(\S+)$", status(node, pod), re.MULTILINE)
    return found[1] if found else ""


def says(node: Node, pod: dict[str, Any], root: Path) -> str:
    """Answer of the check of CPUs, asked about a running pod: without Slurm, by what the pod's own kernel says."""
    (container,) = pod["spec"]["containers"]
    environment = {each["name"]: each["value"] for each in container["env"]}
    machine = Machine(declared(settings.read_node(environment), settings.read_jail(environment)), root)
    for file, text in {
        "/run/slurm/conf/slurm.conf": "TaskPlugin=task/cgroup\n",
        "/run/slurm/conf/cgroup.conf": "CgroupPlugin=autodetect\n",
        "/sys/devices/system/cpu/online": Path("/sys/devices/system/cpu/online").read_text(),
        "/proc/self/status": status(node, pod["metadata"]["name"]),
    }.items():
        machine.path(file).parent.mkdir(parents=True, exist_ok=True)
        machine.path(file).write_text(text)
    (answered,) = answer(machine, [pinning.CHECK]).values()
    return str(answered)


def test_a_worker_owns_its_cpus_and_one_with_a_smaller_request_owns_none_and_each_says_so(
    start_node: Callable[[str], Node], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    usual = files.kubelet_configuration
    monkeypatch.setattr(
        files, "kubelet_configuration", lambda facts, credentials: {**usual(facts, credentials), **STATIC}
    )
    node = start_node("static-cpus")
    node.kubectl("wait", "--for=create", "serviceaccount/default", "--timeout=30s")
    owns, shares = worker("owns"), worker("shares", cpuRequest="100m")
    node.apply(*in_namespace("default", owns, shares))
    node.kubectl("wait", "--for=condition=Ready", "pod/owns", "pod/shares", "--timeout=60s")
    eventually(
        lambda: (cpus(node, "owns"), cpus(node, "shares")) == ("1", "0"), "a CPU for one, the rest for the other"
    )
    assert "jobs share the pod's own CPUs 1: slurm.constrainCores is false" in says(node, owns, tmp_path / "owns")
    shared = "the pod has no exclusive CPUs (1 CPUs, 1 declared, cpuRequest is less)"
    assert f"jobs are not pinned: {shared}" in says(node, shares, tmp_path / "shares")
