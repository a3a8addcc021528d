"""A real pulumi with the stand-in or an installed plugin, and a real API server with controllers."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from devcluster.apiserver.control_plane import ApiServer
from devcluster.stacks import kubernetes_plugin as plugin
from tests.preloaded.starts import OWN_PROCESSES
from tests.provider.stacks import Cluster, Stack

CONTROLLERS = (
    "garbage-collector-controller,namespace-controller,statefulset-controller,deployment-controller,"
    "replicaset-controller,job-controller,endpoints-controller,resourcequota-controller"
)
PLUGIN = pytest.StashKey[plugin.Plugin]()


def pytest_configure(config: pytest.Config) -> None:
    try:
        config.stash[PLUGIN] = plugin.chosen(os.environ)
    except plugin.NoPlugin as reason:
        raise pytest.UsageError(str(reason)) from None


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    terminalreporter.write_line(f"Kubernetes plugin of tests/provider: {config.stash[PLUGIN]}")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.stash[PLUGIN].is_stand_in:
        return
    for item in items:
        for mark in item.iter_markers("standin_only"):
            item.add_marker(pytest.mark.skip(reason=f"true of the stand-in only: {mark.args[0]}"))


@pytest.fixture(scope="session")
def plugin_folder(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory, preloaded: Path) -> Path:
    """A folder for PATH, where the engine finds the plugin by its name, and a Python that has imported Pulumi."""
    folder = tmp_path_factory.mktemp("plugin")
    (folder / plugin.STAND_IN.name).symlink_to(pytestconfig.stash[PLUGIN].file)
    (folder / "python3").symlink_to(preloaded / "python3")
    return folder


@pytest.fixture(scope="session")
def apiserver(tmp_path_factory: pytest.TempPathFactory, binaries: Path) -> Iterator[ApiServer]:
    """One for these tests alone: a worker may have tests of the operator too, which play the controllers themselves."""
    with ApiServer(tmp_path_factory.mktemp("apiserver"), binaries) as server:
        yield server


@pytest.fixture(scope="session")
def cluster(apiserver: ApiServer, binaries: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    log = (tmp_path_factory.mktemp("controllers") / "log").open("wb")
    command = [
        # They end with this worker, however it ends.
        *("setpriv", "--pdeathsig", "KILL", "--"),
        str(binaries / "kube-controller-manager"),
        f"--kubeconfig={apiserver.kubeconfig}",
        "--leader-elect=false",
    ]
    command += [f"--controllers={CONTROLLERS}", "--secure-port=0"]
    controllers = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        yield Cluster(apiserver.kubeconfig)
    finally:
        controllers.terminate()
        controllers.wait(20)
        log.close()


@pytest.fixture(scope="session")
def pulumi_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("pulumi-home")


@pytest.fixture(scope="session")
def new_stack(
    binaries: Path, cluster: Cluster, pulumi_home: Path, plugin_folder: Path
) -> Callable[[Path], contextlib.AbstractContextManager[Stack]]:
    """Makes a context with a stack in a folder, and with its namespace."""

    @contextlib.contextmanager
    def make(folder: Path) -> Iterator[Stack]:
        made = Stack(folder, [plugin_folder, binaries], cluster, pulumi_home)
        answer = cluster.call("POST", "/api/v1/namespaces", {"metadata": {"name": made.namespace}})
        assert answer["kind"] == "Namespace", answer
        yield made
        cluster.call("DELETE", f"/api/v1/namespaces/{made.namespace}")
        shutil.rmtree(folder, ignore_errors=True)

    return make


@pytest.fixture
def stack(new_stack: Callable[[Path], contextlib.AbstractContextManager[Stack]], tmp_path: Path) -> Iterator[Stack]:
    with new_stack(tmp_path) as made:
        yield made


@pytest.fixture
def own_processes(stack: Stack) -> None:
    """The stack's program and the stand-in start as they do for users, for tests of how they end."""
    stack.environment[OWN_PROCESSES] = "1"
