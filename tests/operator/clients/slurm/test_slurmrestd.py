"""Promises about talking to slurmrestd: what it says is read, and what is asked of it is done."""

from __future__ import annotations

import dataclasses
import datetime
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from slurm_operator import drains
from slurm_operator.accounts import Database, Entity, Kind
from slurm_operator.clients.slurm import slurmrestd
from slurm_operator.decide.cluster.accounts import Change, Removal
from slurm_operator.decide.nodes import slurm_nodes as nodes
from slurm_operator.state.slurm import EVERY_NODE, Facts, Reservation, Running, SlurmNode

from contract import names, reasons
from tests.operator.clients.slurm.rest_calls import ask
from tests.operator.fakes.fake_slurmrestd import FakeSlurmrestd

AT, HOUR = datetime.datetime(2036, 1, 1, tzinfo=datetime.UTC), datetime.timedelta(hours=1)


def test_what_slurmctld_runs_with_is_read(fake: FakeSlurmrestd, key_file: Path) -> None:
    fake.slurm.parameters, fake.slurm.started = ["enable_configless", "pulumi_slurm=12ab"], 1767225600
    fake.slurm.communication = ["block_null_hash", "EnableIPv6"]
    running = ask(fake, key_file, lambda rest: rest.running())
    since = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
    words = frozenset({"block_null_hash", "enableipv6"})
    assert running == Running("enable_configless,pulumi_slurm=12ab", since, words)


def test_a_reservation_is_made_changed_and_deleted(fake: FakeSlurmrestd, key_file: Path) -> None:
    async def work(rest: slurmrestd.SlurmRest) -> list[tuple[Reservation, ...]]:
        await rest.reserve("r", ("cpu-0", "cpu-1"), AT, AT + HOUR)
        made = await rest.reservations()
        await rest.change_reservation("r", ("cpu-1",), AT + 3 * HOUR, AT + HOUR)
        changed = await rest.reservations()
        await rest.end_reservation("r")
        return [made, changed, await rest.reservations()]

    ours = (names.RESERVATION_USER, "", frozenset({*names.RESERVATION_FLAGS, "SPEC_NODES"}))
    both = frozenset({"cpu-0", "cpu-1"})
    assert ask(fake, key_file, work) == [
        (Reservation("r", both, AT, AT + HOUR, *ours),),
        (Reservation("r", frozenset({"cpu-1"}), AT + HOUR, AT + 3 * HOUR, *ours),),
        (),
    ]


def test_what_a_reboot_adds_to_a_reason_hides_nobodys_drain(fake: FakeSlurmrestd, key_file: Path) -> None:
    # _do_power_work (src/slurmctld/power_save.c, slurm-26-05-3-1) adds it in Slurm's name.
    fake.slurm.drain("cpu-0", f"{reasons.UPDATE} : reboot issued : reboot timed out", names.SLURM_USER)
    fake.slurm.take_down("cpu-1", "bad fan", names.SLURM_USER)
    fake.slurm.drain("cpu-1", "bad fan : reboot issued", names.SLURM_USER)
    seen = ask(fake, key_file, lambda rest: rest.nodes(full=False))
    assert drains.owner(seen["cpu-0"]) is drains.Owner.UPDATE
    assert (drains.owner(seen["cpu-1"]), seen["cpu-1"].reason) == (drains.Owner.FOREIGN, "bad fan")


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ("reboot requested : reboot issued : reboot timed out", reasons.REBOOT_TIMED_OUT),
        ("new kernel : reboot issued : reboot timed out", reasons.REBOOT_TIMED_OUT),
        ("reboot requested : Not responding", reasons.NOT_RESPONDING),
        ("bad fan", "bad fan"),
    ],
)
def test_what_slurm_added_is_the_reason_of_a_node_that_is_down_alone(
    fake: FakeSlurmrestd, key_file: Path, said: str, reason: str
) -> None:
    fake.slurm.take_down("cpu-0", said, names.SLURM_USER)
    assert ask(fake, key_file, lambda rest: rest.nodes(full=False))["cpu-0"].reason == reason


def test_a_partition_is_closed_and_an_unknown_one_has_no_state(fake: FakeSlurmrestd, key_file: Path) -> None:
    async def work(rest: slurmrestd.SlurmRest) -> tuple[str, str]:
        await rest.set_partition("main", "DRAIN")
        return await rest.partition_state("main"), await rest.partition_state("zz")

    fake.slurm.partitions = {"main": "UP"}
    assert ask(fake, key_file, work) == ("DRAIN", "")


def test_administrators_are_read_and_appointed(fake: FakeSlurmrestd, key_file: Path) -> None:
    async def work(rest: slurmrestd.SlurmRest) -> tuple[dict[str, str], dict[str, str]]:
        before = await rest.administrators()
        await rest.appoint({"boss": "Operator", "root": "None"})
        return before, await rest.administrators()

    assert ask(fake, key_file, work) == ({"root": "Administrator"}, {"boss": "Operator"})


def test_qos_and_accounts_are_read_and_changed(fake: FakeSlurmrestd, key_file: Path) -> None:
    high, root = Entity(Kind.QOS, "high"), Entity(Kind.ACCOUNT, "root")

    async def work(rest: slurmrestd.SlurmRest) -> tuple[Database, Database]:
        await rest.change_account("test", Change(high, {"Priority": "7"}, {}, makes=True))
        made = await rest.accounts("test")
        await rest.remove_account("test", Removal(high))
        return made, await rest.accounts("test")

    made, after = ask(fake, key_file, work)
    assert made.records[high]["Priority"] == "7"
    assert (root in made.records, high in after.records) == (True, False)
    assert ("DELETE", "/slurmdb/v0.0.45/qos/high") in fake.slurm.calls


def test_nodes_and_jobs_are_read(fake: FakeSlurmrestd, key_file: Path) -> None:
    number = fake.slurm.run_job("cpu-1")

    async def work(rest: slurmrestd.SlurmRest) -> tuple[Any, ...]:
        states = await rest.job_states()
        return await rest.nodes(full=False), states, await rest.job(states[0][0]), await rest.node("zz-0")

    nodes, states, jobs, missing = ask(fake, key_file, work)
    assert states == [(str(number), frozenset({"RUNNING"}))]
    since = nodes["cpu-0"].started
    assert since is not None
    states_of = frozenset({"IDLE", "DYNAMIC_NORM"})
    read = SlurmNode("cpu-0", states_of, started=since, features=frozenset({"cpu"}), weight=100, topology="")
    assert nodes["cpu-0"] == read
    assert nodes["cpu-1"].allocated_cpus == 1
    assert [(job.job_id, job.nodes, job.partitions) for job in jobs] == [
        (number, frozenset({"cpu-1"}), frozenset({"main"}))
    ]
    assert missing is None


def test_what_keeps_a_record_is_read_and_its_size(fake: FakeSlurmrestd, key_file: Path) -> None:
    fake.slurm.run_job("", state="PENDING", names="cpu-[0-1]")
    fake.slurm.jobs[1]["excluded_nodes"] = "cpu-7"
    for name, listed in {"later": "cpu-[2-3]", "now": "cpu-3", "of licenses": ""}.items():
        fake.slurm.reservations.reserve(name, listed)
    fake.slurm.nodes["cpu-0"].update(
        cpus=8,
        real_memory=2000,
        specialized_memory=64,
        gres="gpu:h100:8(S:0-1),shard:h100:1K(S:0),shard:l40s:8,bandwidth:4K",
    )
    fake.slurm.nodes["cpu-1"].update(cpus=8, real_memory=2000, gres="(null)")

    async def work(rest: slurmrestd.SlurmRest) -> tuple[Any, Any, Any]:
        return await rest.nodes(full=True), await rest.job("1"), await rest.reservations()

    nodes, (job,), reservations = ask(fake, key_file, work)
    assert job.names == {"cpu-0", "cpu-1", "cpu-7"}
    assert [each.nodes for each in reservations] == [{"cpu-2", "cpu-3"}, {"cpu-3"}, set()]
    facts = [nodes[name].facts for name in ("cpu-0", "cpu-1")]
    sizes = [dataclasses.replace(each, options=()) for each in facts if each]
    assert sizes == [Facts(8, 2000, "bandwidth:4096,gpu:h100:8,shard:1032"), Facts(8, 2000)]
    assert [dict(each.options)["MemSpecLimit"] for each in facts if each] == [64, 0]


def test_features_weight_and_place_of_a_node_change_alone(fake: FakeSlurmrestd, key_file: Path) -> None:
    changes: list[dict[str, Any]] = [
        {"features": ("cpu", "avx512")},
        {"features": ("cpu", "zone=a")},
        {"weight": 7},
        {"topology": "fabric:rack1"},
        {"topology": ""},
    ]

    async def work(rest: slurmrestd.SlurmRest) -> list[SlurmNode | None]:
        seen = []
        for change in changes:
            await rest.update_node("cpu-0", **change)
            seen.append(await rest.node("cpu-0"))
        return seen

    seen = [(each.features, each.weight, each.topology) for each in ask(fake, key_file, work) if each]
    first, then = frozenset({"cpu", "avx512"}), frozenset({"cpu", "zone=a"})
    assert seen == [(first, 100, ""), (then, 100, ""), (then, 7, ""), (then, 7, "fabric:rack1"), (then, 7, "")]


def test_an_unchanged_listing_is_not_sent_again_and_a_change_in_the_same_second_is_seen(
    fake: FakeSlurmrestd, key_file: Path
) -> None:
    async def work(rest: slurmrestd.SlurmRest) -> None:
        # It lies ahead, so that it is not over when the answer is read, however slow this machine is.
        fake.slurm.last_update = second = int(time.time()) + 60
        fresh = await rest.nodes(full=False)
        fake.slurm.drain("cpu-0", "bad disk", "root")
        fake.slurm.last_update = second
        assert (await rest.nodes(full=False))["cpu-0"].states != fresh["cpu-0"].states
        fake.slurm.last_update = int(time.time()) - 10
        await rest.nodes(full=True)
        before = fake.slurm.not_modified
        assert "DRAIN" in (await rest.nodes(full=False))["cpu-0"].states
        assert fake.slurm.not_modified == before + 1
        await rest.nodes(full=True)
        assert fake.slurm.not_modified == before + 1, "a full listing never asks for changes only"

    ask(fake, key_file, work)


def test_two_listings_share_the_records_that_say_the_same(fake: FakeSlurmrestd, key_file: Path) -> None:
    """Of thousands of nodes each pass would hold two or three records else."""

    async def work(rest: slurmrestd.SlurmRest) -> tuple[Mapping[str, SlurmNode], Mapping[str, SlurmNode]]:
        before = await rest.nodes(full=True)
        fake.slurm.drain("cpu-0", "bad-fan", "alice")
        return before, await rest.nodes(full=True)

    before, after = ask(fake, key_file, work)
    assert before["cpu-1"] is after["cpu-1"]
    assert before["cpu-0"].reason == ""
    assert after["cpu-0"].reason == "bad-fan"
    assert before["cpu-0"].states is before["cpu-1"].states, "few combinations of states are shared by many nodes"


def test_a_drain_of_ours_stays_ours_when_its_node_falls_silent(fake: FakeSlurmrestd, key_file: Path) -> None:
    # slurmctld's set_node_reason (src/slurmctld/node_mgr.c, slurm-26-05-3-1) adds it after SlurmdTimeout.
    fake.slurm.drain("cpu-0", f"{reasons.UPDATE} : Not responding", names.SLURM_USER)
    node = ask(fake, key_file, lambda rest: rest.nodes(full=False))["cpu-0"]
    assert drains.owner(node) is drains.Owner.UPDATE


def test_a_job_whose_nodes_cannot_be_read_is_on_every_node(fake: FakeSlurmrestd, key_file: Path) -> None:
    fake.slurm.jobs[fake.slurm.run_job("cpu-1", state="SUSPENDED")]["nodes"] = "cpu-[0-"
    jobs = ask(fake, key_file, lambda rest: rest.job("1"))
    everywhere = nodes.busy_nodes(jobs)
    assert "gpu-7" in everywhere
    assert everywhere & {"cpu-0": 1}.keys() == {"cpu-0"}
    seen = ask(fake, key_file, lambda rest: rest.nodes(full=True))
    assert [node.busy for node in nodes.with_jobs(seen, jobs).values()] == [True, True]


def test_a_reservation_whose_nodes_cannot_be_read_hides_no_other(fake: FakeSlurmrestd, key_file: Path) -> None:
    for name, listed in {"odd": "cpu-[0-", "later": "cpu-1"}.items():
        fake.slurm.reservations.reserve(name, listed)
    odd, later = ask(fake, key_file, lambda rest: rest.reservations())
    assert odd.nodes is EVERY_NODE
    assert "cpu-[0-" in odd.unread
    assert (later.nodes, later.unread) == (frozenset({"cpu-1"}), "")


def test_a_suspended_job_shows_in_the_memory_of_its_node(fake: FakeSlurmrestd, key_file: Path) -> None:
    fake.slurm.memory = True
    fake.slurm.run_job("cpu-1", state="SUSPENDED")
    seen = ask(fake, key_file, lambda rest: rest.nodes(full=True))
    assert [nodes.has_work(node) for node in seen.values()] == [False, True]
    assert ask(fake, key_file, lambda rest: rest.running()).counts_memory
