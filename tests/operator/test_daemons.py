"""Promises about what workers wait for, and about options that are taken at a start only."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from slurm_operator.decisions import config, daemons, effects
from slurm_operator.seen import Kubernetes, Running, Unknown

from components.config import slurm_options
from tests.operator.test_status import NOW, workload, world

RUNNING = Running("", NOW)
BLIND = Unknown("RestUnreachable", "no answer in time")


def cluster(**changes: Any) -> Kubernetes:
    """A cluster with accounting."""
    seen = world()
    sets = {**seen.workloads, "slurm-accounting": workload("slurm-accounting")}
    accounted = dataclasses.replace(seen.cluster, accounting="slurm-accounting")
    return dataclasses.replace(seen, cluster=accounted, workloads=sets, **changes)


def test_workers_wait_for_the_end_of_an_up() -> None:
    assert daemons.holds_workers(cluster(), RUNNING) == ""
    assert daemons.holds_workers(cluster(ledger_revision="r2"), RUNNING)


@pytest.mark.parametrize("name", ["slurm-accounting", "slurm-controller"])
@pytest.mark.parametrize("behind", [{"current": False}, {"ready": 0}], ids=["rolling", "not ready"])
def test_no_worker_moves_before_slurmdbd_and_slurmctld_are_ready_in_their_new_version(
    name: str, behind: dict[str, Any]
) -> None:
    seen = cluster()
    rolling = {**seen.workloads, name: dataclasses.replace(seen.workloads[name], **behind)}
    assert name in daemons.holds_workers(dataclasses.replace(seen, workloads=rolling), RUNNING)


def files(mark: str, *lines: str) -> dict[str, str]:
    return {"slurm.conf": "\n".join([f"SlurmctldParameters=a,pulumi_slurm={mark}", *lines, ""])}


@pytest.mark.parametrize(
    ("line", "restart"),
    [
        ("CommunicationParameters=block_null_hash,NoCtldInAddrAny", ("noctldinaddrany",)),
        ("communicationparameters=EnableIPv6 # both", ("enableipv6",)),
        ("CommunicationParameters=NoInAddrAny", ()),
        ("MessageTimeout=33", ()),
    ],
)
def test_slurmctld_reads_by_a_restart_what_it_takes_at_its_start_only(line: str, restart: tuple[str, ...]) -> None:
    before, after = Running("pulumi_slurm=11", NOW), files("22", line)
    wanted = config.Restart(restart) if restart else config.Reconfigure()
    assert config.reconfiguration(after, before, ()) == wanted
    taken = dataclasses.replace(before, communication=frozenset(restart))
    assert config.reconfiguration(after, taken, ()) == config.Reconfigure(), "it started with it"
    assert config.reconfiguration(files("22"), taken, ()) == wanted, "taken back"
    assert config.reconfiguration(after, dataclasses.replace(taken, parameters="pulumi_slurm=22"), ()) is None


def test_workers_get_what_they_take_at_their_start_only_when_slurmctld_has_it() -> None:
    plain, special = files("11"), files("22", "SlurmdParameters=config_overrides,numa_node_as_socket")
    old, new = Running("pulumi_slurm=11", NOW), Running("pulumi_slurm=22", NOW)
    assert config.is_pending_for_workers(special, plain, old), "declared, not yet used: held for its jobs, say"
    assert config.is_pending_for_workers(special, special, old), "not yet read"
    assert config.is_pending_for_workers(special, special, BLIND)
    assert not config.is_pending_for_workers(special, special, new)
    assert config.is_pending_for_workers(plain, special, new)
    assert not config.is_pending_for_workers(files("33"), plain, old), "a reconfigure is enough for all else"
    seen = cluster(wanted_config=special, active_config=plain)
    assert "declared configuration" in daemons.holds_workers(seen, old)


def test_the_words_that_take_a_start_are_the_programs() -> None:
    assert effects.WORKER_START == slurm_options.WORKER_START
    assert effects.WORKER_START.keys() <= slurm_options.KNOWN.keys()
