"""One unpacked slurm image for all tests of this folder."""

import os
from pathlib import Path

import pytest

from tests.image.small_cluster import unpack_image


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if os.geteuid() != 0 and "tests/image/" in str(item.path):
            item.add_marker(pytest.mark.skip(reason="makes namespaces"))


@pytest.fixture(scope="session")
def image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpack_image(tmp_path_factory.mktemp("image"))
