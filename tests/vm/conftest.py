"""Tests that need a kernel with cgroup v2 (all controllers) and NFS: in the guest, or on a machine that has them.

`make test-vm` runs them; elsewhere they are left out by name, since nothing here can stand for such a kernel.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from devcluster.images.layers import unpack_image
from tests.image import roots
from tests.image.jobs.bundles import make_bundle
from tests.vm.resting_cluster import KILL_WAIT
from tests.vm.v2_cluster import FAKE_GPUS, NODE_SET, V2Cluster
from tests.vm.v2_groups import make, remove

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
    top = make(HIERARCHY / f"pulumi-slurm-test-{os.getpid()}")
    try:
        yield top
    finally:
        remove(top)


@pytest.fixture(scope="session")
def cluster(image: Path, groups: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[V2Cluster]:
    """A worker with two fake GPUs and a login node, each in its own cgroup and cgroup namespace."""
    folder = tmp_path_factory.mktemp("v2")
    root = roots.make("mpich", folder / "root")
    slurm = {"options": KILL_WAIT}
    with V2Cluster(image, root, folder, make(groups / "first"), NODE_SET, FAKE_GPUS, slurm) as started:
        started.start()
        started.start_limited_login()
        make_bundle(started.root, folder / "volume/persistent/home/alice/bundle")
        started.let_root_submit()
        started.settle()
        yield started
