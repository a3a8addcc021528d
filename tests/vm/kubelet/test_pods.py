"""Our pods under a real kubelet and runtime on cgroup v2: groups, limits, capabilities and filters."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from components.config.values.quantities import cpu_millis, memory_bytes
from components.pods import pod_security
from tests.vm.kubelet.kubelet_cluster import KubeletCluster, containers, of_status

CAPABILITIES = {"worker": pod_security.WORKER_CAPABILITIES, "login": pod_security.LOGIN_CAPABILITIES}
"""By container; every other has none."""
HEADER = Path("/usr/include/linux/capability.h")
FILTERED = "2"
"""SECCOMP_MODE_FILTER; proc_pid_status(5)."""


def bits(capabilities: set[str]) -> int:
    """Capabilities as /proc shows them, by the kernel's numbers."""
    numbers = dict(re.findall(r"^#define CAP_(\w+)\s+(\d+)$", HEADER.read_text(), re.MULTILINE))
    return sum(1 << int(numbers[name]) for name in capabilities)


@pytest.fixture(scope="module")
def pods(cluster: KubeletCluster) -> list[dict[str, Any]]:
    listed = [pod for pod in cluster.slurm.get("pods")["items"] if pod["status"]["phase"] == "Running"]
    assert {"cpu-0", "cpu-1", "slurm-login-0", "slurm-controller-0"} <= {pod["metadata"]["name"] for pod in listed}
    return listed


def test_every_container_has_a_group_below_its_quality_of_service_with_its_limits(
    cluster: KubeletCluster, pods: list[dict[str, Any]]
) -> None:
    limited = 0
    for pod in pods:
        for each in containers(cluster.slurm, pod):
            where = f"{pod['metadata']['name']}/{each.name}"
            memory, cpu = (each.limits.get(name) for name in ("memory", "cpu"))
            limited += bool(memory)
            wanted = (
                str(memory_bytes(memory)) if memory else "max",
                f"{cpu_millis(cpu) * 100} 100000" if cpu else "max 100000",
            )
            shown = tuple((each.group / name).read_text().strip() for name in ("memory.max", "cpu.max"))
            assert shown == wanted, where
    assert limited >= 4, "workers, login, controller at least"


def test_containers_have_the_capabilities_that_we_name_and_the_runtimes_filter(
    cluster: KubeletCluster, pods: list[dict[str, Any]]
) -> None:
    for pod in pods:
        for each in containers(cluster.slurm, pod):
            first, where = each.first_process(), f"{pod['metadata']['name']}/{each.name}"
            (bounding,) = of_status(first, "CapBnd")
            assert int(bounding, 16) == bits({*CAPABILITIES.get(each.name, {})}), where
            assert of_status(first, "Seccomp") == [FILTERED], where
            assert of_status(first, "NoNewPrivs") == ["0" if each.name in CAPABILITIES else "1"], where


def test_a_worker_sees_its_own_group_as_the_top_and_its_parts_below_it(cluster: KubeletCluster) -> None:
    worker = cluster.worker()
    inside = cluster.pod("cat /proc/1/cgroup /sys/fs/cgroup/memory.max").stdout.split()
    assert inside == ["0::/pod", (worker.group / "memory.max").read_text().strip()]
    outside = (worker.first_process() / "cgroup").read_text().strip()
    assert outside == f"0::/{worker.group.relative_to('/sys/fs/cgroup')}/pod"


def test_the_pods_root_lifts_no_limit_of_the_kubelets(cluster: KubeletCluster) -> None:
    """The kernel keeps the top of a groups' namespace from those in it (nsdelegate), who may write all below."""
    for file in ("memory.max", "cpu.max", "pids.max"):
        limit = cluster.worker().group / file
        before = limit.read_text()
        tried = cluster.pod(f"test -w /sys/fs/cgroup/{file} && echo there; echo max > /sys/fs/cgroup/{file}")
        assert (tried.stdout, tried.returncode == 0) == ("there\n", False), tried
        assert limit.read_text() == before
        limit.write_text(before)  # Who is outside of the namespace may.
