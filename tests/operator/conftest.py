"""Fixtures of the operator's tests against a real API server."""

from __future__ import annotations

import itertools
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from hypothesis.internal.conjecture import providers
from hypothesis.internal.constants_ast import Constants

from devcluster.apiserver.control_plane import ApiServer, free_ports
from tests.operator.fakes import fake_dry_run, fake_slurmrestd
from tests.operator.fakes.fake_workloads import FakeWorkloads
from tests.operator.worlds import operator_rights, world

_NUMBERS = itertools.count()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Function) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show what the operators say of themselves when a test failed."""
    report = yield
    if report.failed:
        worlds = {each for each in item.funcargs.values() if isinstance(each, world.World)}
        for running in (running for each in worlds for running in each.operators):
            report.sections.append((f"Operator {running.log.stem}", running.says()))
    return report


@pytest.fixture
def examples_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hypothesis takes constants out of whatever is imported: which examples come would be for other tests to say."""
    monkeypatch.setattr(providers, "_get_local_constants", Constants)
    monkeypatch.setattr(providers, "CONSTANTS_CACHE", {})


@pytest.fixture(scope="session")
def admin(apiserver: ApiServer) -> world.Admin:
    found = world.Admin(apiserver.kubeconfig)
    found.install_crds()
    return found


@pytest.fixture
def slurm() -> Iterator[fake_slurmrestd.FakeSlurmrestd]:
    with fake_slurmrestd.running(world.KEY) as served:
        yield served


@pytest.fixture
def fake() -> Iterator[fake_slurmrestd.FakeSlurmrestd]:
    """A slurmrestd of two nodes, cpu-0 and cpu-1."""
    with fake_slurmrestd.running(world.KEY) as served:
        served.slurm.register("cpu-0", features=("cpu",))
        served.slurm.register("cpu-1", features=("cpu",))
        yield served


@pytest.fixture
def key_file(tmp_path: Path) -> Path:
    """The key with which fake slurmrestds check tokens."""
    path = tmp_path / "jwt.key"
    path.write_bytes(world.KEY)
    return path


@pytest.fixture
def cluster(admin: world.Admin, slurm: fake_slurmrestd.FakeSlurmrestd) -> Iterator[world.World]:
    """An empty namespace whose workloads come alive as soon as they are declared."""
    with fake_dry_run.running() as dry_run_url:
        found = world.World(admin, f"operator-{next(_NUMBERS)}", slurm.slurm, slurm.url, dry_run_url)
        with FakeWorkloads(found):
            yield found


@pytest.fixture
def kubeconfig(cluster: world.World, tmp_path: Path) -> Path:
    return operator_rights.kubeconfig_of_role(cluster, tmp_path)


@pytest.fixture
def port() -> int:
    return free_ports(1)[0]


@pytest.fixture
def running_operator(cluster: world.World, tmp_path: Path, kubeconfig: Path, port: int) -> Iterator[world.World]:
    """A declared cluster with two nodes and its operator."""
    cluster.declare()
    with world.operator(cluster, tmp_path, kubeconfig, port):
        yield cluster
