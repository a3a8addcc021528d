"""Promises about the order of updates: slurmdbd, slurmctld, workers; and about what is taken at a start only."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from slurm_operator.actions import DeletePod, Purpose, SetOnDelete
from slurm_operator.decide.cluster import config, daemons, status
from slurm_operator.findings import Findings
from slurm_operator.state.kubernetes import Kubernetes, Pod, Unread
from slurm_operator.state.slurm import Running, Unknown

from components.config.slurm_keys import slurm_options
from contract.slurm_conf import WORKER_START
from tests.operator.states.seen_clusters import NOW, workload, world

OLD, NEW = "slurm-controller-old", "slurm-controller-new"
RUNNING = Running("", NOW)
BLIND = Unknown("RestUnreachable", "no answer in time")


def cluster(pod: dict[str, Any] | None = None, slurmdbd: dict[str, Any] | None = None, **changes: Any) -> Kubernetes:
    """A cluster whose slurmctld is of its newest template, with fields of its pod and of slurmdbd's set changed."""
    there = Pod("slurm-controller-0", "controller", ready=True, running=True, revision=NEW, uid="7")
    seen = world()
    sets = {
        **seen.workloads,
        "slurm-controller": dataclasses.replace(workload("slurm-controller"), revision=NEW, on_delete=True),
        "slurm-accounting": dataclasses.replace(workload("slurm-accounting"), **(slurmdbd or {})),
    }
    pods = {**seen.pods, there.name: dataclasses.replace(there, **(pod or {}))}
    accounted = dataclasses.replace(seen.cluster, accounting="slurm-accounting")
    return dataclasses.replace(seen, cluster=accounted, workloads=sets, pods=pods, **changes)


def test_slurmctlds_updates_are_taken_over_from_kubernetes_at_once() -> None:
    seen = cluster()
    kubernetes_own = dataclasses.replace(seen.workloads["slurm-controller"], on_delete=False)
    seen = dataclasses.replace(seen, workloads={**seen.workloads, "slurm-controller": kubernetes_own})
    assert daemons.controller(seen) == SetOnDelete("slurm-controller", "1")
    assert daemons.controller(dataclasses.replace(seen, workloads={})) is None


def test_slurmctld_moves_when_slurmdbd_has() -> None:
    moved = daemons.controller(cluster({"revision": OLD}))
    assert moved == DeletePod("slurm-controller-0", "7", Purpose.CONTROLLER, "a new one has the current template")
    assert daemons.controller(cluster()) is None, "it is as declared"


@pytest.mark.parametrize(
    "broken", [{"ready": False}, {"ready": False, "trouble": "container controller: CrashLoopBackOff"}]
)
def test_a_slurmctld_that_never_became_ready_moves_too(broken: dict[str, Any]) -> None:
    assert isinstance(daemons.controller(cluster({"revision": OLD, **broken})), DeletePod)


@pytest.mark.parametrize(
    ("slurmdbd", "words", "is_updated"),
    [
        ({"current": False}, "", False),
        ({"current": False}, "Access denied", False),
        ({"ready": 0}, "", False),
        ({"ready": 0}, "Access denied", True),
        ({}, "", True),
    ],
    ids=["old", "old and broken", "starting", "broken", "ready"],
)
def test_slurmctld_never_moves_before_slurmdbd_and_waits_for_no_broken_one(
    slurmdbd: dict[str, Any], words: str, is_updated: bool
) -> None:
    seen = cluster({"revision": OLD}, slurmdbd, accounting_words=words)
    assert isinstance(daemons.controller(seen), DeletePod) is is_updated
    without = dataclasses.replace(seen, workloads={k: v for k, v in seen.workloads.items() if k != "slurm-accounting"})
    assert isinstance(daemons.controller(without), DeletePod)


def test_slurmctld_does_not_move_while_an_up_is_under_way_or_its_pod_ends() -> None:
    assert daemons.controller(cluster({"revision": OLD}, ledger_revision="r2")) is None
    assert daemons.controller(cluster({"revision": OLD, "terminating": True})) is None


DRY_RUN = workload("slurm-rehearsal")


@pytest.mark.parametrize(
    "changed",
    [{"current": False}, {"ready": 0}, {"created": 2}],
    ids=["nobody has begun it", "it does not start", "a pod of the image before is there too"],
)
def test_a_slurmctld_that_works_stays_until_the_config_dry_run_has_started_with_the_new_image(
    changed: dict[str, Any],
) -> None:
    trouble = "container rehearsal: ErrImagePull: no such image"
    starting = Pod("slurm-rehearsal-1", "rehearsal", ready=False, running=False, trouble=trouble)
    seen = cluster({"revision": OLD}, dry_run=dataclasses.replace(DRY_RUN, **changed))
    seen = dataclasses.replace(seen, pods={**seen.pods, starting.name: starting})
    assert daemons.controller(seen) is None
    assert daemons.holds_controller(seen) == (
        f"slurm-rehearsal has to start with the new image first (slurm-rehearsal-1: {trouble})"
    )
    broken = dataclasses.replace(seen.pods["slurm-controller-0"], ready=False)
    assert isinstance(daemons.controller(dataclasses.replace(seen, pods={broken.name: broken})), DeletePod)


def test_slurmctld_moves_when_the_config_dry_run_has_and_stays_while_nobody_can_see_it() -> None:
    assert isinstance(daemons.controller(cluster({"revision": OLD}, dry_run=DRY_RUN)), DeletePod)
    unseen = cluster({"revision": OLD}, unread={Unread.DRY_RUN: "forbidden"})
    assert daemons.controller(unseen) is None
    assert daemons.holds_controller(unseen) == "the config dry run's Deployment can't be read"


@pytest.mark.parametrize("pod", [{"revision": OLD}, {"revision": OLD, "terminating": True}], ids=["old", "ending"])
def test_until_slurmctld_has_moved_the_cluster_is_not_as_declared_and_no_worker_moves(pod: dict[str, Any]) -> None:
    seen = cluster(pod)
    found = status.cluster(seen, {}, Findings(), status.Counts(0, 0))
    assert (
        [each.reason for each in found.blocking]
        == [each.reason for each in found.progressing]
        == ["ControllerUpdating"]
    )
    assert "slurm-controller is updated first" in daemons.holds_workers(seen, RUNNING)
    waiting = status.cluster(cluster(pod, {"ready": 0}), {}, Findings(), status.Counts(0, 0))
    assert waiting.blocking[0].message == "slurmctld is updated to its current template: slurm-accounting comes first"


def test_workers_wait_for_the_end_of_an_up() -> None:
    assert daemons.holds_workers(cluster(), RUNNING) == ""
    assert daemons.holds_workers(cluster(ledger_revision="r2"), RUNNING)


@pytest.mark.parametrize("part", [Unread.LEDGER, Unread.CONFIGURATION])
def test_no_worker_moves_while_nobody_knows_what_is_declared(part: Unread) -> None:
    seen = cluster(unread={part: "forbidden"}, desired_config=None, active_config=None)
    assert daemons.holds_workers(seen, RUNNING) == f"{part} can't be read"


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
    wanted = config.Reconfigure(restart)
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
    seen = cluster(desired_config=special, active_config=plain)
    assert "declared configuration" in daemons.holds_workers(seen, old)


def test_every_key_with_words_that_take_a_start_may_be_set() -> None:
    assert WORKER_START.keys() <= slurm_options.ALLOWED.keys()
