"""Fixtures that several test folders share."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest

from devcluster.control_plane import ApiServer

# How long an example takes says how busy the machine is, and nothing about what is tested.
hypothesis.settings.register_profile(
    "busy machine", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("busy machine")


@pytest.fixture(scope="session")
def binaries() -> Path:
    """The folder with the built toolchain (etcd, kube-apiserver, kubectl, ...)."""
    chosen = os.environ.get("PULUMI_SLURM_BINARIES")
    if chosen:
        return Path(chosen)
    try:
        from devcluster import toolchain
    except ImportError:
        pytest.skip("set PULUMI_SLURM_BINARIES to the folder with the built toolchain")
    return Path(toolchain.binaries())


@pytest.fixture(scope="session")
def apiserver(tmp_path_factory: pytest.TempPathFactory, binaries: Path) -> Iterator[ApiServer]:
    """A real API server without a node, one per test run: use a namespace of your own in it."""
    with ApiServer(tmp_path_factory.mktemp("apiserver"), binaries) as server:
        yield server


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Show the first failure of each test that was tried again (docs/adr/0008): the second may be of its leftovers."""
    first = {report.nodeid: report for report in reversed(terminalreporter.stats.get("rerun", []))}
    for outcome, title in (("passed", "passed only when tried again: mend these"), ("failed", "failed both times")):
        names = {report.nodeid for report in terminalreporter.stats.get(outcome, [])}
        if found := [report for name, report in first.items() if name in names]:
            terminalreporter.section(f"{len(found)} {title}; the first failure of each")
            for report in found:
                terminalreporter.line(f"{report.nodeid}: {report.longreprtext.strip().splitlines()[-1]}")
                terminalreporter.line(report.longreprtext)
                for name, content in report.sections:
                    terminalreporter.line(f"{name}:\n{content}")
