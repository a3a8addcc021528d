"""Nodes of their own for these tests."""

from __future__ import annotations

import contextlib
import itertools
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from devcluster.machine.bootstrap import CHECKOUT
from devcluster.node import containerd, node_cli, node_images, toolchain
from devcluster.node.instance import Instance
from tests.devcluster.node_under_test import IMAGE, Node

_NUMBERS = itertools.count()


@pytest.fixture(scope="session")
def probe(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An image archive with the probe."""
    folder = tmp_path_factory.mktemp("probe")
    subprocess.run(
        [toolchain.find_go(), "build", "-trimpath", "-buildvcs=false", "-o", folder / "probe", "."],
        cwd=Path(__file__).parent / "probe",
        env={**os.environ, "CGO_ENABLED": "0", "GOTOOLCHAIN": "local"},
        timeout=300,
        check=True,
    )
    return node_images.archive(folder / "probe", IMAGE, folder / "probe.tar", user="0:0")


@pytest.fixture(scope="session")
def state_root(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A state root of this test run."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PULUMI_SLURM_STATE", str(tmp_path_factory.mktemp("state")))
        yield


@contextlib.contextmanager
def starting(binaries: Path, probe: Path) -> Iterator[Callable[[str], Node]]:
    """Starts instances that have the probe's image; all are removed with the block."""
    started: list[Instance] = []

    def start(name: str) -> Node:
        instance = Instance.named(name)
        started.append(instance)
        node_cli.start(instance, binaries, CHECKOUT, owner=os.getpid())
        containerd.load_image(instance, probe)
        return Node(instance, binaries)

    try:
        yield start
    finally:
        for instance in started:
            node_cli.remove(instance)


@pytest.fixture
def start_node(state_root: None, binaries: Path, probe: Path) -> Iterator[Callable[[str], Node]]:
    """Starts instances for one test: none has a name that an earlier one left in use."""
    with starting(binaries, probe) as start:
        yield start


@pytest.fixture(scope="session")
def node(state_root: None, binaries: Path, probe: Path) -> Iterator[Node]:
    """One node for all tests that only use it: each in a namespace of its own."""
    with starting(binaries, probe) as start:
        yield start("node-tests")


@pytest.fixture
def namespace(node: Node) -> Iterator[str]:
    """A namespace for one test, with its service account there."""
    name = f"test-{next(_NUMBERS)}"
    node.kubectl("create", "namespace", name)
    node.kubectl("wait", "-n", name, "--for=create", "serviceaccount/default", "--timeout=30s")
    yield name
    node.kubectl("delete", "namespace", name, "--wait=false")
