"""A dev cluster without a database, for tests that take one of their own: a guest takes minutes less to start it."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest
import yaml

from devcluster.cli import up
from devcluster.node import node_cli, toolchain
from devcluster.node.instance import Instance
from devcluster.stacks.stack import Stack
from tests.e2e.conftest import Slurm
from tests.vm.kubelet import pod_news
from tests.vm.kubelet.conftest import give_small_jail
from tests.vm.kubelet.kubelet_cluster import SlowSlurm

CONFIG: dict[str, dict[str, Any]] = {
    # Shorter than pytest's own limit, so that Pulumi says what it waited for.
    "timeouts": {"populate": "20m", "available": "12m"},
    # A guest starts programs slowly: checks every 15 s would leave it no time for jobs.
    "health": {"interval": "10m"},
    "accounting": {"mode": "off"},
}
"""In place of what the dev stack says of each."""
ASK_SECONDS = 30
Config = dict[str, Any]
"""A stack's configuration, by key with the project's name before it."""


@contextmanager
def started(name: str, change: Callable[[Config], None], request: pytest.FixtureRequest) -> Iterator[Slurm]:
    """Starts the dev cluster with a changed configuration, and removes it at the end of the context.

    Args:
        name: of its instance.
        change: writes into the dev stack's configuration, which has CONFIG already.
        request: a fixture's.
    """
    instance, facts = Instance.named(name), up.facts

    def without_database(cluster: up.Cluster, references: Mapping[str, str]) -> dict[str, Any]:
        found = facts(cluster, {"database": references["slurm"], **references})
        # Slurm keeps its administrators in the database.
        users = [{key: value for key, value in user.items() if key != "admin"} for user in found["login"]["users"]]
        return {**found, "login": {"users": users}}

    try:
        with pytest.MonkeyPatch.context() as patch, _shown(request, instance):
            patch.setattr(up, "facts", without_database)
            give_small_jail(patch, ("slurm", "operator"))
            _configure(Stack(up.stack_folder(instance), toolchain.build(), instance.kubeconfig), change)
            cluster = up.up(instance, owner=os.getpid())
        yield SlowSlurm(cluster)
    finally:
        node_cli.remove(instance)


def _configure(stack: Stack, change: Callable[[Config], None]) -> None:
    stack.prepare()
    stack.write_config({})
    content = yaml.safe_load(stack.config_file.read_text())
    content["config"] |= {f"pulumi-slurm:{name}": value for name, value in CONFIG.items()}
    change(content["config"])
    stack.config_file.write_text(yaml.safe_dump(content, sort_keys=False))


@contextmanager
def _shown(request: pytest.FixtureRequest, instance: Instance) -> Iterator[None]:
    """Progress of `up` and news of the jail's pod come at once: a guest that is ended shows no captured output."""

    def kubectl(*words: str) -> str:
        config = ("--kubeconfig", str(node_cli.kubeconfig(instance)), "-n", pod_news.NAMESPACE, "-o", "json")
        command = [str(toolchain.binaries() / "kubectl"), *(config if words[0] == "get" else config[:-2]), *words]
        try:
            asked = subprocess.run(command, capture_output=True, text=True, timeout=ASK_SECONDS, check=False)
        except (OSError, subprocess.TimeoutExpired) as unanswered:
            return str(unanswered)
        return asked.stdout or asked.stderr

    capturing = request.config.pluginmanager.getplugin("capturemanager")
    assert capturing is not None
    with capturing.global_and_fixture_disabled(), pod_news.told(kubectl):
        yield
