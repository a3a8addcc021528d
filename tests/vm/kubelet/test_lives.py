"""A job's whole life in worker pods of a real kubelet: the tests of the small cluster (tests/vm/test_v2_jobs.py)."""

from __future__ import annotations

import pytest

from tests.e2e.jail.test_containers import MAKER
from tests.e2e.jail.test_jobs_in_the_jail import test_a_heterogeneous_job_runs_in_the_jail_on_both_nodes
from tests.vm.kubelet.kubelet_cluster import KubeletCluster
from tests.vm.test_v2_jobs import (
    test_a_cancelled_job_ends_with_all_its_processes,
    test_a_job_ends_and_leaves_nothing,
    test_a_requeued_job_leaves_nothing_of_its_first_run,
    test_a_suspended_job_stands_still_and_goes_on,
)
from tests.vm.test_v2_time_limit import test_a_job_ends_at_its_time_limit

__all__ = [
    "test_a_cancelled_job_ends_with_all_its_processes",
    "test_a_heterogeneous_job_runs_in_the_jail_on_both_nodes",
    "test_a_job_ends_and_leaves_nothing",
    "test_a_job_ends_at_its_time_limit",
    "test_a_requeued_job_leaves_nothing_of_its_first_run",
    "test_a_suspended_job_stands_still_and_goes_on",
]


BUNDLE = """
mkdir -p bundle/rootfs && cd bundle/rootfs && mkdir -p dev proc sys tmp home
tar xf ~/tiny.tar -O layer.tar | tar xf - && touch of-the-image
echo '{"ociVersion": "1.0.2", "root": {"path": "rootfs"}, "process": {"env": ["PATH=/image/bin"]}}' > ../config.json
"""


@pytest.fixture(scope="module", autouse=True)
def bundle(cluster: KubeletCluster) -> None:
    """Return what the container step runs. The small jail has no skopeo, so the archive is unpacked by hand."""
    slurm = cluster.slurm
    slurm.sh(f"cat > tiny_image.py <<'PYTHON'\n{MAKER}\nPYTHON\npython3 tiny_image.py tiny.tar").ok()
    slurm.sh(BUNDLE).ok()


@pytest.fixture(autouse=True)
def rest(cluster: KubeletCluster) -> None:
    """A test whose jobs were left by one that failed would fail too."""
    cluster.wait("rest", cluster.is_at_rest, 60)
