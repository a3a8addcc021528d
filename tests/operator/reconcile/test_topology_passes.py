"""Passes that bring files with topologies to slurmctld: what they try, copy, and change of nodes first."""

from __future__ import annotations

import asyncio
import dataclasses
import math
from collections.abc import Mapping
from typing import Any, cast

import pytest
from slurm_operator import execute, report
from slurm_operator.clients.kubernetes import KubernetesApi
from slurm_operator.clients.slurm import dry_run
from slurm_operator.clients.slurm.slurm_error import SlurmError, Trouble
from slurm_operator.configure import Configurer
from slurm_operator.decide.cluster import config
from slurm_operator.decide.nodes import topology
from slurm_operator.findings import Findings
from slurm_operator.reconcile.configuration import Configuration
from slurm_operator.state.slurm import SlurmNode

from contract import names
from contract.conditions import NO_USE_TO_WAIT
from tests.operator.played.played_clients import LeaseFor
from tests.operator.reconcile.configured_pass import CLUSTER, READS, SEEN, this_pass
from tests.operator.states.topologies import FILES, OTHER, placed


@dataclasses.dataclass
class Tried:
    """Passes of the operator are tried: they note what they did. slurmctld refuses some files."""

    done: list[str] = dataclasses.field(default_factory=list)
    copied: list[config.Promote] = dataclasses.field(default_factory=list)
    refuses: str = ""

    def bring(self, wanted: dict[str, str], active: dict[str, str], at: str, *, locked: bool = False) -> Findings:
        """Run one pass."""
        tried, nobody, lease = self, cast(KubernetesApi, None), LeaseFor(math.inf)

        async def judge(_url: str, files: Mapping[str, str], _seconds: float) -> config.Verdict:
            refused = bool(tried.refuses) and tried.refuses in files[names.TOPOLOGY_YAML]
            return config.Verdict(not refused, "slurmctld's words" if refused else "")

        async def promote(_: object, _cluster: object, decided: config.Promote) -> str:
            tried.done.append("copied")
            tried.copied.append(decided)
            return ""

        async def told(*_: object) -> None:
            pass

        class Nodes:
            async def node(self, name: str) -> SlurmNode:
                return placed(name, at)

            async def update_node(self, name: str, features: object, weight: object, topology: str) -> None:
                if locked:
                    raise SlurmError(Trouble.REFUSED, name)
                tried.done.append(f"{name} is in {topology!r}")

        cluster = dataclasses.replace(CLUSTER, closed=frozenset())
        seen = dataclasses.replace(SEEN, cluster=cluster, desired_config=wanted, active_config=active)
        configuration = Configuration(execute.Executor(nobody, lease), Configurer(nobody, lease))
        reads = dataclasses.replace(READS, parameters="")
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(dry_run, "ask", judge)
            patch.setattr(Configurer, "promote", promote)
            patch.setattr(report.Reporter, "event", told)
            bringing = configuration.bring(this_pass(Nodes(), seen, reads), {"cpu-0": placed(at=at)}, (), declared=True)
            found, _ = asyncio.run(bringing)
        return found


@pytest.mark.parametrize(
    ("at", "locked", "done"),
    [
        ("nvlink:a", False, ["cpu-0 is in ''", "copied"]),
        ("nvlink:a", True, []),
        ("fabric:rack1", False, []),
        ("", False, ["copied"]),
    ],
)
def test_a_node_is_out_of_a_topology_before_the_files_that_lack_it_are_copied(
    at: str, locked: bool, done: list[str]
) -> None:
    text = FILES[names.TOPOLOGY_YAML].replace("rack1", "rack2")
    flat = text[: text.index("- topology: nvlink")] + text[text.index("- topology: plain") :]
    tried = Tried()
    tried.bring(FILES | {names.TOPOLOGY_YAML: flat}, FILES, at, locked=locked)
    assert tried.done == done


def test_files_with_a_new_tree_are_tried_and_copied_before_the_declared_ones() -> None:
    active, tried = {names.SLURM_CONF: FILES[names.SLURM_CONF]}, Tried()
    tried.bring(FILES, active, "")
    (first,) = tried.copied
    assert topology.default(topology.of_files(first.files)) == {"_flat"}
    assert first.wanted == FILES
    tried.bring(FILES, dict(first.files), "fabric:rack1")
    assert tried.copied[1:] == [config.Promote(FILES)]


def test_files_with_a_new_tree_that_slurmctld_refuses_are_told_and_not_used() -> None:
    tried = Tried(refuses="_flat")
    found = tried.bring(FILES, {names.SLURM_CONF: FILES[names.SLURM_CONF]}, "")
    assert tried.done == []
    (told,) = found.blocking
    assert told.reason in NO_USE_TO_WAIT
    assert "slurmctld's words" in told.message


class ConfigMaps:
    """An API server that has ConfigMaps alone."""

    def __init__(self, wanted: dict[str, str]) -> None:
        self.data = {CLUSTER.desired_config: wanted, CLUSTER.active_config: {"slurm.conf": "before"}}

    async def get(self, _version: str, kind: str, name: str) -> dict[str, Any] | None:
        metadata = {"name": name, "uid": "1", "resourceVersion": "1"}
        return {"metadata": metadata, "data": self.data[name]} if kind == "configmaps" else None

    async def replace(self, _version: str, _kind: str, body: dict[str, Any]) -> None:
        self.data[body["metadata"]["name"]] = body["data"]


@pytest.mark.parametrize(("wanted", "copied"), [(FILES, {"slurm.conf": "first"}), (OTHER, {"slurm.conf": "before"})])
def test_files_before_the_declared_ones_are_copied_while_these_are_still_declared(
    wanted: dict[str, str], copied: dict[str, str]
) -> None:
    there = ConfigMaps(wanted)
    configurer = Configurer(cast(KubernetesApi, there), LeaseFor(math.inf))
    asyncio.run(configurer.promote(CLUSTER, config.Promote({"slurm.conf": "first"}, "", FILES)))
    assert there.data[CLUSTER.active_config] == copied
