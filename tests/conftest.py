"""Fixtures that several test folders share."""

from __future__ import annotations

import ctypes
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest

from devcluster.apiserver.control_plane import ApiServer
from devcluster.suite import order
from tests.health.fakes import nvml as fake_nvml
from tests.preloaded.starts import preloaded_python

# How long an example takes says how busy the machine is, and nothing about what is tested.
hypothesis.settings.register_profile(
    "busy machine", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("busy machine")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Brings files into the order of the suite; the tests of a file keep theirs."""
    seconds, root = order.measured(), config.rootpath
    items.sort(key=lambda item: order.rank(item.path.relative_to(root).as_posix(), seconds))


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """Return a folder that every user may reach. Another run of pytest closes pytest's own to all but root."""
    with tempfile.TemporaryDirectory(prefix="open-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield folder


@pytest.fixture(scope="session")
def binaries() -> Path:
    """The folder with the built toolchain (etcd, kube-apiserver, kubectl, ...)."""
    chosen = os.environ.get("PULUMI_SLURM_BINARIES")
    if chosen:
        return Path(chosen)
    try:
        from devcluster.node import toolchain
    except ImportError:
        pytest.skip("set PULUMI_SLURM_BINARIES to the folder with the built toolchain")
    return Path(toolchain.binaries())


@pytest.fixture(scope="session")
def apiserver(tmp_path_factory: pytest.TempPathFactory, binaries: Path) -> Iterator[ApiServer]:
    """A real API server without a node, one per test run: use a namespace of your own in it."""
    with ApiServer(tmp_path_factory.mktemp("apiserver"), binaries) as server:
        yield server


@pytest.fixture(scope="session")
def preloaded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder for PATH with a `python3` that has imported Pulumi, this checkout's program and the stand-in."""
    with preloaded_python(tmp_path_factory.mktemp("preloaded")) as folder:
        yield folder


@pytest.fixture(scope="session")
def nvml_library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    """The fake NVML in this process."""
    return fake_nvml.load(tmp_path_factory.mktemp("nvml"))


@pytest.fixture
def nvml(
    nvml_library: ctypes.CDLL, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> fake_nvml.Nvml:
    """The scenario of the fake NVML: eight GPUs that are well."""
    file = tmp_path_factory.mktemp("scenario") / "gpus"
    monkeypatch.setenv("FAKE_GPUS", str(file))
    return fake_nvml.Nvml(file)
