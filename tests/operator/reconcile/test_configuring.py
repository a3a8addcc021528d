"""Promises about partitions that are being closed while Slurm answers nobody, or refuses."""

from __future__ import annotations

import asyncio
import dataclasses
import datetime
import math
from typing import Any, cast

import pytest
from slurm_operator import execute, report
from slurm_operator.actions import DeletePod
from slurm_operator.clients.kubernetes import KubernetesApi
from slurm_operator.clients.slurm import dry_run
from slurm_operator.clients.slurm.slurm_error import SlurmError, Trouble
from slurm_operator.configure import Configurer
from slurm_operator.decide.cluster import config
from slurm_operator.findings import Finding
from slurm_operator.reconcile import growing_pause
from slurm_operator.reconcile.configuration import Configuration
from slurm_operator.state.kubernetes import Kubernetes, Pod, Workload
from slurm_operator.state.slurm import Running, Unknown

from tests.operator.played.played_clients import LeaseFor
from tests.operator.reconcile.configured_pass import CLOSED, CLUSTER, FILES, READS, SEEN, this_pass

AWAY = Unknown("RestUnreachable", "no answer in time")


@dataclasses.dataclass
class Failing:
    """A slurmrestd of which every call about a partition fails."""

    trouble: Trouble
    asked: int = 0

    async def partition_state(self, name: str) -> str:
        self.asked += 1
        raise SlurmError(self.trouble, name)


@pytest.mark.parametrize(
    ("running", "trouble", "asked", "told"),
    [
        (AWAY, Trouble.UNREACHABLE, 0, set()),
        (READS, Trouble.UNREACHABLE, 1, {"ActionFailed"}),
        (READS, Trouble.REFUSED, len(CLOSED), {execute.REFUSED}),
    ],
)
def test_closed_partitions_cost_a_silent_slurm_one_deadline_at_most_and_are_not_forgotten(
    running: Running | Unknown, trouble: Trouble, asked: int, told: set[str]
) -> None:
    rest = Failing(trouble)
    nobody = cast(Any, None)
    configuration = Configuration(execute.Executor(nobody, nobody), Configurer(nobody, nobody))
    bringing = configuration.bring(this_pass(rest, SEEN, running), AWAY, AWAY, declared=True)
    found, closed = asyncio.run(bringing)
    assert (rest.asked, {each.reason for each in found.wrong}, closed) == (asked, told, CLOSED)


class Obeying:
    """A slurmrestd whose partitions are as they were set."""

    async def partition_state(self, name: str) -> str:
        return "UP"

    async def set_partition(self, name: str, state: str) -> None:
        pass


class Partitions:
    """A slurmrestd with partitions in some states."""

    def __init__(self, **states: str) -> None:
        self.states = states

    async def partition_state(self, name: str) -> str:
        return self.states.get(name, "")

    async def set_partition(self, name: str, state: str) -> None:
        self.states[name] = state


@pytest.mark.parametrize("declared", ["UP", "DOWN", "DRAIN", "INACTIVE"])
def test_a_partition_that_stays_after_all_is_in_its_declared_state_again(
    declared: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def told(*_: object) -> None:
        pass

    monkeypatch.setattr(report.Reporter, "event", told)
    line = "" if declared == "UP" else f" State={declared}"
    files = {"slurm.conf": f"SlurmctldParameters=pulumi_slurm=1\nPartitionName=main\nPartitionName=old{line}\n"}
    cluster = dataclasses.replace(CLUSTER, closed=frozenset({"old"}))
    seen = dataclasses.replace(SEEN, cluster=cluster, desired_config=files, active_config=files)
    rest, lease = Partitions(main="UP", old="DRAIN"), LeaseFor(math.inf)
    configuration = Configuration(execute.Executor(cast(Any, None), lease), Configurer(cast(Any, None), lease))
    reads = dataclasses.replace(READS, parameters="pulumi_slurm=1")
    bringing = configuration.bring(this_pass(rest, seen, reads), {}, (), declared=True)
    _, closed = asyncio.run(bringing)
    assert (rest.states, closed) == ({"main": "UP", "old": declared}, frozenset())


@pytest.mark.parametrize(
    ("declared", "until"), [("UP", "DRAIN"), ("DRAIN", "DRAIN"), ("DOWN", "INACTIVE"), ("INACTIVE", "INACTIVE")]
)
def test_a_partition_that_goes_takes_no_new_jobs_and_starts_none_that_it_did_not_start_before(
    declared: str, until: str
) -> None:
    text = f'PartitionName=a,B QOS="x State=UP"  state = {declared.lower()} # Default\nPartitionName=DEFAULT State=UP\n'
    states = config.declared_states({"slurm.conf": text})
    assert states == {"a": declared, "B": declared}
    assert config.closed_state(states["a"]) == until


@pytest.mark.parametrize(("read_again", "goes"), [(False, True), (True, False)])
def test_a_partition_that_slurmctld_may_have_opened_again_by_reading_its_files_is_not_taken_for_closed(
    read_again: bool, goes: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    copied, nobody, lease = [], cast(KubernetesApi, None), LeaseFor(math.inf)

    async def accept(*_: object) -> config.Verdict:
        return config.Verdict(True, "")

    async def promote(*_: object) -> str:
        copied.append(True)
        return ""

    async def told(*_: object) -> None:
        pass

    monkeypatch.setattr(dry_run, "ask", accept)
    monkeypatch.setattr(Configurer, "promote", promote)
    monkeypatch.setattr(report.Reporter, "event", told)
    more = {"slurm.conf": FILES["slurm.conf"] + "PartitionName=old Nodes=ns_cpu\n"}
    seen = dataclasses.replace(SEEN, cluster=dataclasses.replace(CLUSTER, closed=frozenset()), active_config=more)
    running = dataclasses.replace(READS, parameters="pulumi_slurm=1")
    again = dataclasses.replace(running, started=running.started + datetime.timedelta(seconds=9))
    configuration = Configuration(execute.Executor(nobody, lease), Configurer(nobody, lease))
    rest = Obeying()

    async def two_passes() -> None:
        await configuration.bring(this_pass(rest, seen, running), {}, (), declared=True)
        await configuration.bring(this_pass(rest, seen, again if read_again else running), {}, (), declared=True)

    asyncio.run(two_passes())
    assert bool(copied) is goes


class Copying:
    """A Configurer that notes the files that it copied."""

    def __init__(self) -> None:
        self.copied: list[object] = []

    async def copy(self, wanted: str, active: str, files: object) -> str:
        self.copied.append(files)
        return "copied"


@pytest.mark.parametrize(
    ("verdict", "copied"), [(config.Verdict(True, ""), [FILES]), (config.Verdict(False, "Bad value"), [])]
)
def test_a_new_clusters_first_files_are_copied_once_a_slurmctld_took_them(
    verdict: config.Verdict, copied: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    async def answer(url: str, files: object, seconds: float) -> config.Verdict:
        asked.append(url)
        assert 0 < seconds <= dry_run.DEADLINE_SECONDS
        return verdict

    monkeypatch.setattr(dry_run, "ask", answer)
    configurer = Copying()
    configuration = Configuration(cast(Any, None), cast(Configurer, configurer))
    for _ in range(1 if copied else 3):
        asyncio.run(configuration.first("http://dry-run", FILES))
    assert (configurer.copied, asked) == (copied, ["http://dry-run"]), "a verdict stays"


def test_a_new_cluster_waits_a_minute_for_its_config_dry_run_and_an_old_one_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = [0.0]
    monkeypatch.setattr("slurm_operator.reconcile.configuration.time.monotonic", lambda: clock[0])

    async def no_answer(*_: object) -> config.Verdict:
        raise dry_run.DryRunError("connection refused")

    monkeypatch.setattr(dry_run, "ask", no_answer)
    configurer = Copying()
    configuration = Configuration(cast(Any, None), cast(Configurer, configurer))
    done = []
    for clock[0] in (7.0, 66.0, 67.0):
        done.append(asyncio.run(configuration.first("http://dry-run", FILES)))
    assert done == ["", "", "copied"]
    clock[0] = 1e6
    seen = dataclasses.replace(SEEN, cluster=dataclasses.replace(CLUSTER, closed=frozenset()), active_config={})
    found, _ = asyncio.run(configuration.bring(this_pass(None, seen, AWAY), AWAY, AWAY, declared=True))
    assert [each.reason for each in found] == ["ConfigDryRunPending"]


def with_dry_run(uid: str, *, ready: bool = True) -> Kubernetes:
    """A cluster whose slurmctld works, or not, beside a config dry run."""
    controller = Pod("slurm-controller-0", "controller", ready=ready, running=True)
    pods = {pod.name: pod for pod in (controller, Pod("slurm-rehearsal-1", "rehearsal", True, True, uid=uid))}
    return dataclasses.replace(SEEN, pods=pods, dry_run=Workload("slurm-rehearsal", 1, 1, "1", created=1))


def test_a_slurmctld_that_works_stays_while_its_new_version_refuses_the_declared_files(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    verdicts = [config.Verdict(False, "unrecognized key: Old"), config.Verdict(True, "")]

    async def answer(*_: object) -> config.Verdict:
        return verdicts.pop(0)

    monkeypatch.setattr(dry_run, "ask", answer)
    configuration = Configuration(cast(Any, None), cast(Any, None))

    def kept(seen: Kubernetes) -> Finding | None:
        return asyncio.run(configuration.keeps_controller(this_pass(None, seen, READS)))

    assert kept(with_dry_run("1", ready=False)) is None, "a slurmctld that does not work has nothing to lose"
    for _ in range(2):
        refused = kept(with_dry_run("1"))
        assert refused is not None
        assert refused.reason == "ConfigurationRefused"
        assert refused.message.endswith("refuses the declared configuration: unrecognized key: Old")
    assert kept(with_dry_run("2")) is None, "a pod of another image is asked anew"
    assert verdicts == []


def test_a_slurmctld_that_works_stays_while_nobody_has_tried_its_new_version(monkeypatch: pytest.MonkeyPatch) -> None:
    async def no_answer(*_: object) -> config.Verdict:
        raise dry_run.DryRunError("connection refused")

    monkeypatch.setattr(dry_run, "ask", no_answer)
    configuration = Configuration(cast(Any, None), cast(Any, None))
    waits = asyncio.run(configuration.keeps_controller(this_pass(None, with_dry_run("1"), READS)))
    assert waits is not None
    assert waits.reason == "ConfigDryRunPending"


def test_files_that_a_slurmctld_refused_are_tried_again_by_one_of_another_image(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    verdicts = [config.Verdict(False, "unrecognized key: New"), config.Verdict(True, "")]

    async def answer(*_: object) -> config.Verdict:
        return verdicts.pop(0)

    monkeypatch.setattr(dry_run, "ask", answer)
    nobody = cast(Any, None)
    configuration = Configuration(execute.Executor(nobody, nobody), Configurer(nobody, nobody))
    told = []
    for uid in ("1", "1", "2"):
        wanted = {"slurm.conf": FILES["slurm.conf"] + "PartitionName=held Nodes=ns_cpu\n"}
        active = {"slurm.conf": FILES["slurm.conf"] + "PartitionName=gone Nodes=ns_cpu\n"}
        seen = dataclasses.replace(with_dry_run(uid), desired_config=wanted, active_config=active)
        found, _ = asyncio.run(configuration.bring(this_pass(None, seen, AWAY), AWAY, (), declared=True))
        told.append(found[0].reason)
    assert told == ["ConfigurationRefused", "ConfigurationRefused", "PartitionsClosing"]


@pytest.mark.parametrize(("revision", "restarts"), [("new", ["slurm-controller-0"]), ("old", [])])
def test_a_restart_for_the_configuration_brings_no_template_that_was_not_tried(
    revision: str, restarts: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []

    async def execute_one(self: execute.Executor, rest: object, body: object, decided: DeletePod) -> list[Finding]:
        done.append(decided.pod)
        return []

    monkeypatch.setattr(execute.Executor, "execute", execute_one)
    nobody = cast(Any, None)
    configuration = Configuration(execute.Executor(nobody, nobody), Configurer(nobody, nobody))
    words = {"slurm.conf": FILES["slurm.conf"] + "CommunicationParameters=NoCtldInAddrAny\n"}
    seen = dataclasses.replace(
        SEEN,
        cluster=dataclasses.replace(CLUSTER, closed=frozenset()),
        workloads={"slurm-controller": Workload("slurm-controller", 1, 1, "1", revision="new", on_delete=True)},
        pods={"slurm-controller-0": Pod("slurm-controller-0", "controller", True, True, revision=revision)},
        desired_config=words,
        active_config=words,
    )
    asyncio.run(configuration.bring(this_pass(None, seen, READS), AWAY, (), declared=True))
    assert done == restarts


def test_what_does_not_help_is_tried_again_at_growing_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    monkeypatch.setattr("slurm_operator.reconcile.growing_pause.time.monotonic", lambda: clock[0])
    pause = growing_pause.GrowingPause(first_seconds=10, longest_seconds=40)
    tried = []
    for clock[0] in range(1, 200):
        if pause.is_over("a"):
            tried.append(clock[0])
    assert tried == [1, 11, 31, 71, 111, 151, 191], "so that it costs little, and comes within the longest"
    assert pause.is_over("b"), "what is new does not wait"
    assert not pause.is_over("b")
    pause.reset()
    assert pause.is_over("b"), "nor does what had come right"
