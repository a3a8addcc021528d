"""Heterogeneous jobs on cgroup v2: those of tests/image/jobs/test_het_jobs.py, which leave nothing on two nodes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.image import roots
from tests.image.jobs.intervals import OFTEN
from tests.image.jobs.test_het_jobs import (
    test_a_batch_job_of_two_components_outlives_slurmctlds_pod,
    test_a_batch_job_of_two_components_runs_steps_over_both,
    test_a_cancelled_job_ends_on_both_nodes,
    test_salloc_takes_two_components_and_an_ordinary_job_has_its_users_groups,
    test_srun_runs_a_program_on_each_component_as_its_user,
)
from tests.vm.v2_cluster import RESOURCES, V2Cluster
from tests.vm.v2_groups import make

__all__ = [
    "test_a_batch_job_of_two_components_outlives_slurmctlds_pod",
    "test_a_batch_job_of_two_components_runs_steps_over_both",
    "test_a_cancelled_job_ends_on_both_nodes",
    "test_salloc_takes_two_components_and_an_ordinary_job_has_its_users_groups",
    "test_srun_runs_a_program_on_each_component_as_its_user",
]


@pytest.fixture(scope="module")
def cluster(image: Path, groups: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[V2Cluster]:
    folder = tmp_path_factory.mktemp("het")
    root = roots.make("mpich", folder / "root")
    with V2Cluster(image, root, folder, make(groups / "het"), {"resources": RESOURCES}, slurm=OFTEN) as started:
        started.start()
        started.start_second_worker()
        started.jail("groupadd -g 3000 lab && usermod -aG lab alice")
        started.settle()
        yield started


@pytest.fixture(autouse=True)
def rest(cluster: V2Cluster) -> Iterator[None]:
    with cluster.life_of_a_job(60):
        yield
        cluster.jail("scancel -u alice")
