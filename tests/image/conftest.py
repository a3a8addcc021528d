"""One unpacked slurm image for all tests of this folder, and a cluster for those that need nothing special."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from devcluster.images.layers import unpack_image
from tests.image import roots
from tests.image.pods import CONTROLLER
from tests.image.small_cluster import NewCluster, SmallCluster

REFUSED_ANSWER = "refused the answer"
"""Line of native/doors/message_guard.c; no test provokes it."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if os.geteuid() != 0 and "tests/image/" in str(item.path):
            item.add_marker(pytest.mark.skip(reason="makes namespaces"))


@pytest.fixture(scope="session")
def image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpack_image(tmp_path_factory.mktemp("image"))


@pytest.fixture(scope="module")
def new_cluster(image: Path, tmp_path_factory: pytest.TempPathFactory) -> NewCluster:
    """Starts slurmctld and a worker on a root of that name; the end of the `with` ends them. `first`: as of `start`."""

    @contextmanager
    def started(root: str = "bookworm", first: str = "", **options: Any) -> Iterator[SmallCluster]:
        folder = tmp_path_factory.mktemp("cluster")
        with SmallCluster(image, roots.make(root, folder / "root"), folder, **options) as cluster:
            cluster.start(first)
            yield cluster
            refused = [line for line in cluster.log(CONTROLLER).splitlines() if REFUSED_ANSWER in line]
            assert not refused, "slurmctld reads what nodes and commands answer"
        # Logs stay for whoever looks for a failure. Of roots a run has gigabytes, in memory (memory_files.py).
        shutil.rmtree(folder / "volume", ignore_errors=True)

    return started


@pytest.fixture(scope="module")
def cluster(new_cluster: NewCluster) -> Iterator[SmallCluster]:
    """slurmctld, a worker and a login node; a module that needs others has a fixture of this name."""
    with new_cluster() as started:
        started.start_login()
        yield started
