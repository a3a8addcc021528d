"""One unpacked slurm image for all tests of this folder, and a cluster for those that need nothing special."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.image import roots
from tests.image.small_cluster import SmallCluster
from tests.image.unpacked import unpack_image


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if os.geteuid() != 0 and "tests/image/" in str(item.path):
            item.add_marker(pytest.mark.skip(reason="makes namespaces"))


@pytest.fixture(scope="session")
def image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpack_image(tmp_path_factory.mktemp("image"))


@pytest.fixture(scope="module")
def cluster(image: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SmallCluster]:
    """slurmctld, a worker and a login node; a module that needs others has a fixture of this name."""
    folder = tmp_path_factory.mktemp("cluster")
    with SmallCluster(image, roots.make("bookworm", folder / "root"), folder) as started:
        started.start()
        started.start_login()
        yield started
