"""Devices in a pod of a real kubelet: the runtime's eBPF program and Slurm's stand together on cgroup v2.

The fake GPUs and most tests are those of tests/e2e/nodes/test_gpus.py, which has the older way of cgroup v1.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.e2e.nodes.fake_gpu_set import NODE, OPENS
from tests.e2e.nodes.test_gpus import (
    test_a_job_opens_exactly_the_gpus_that_it_asked_for,
    test_a_job_without_gpus_opens_none,
    test_accounting_counts_the_gpus_of_a_job,
    test_root_in_a_job_opens_no_other,
    test_slurmstepd_opens_no_gpu_for_a_job,
    test_two_jobs_at_once_have_disjoint_gpus,
    test_without_a_constraint_all_devices_of_the_pod_open,
)
from tests.vm.kubelet.kubelet_cluster import KubeletCluster

__all__ = [
    "test_a_job_opens_exactly_the_gpus_that_it_asked_for",
    "test_a_job_without_gpus_opens_none",
    "test_accounting_counts_the_gpus_of_a_job",
    "test_root_in_a_job_opens_no_other",
    "test_slurmstepd_opens_no_gpu_for_a_job",
    "test_two_jobs_at_once_have_disjoint_gpus",
    "test_without_a_constraint_all_devices_of_the_pod_open",
]
FUSE = os.makedev(10, 229)
"""A device that opens, and that no runtime gives to a pod unasked."""


@pytest.fixture(scope="module", autouse=True)
def program(cluster: KubeletCluster) -> None:
    cluster.slurm.sh(f"cat > ~/opens.py <<'P'\n{OPENS}\nP").ok()


@contextmanager
def not_given(pod_root: Path) -> Iterator[Path]:
    """A device file in a pod that nobody in it may make."""
    file = pod_root / "dev/not-given"
    os.mknod(file, stat.S_IFCHR, FUSE)
    file.chmod(0o666)
    try:
        yield file
    finally:
        file.unlink()


def test_a_pod_opens_no_device_that_it_was_not_given(cluster: KubeletCluster) -> None:
    with not_given(cluster.worker(NODE).first_process() / "root") as file:
        os.close(os.open(file, os.O_RDONLY))  # The machine may, which is in no group of a pod.
        refused = cluster.pod("exec 9< /dev/not-given", name=NODE)
    assert refused.returncode != 0
    assert "Operation not permitted" in refused.stderr, refused
