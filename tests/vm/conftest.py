"""Tests that need a kernel with cgroup v2 (all controllers) and NFS: in the guest, or on a machine that has them.

`make test-vm` runs them; elsewhere they are left out by name, since nothing here can stand for such a kernel.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.image import roots
from tests.image.test_mpi_in_containers import make_bundle
from tests.image.unpacked import unpack_image
from tests.vm.v2_cluster import FAKE_GPUS, FIFTH_OF_A_CPU, LOGIN_MIB, LOGIN_PROCESSES, V2Cluster
from tests.vm.v2_groups import remove

HIERARCHY = Path("/sys/fs/cgroup")
SHOWN = 8000
"""So many characters of a failure: the logs of pods are in it."""


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Shows a failure at once: pytest itself shows them at its end, which a guest that hangs never comes to."""
    if report.failed:
        text = report.longreprtext
        shown = text if len(text) < SHOWN else f"{text[: SHOWN // 2]}\n…\n{text[-SHOWN // 2 :]}"
        print(f"\n{report.nodeid} {report.when}: {shown}", file=sys.stderr)


@pytest.fixture(scope="session")
def image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpack_image(tmp_path_factory.mktemp("image"))


@pytest.fixture(scope="session")
def groups() -> Iterator[Path]:
    """A group of the version 2 hierarchy that hands all controllers down; what is made in it goes with it."""
    top = HIERARCHY / f"pulumi-slurm-test-{os.getpid()}"
    top.mkdir()
    try:
        for parent in (HIERARCHY, top):
            for name in (parent / "cgroup.controllers").read_text().split():
                (parent / "cgroup.subtree_control").write_text(f"+{name}")
        yield top
    finally:
        remove(top)


@pytest.fixture(scope="session")
def cluster(image: Path, groups: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[V2Cluster]:
    """A worker with two fake GPUs and a login node, each in a group and a cgroup namespace as a runtime makes them."""
    folder = tmp_path_factory.mktemp("v2")
    with V2Cluster(image, roots.make("mpich", folder / "root"), folder, groups) as started:
        started.start(FAKE_GPUS)
        started.start_login(cpuMillis=FIFTH_OF_A_CPU, memoryMib=LOGIN_MIB, processes=LOGIN_PROCESSES)
        make_bundle(started.root, folder / "volume/persistent/home/alice/bundle")
        started.let_root_submit()
        started.settle()
        yield started
