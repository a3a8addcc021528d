"""Kubernetes' static CPU manager gives a worker's pod CPUs of its own, unless its declaration shares CPUs."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from typing import Any

import pytest

from components import slurm_cluster
from components.config import parse
from devcluster.node.plan import files
from tests.devcluster.node_under_test import Node, eventually, in_namespace, probe_pod
from tests.unit.samples import SMALL, changed

pytestmark = [pytest.mark.e2e, pytest.mark.skipif(os.cpu_count() != 2, reason="one CPU for the system, and one to own")]

STATIC = {"cpuManagerPolicy": "static", "kubeReserved": {"cpu": "500m"}, "cpuManagerReconcilePeriod": "1s"}
"""The manager reserves whole CPUs: the first one. Of it, half stays for pods that own none."""


def worker(name: str, **resources: str) -> dict[str, Any]:
    """A pod with the resources of a worker's container."""
    own = {"cpu": 1, "memory": "512Mi", "reservedMemory": "64Mi", **resources}
    manifests = slurm_cluster.manifests(parse(changed("nodeSets.0.resources", own, SMALL)))
    (declared,) = [each for each in manifests if (each.kind, each.name) == ("StatefulSet", "cpu")]
    (container,) = declared.body["spec"]["template"]["spec"]["containers"]
    return probe_pod(name, container={"resources": container["resources"]})


def cpus(node: Node, pod: str) -> str:
    """The CPUs on which a pod's processes may run."""
    status = node.run_in("default", pod, "read", "/proc/self/status").stdout
    found = re.search(r"^Cpus_allowed_list:\s*(\S+)$", status, re.MULTILINE)
    return found[1] if found else ""


def test_a_worker_owns_its_cpus_and_one_with_a_smaller_request_owns_none(
    start_node: Callable[[str], Node], monkeypatch: pytest.MonkeyPatch
) -> None:
    usual = files.kubelet_configuration
    monkeypatch.setattr(
        files, "kubelet_configuration", lambda facts, credentials: {**usual(facts, credentials), **STATIC}
    )
    node = start_node("static-cpus")
    node.kubectl("wait", "--for=create", "serviceaccount/default", "--timeout=30s")
    node.apply(*in_namespace("default", worker("owns"), worker("shares", cpuRequest="100m")))
    node.kubectl("wait", "--for=condition=Ready", "pod/owns", "pod/shares", "--timeout=60s")
    eventually(
        lambda: (cpus(node, "owns"), cpus(node, "shares")) == ("1", "0"), "a CPU for one, the rest for the other"
    )
