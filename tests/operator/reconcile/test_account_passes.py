"""Promises about how passes bring accounts to slurmdbd: failures are told and tried again, and nothing is forgotten."""

from __future__ import annotations

import asyncio
import dataclasses
import math
from collections.abc import Awaitable, Mapping
from types import SimpleNamespace
from typing import Any, cast

import jsonschema
import pytest
from slurm_operator import accounts
from slurm_operator.accounts import Declared, Entity, Records
from slurm_operator.clients.lease import NotLeading
from slurm_operator.clients.slurm.slurm_error import SlurmError, Trouble
from slurm_operator.clients.slurm.slurmrestd import SlurmRest
from slurm_operator.decide.cluster.accounts import Change
from slurm_operator.execute import Executor
from slurm_operator.findings import Finding, Findings
from slurm_operator.reconcile.accounts import (
    EVERY_SECONDS,
    LISTED,
    LONGEST_PAUSE_SECONDS,
    NO_EFFECT,
    SILENT_SECONDS,
    Accounts,
)
from slurm_operator.reconcile.administrators import Administrators
from slurm_operator.reconcile.pass_budget import PassBudget
from slurm_operator.reconcile.pass_context import PassContext

from components.control.crds import accounts as schema
from tests.operator.played.played_clients import LeaseFor
from tests.operator.played.played_database import ACCOUNT, USER, PlayedDatabase, records
from tests.operator.states.seen_clusters import workload, world
from tests.operator.worlds.world import World, stateful_set, until

DECLARED = Declared(
    records(
        qos={"high": {"Priority": "9"}},
        accounts={"physics": {"Parent": "root"}, "optics": {"Parent": "physics"}},
        users={"optics/alice": {"MaxJobs": "3"}},
    )
)
BIO: Records = records(accounts={"bio": {"Parent": "chem"}})


class Passes:
    """Passes over a played slurmdbd, each 2 seconds after the one before."""

    def __init__(self, database: PlayedDatabase, monkeypatch: pytest.MonkeyPatch) -> None:
        self.database = database
        self.status: Mapping[str, Any] | None = None
        self.events: list[str] = []
        self.now = 0.0
        self.uid = "one"
        monkeypatch.setattr("slurm_operator.reconcile.growing_pause.time.monotonic", lambda: self.now)
        self.begin_anew()

    def begin_anew(self, checks: float = math.inf) -> None:
        """Another operator, which remembers nothing."""
        self._lease = LeaseFor(checks)
        report = SimpleNamespace(event=self._event)
        executor = cast(Executor, SimpleNamespace(report=report))
        self._accounts = Accounts(executor, self._lease, lambda: self.now)

    async def _event(self, body: object, reason: str, note: str) -> None:
        self.events.append(note)

    def run(self, declared: Declared | None, *, written: bool = True, ready: bool = True) -> Findings:
        """Do a pass, whose status is written or lost."""
        self.now += 2
        seen = world()
        ledger = accounts.ledger({"accounts": self.status or {}})
        cluster = dataclasses.replace(seen.cluster, accounting="slurm-accounting", accounts=declared, ledger=ledger)
        slurmdbd = {"slurm-accounting": workload("slurm-accounting", 1, ready=int(ready))}
        seen = dataclasses.replace(seen, cluster=cluster, workloads={**seen.workloads, **slurmdbd})
        body = {"metadata": {"name": "test", "uid": self.uid}, "status": {"accounts": self.status}}
        rest = cast(SlurmRest, self.database)
        now = PassContext(rest, body, seen, cast(Any, None), PassBudget(lambda: self.now))
        findings, status = asyncio.run(self._accounts.bring(now))
        if written:
            self.status = status
            jsonschema.validate(status or {}, schema.status())
        return findings


@pytest.fixture
def passes(monkeypatch: pytest.MonkeyPatch) -> Passes:
    return Passes(PlayedDatabase(), monkeypatch)


@pytest.mark.parametrize(
    ("trouble", "told_after"), [(Trouble.UNREACHABLE, SILENT_SECONDS), (Trouble.REFUSED, 0)], ids=["away", "refuses"]
)
def test_of_administrators_too_one_look_without_an_answer_is_not_told(trouble: Trouble, told_after: float) -> None:
    clock, away, given = [0.0], [False], dict[str, str]()

    async def ask() -> dict[str, str]:
        if away[0]:
            raise SlurmError(trouble, "slurmdbd: nobody answers")
        return given

    async def appoint(levels: Mapping[str, str]) -> None:
        given.update(levels)

    async def attempt(body: object, kind: str, work: Awaitable[str]) -> list[Finding]:
        await work
        return []

    async def look() -> Findings:
        return (await administrators.bring(now))[0]

    rest = cast(SlurmRest, SimpleNamespace(administrators=ask, appoint=appoint))
    cluster = dataclasses.replace(world().cluster, accounting="slurm-accounting", administrators={"boss": "Operator"})
    there = {**world().workloads, "slurm-accounting": workload("slurm-accounting", 1)}
    seen = dataclasses.replace(world(), cluster=cluster, workloads=there)
    now = PassContext(rest, {}, seen, cast(Any, None), PassBudget(lambda: clock[0]))
    executor = cast(Executor, SimpleNamespace(attempt=attempt))
    administrators = Administrators(executor, LeaseFor(math.inf), lambda: clock[0])
    away[0] = True
    assert asyncio.run(look()) == [] or not told_after
    clock[0] += told_after
    assert [each.message for each in asyncio.run(look())] == ["administrators can't be read: slurmdbd: nobody answers"]
    away[0] = False
    assert (asyncio.run(look()), given) == ([], {"boss": "Operator"})
    away[0] = True
    clock[0] += EVERY_SECONDS
    assert asyncio.run(look()) == [] or not told_after, "slurmdbd has answered since"


@pytest.mark.parametrize(
    "odd",
    [
        records(qos={"gold": {"Colour": "red"}}),
        records(qos={"normal": {"Colour": "red"}}),
        records(qos={"gold": {"Priority": "high"}}),
        records(accounts={"physics": {}}),
    ],
)
def test_what_nobody_can_read_in_a_declaration_is_told_and_ends_no_pass(passes: Passes, odd: Records) -> None:
    (told,) = passes.run(Declared(odd))
    assert told.message.startswith("spec.accounts of the SlurmCluster is not readable")
    assert passes.run(DECLARED) == []


def test_a_declaration_is_brought_in_one_pass_told_once_and_looked_at_now_and_then(passes: Passes) -> None:
    assert passes.run(DECLARED) == []
    assert len(passes.database.calls) == 4
    assert passes.run(DECLARED) == []
    assert passes.status
    assert "readAt" in passes.status
    assert {key: value for key, value in passes.status.items() if key != "readAt"} == {
        "set": {
            "qos": {"high": {"Priority": "9"}},
            "accounts": {"physics": {"Parent": "root"}, "optics": {"Parent": "physics"}},
            "users": {"optics/alice": {"MaxJobs": "3"}},
        },
        "made": {"qos": ["high"], "accounts": ["optics", "physics"], "users": ["optics/alice"]},
        "others": {
            "qos": {"normal": {}},
            "accounts": {"root": {"QOS": "normal", "Parent": ""}},
            "users": {"root/root": {"DefaultAccount": "yes"}, "optics/alice": {"DefaultAccount": "yes"}},
        },
    }
    (event,) = passes.events
    assert event.startswith("set in slurmdbd, as accounting says: new QOS high Priority=9, new account")
    reads = passes.database.reads
    passes.run(DECLARED)
    assert passes.database.reads == reads, "slurmdbd is not asked in each pass"
    passes.database.records[Entity(ACCOUNT, "physics")]["Parent"] = "root"
    passes.database.records[Entity(ACCOUNT, "optics")]["Parent"] = "root"
    passes.now += EVERY_SECONDS
    passes.run(DECLARED)
    assert passes.database.records[Entity(ACCOUNT, "optics")]["Parent"] == "physics", "a change by hand is undone"


def test_a_changed_declaration_is_brought_at_once(passes: Passes) -> None:
    passes.run(DECLARED)
    passes.run(DECLARED)
    passes.run(Declared({**DECLARED.records, **records(qos={"night": {}})}))
    assert passes.database.calls[-1] == "new QOS night"


def test_what_slurmdbd_refuses_is_told_and_tried_again_while_all_else_is_done(passes: Passes) -> None:
    declared = Declared({**DECLARED.records, **BIO})
    (told,) = passes.run(declared)
    assert told.reason == "AccountsNotSet"
    refused = "new account bio Parent=chem: No parent account 'chem' on cluster 'test'"
    assert told.message == f"not set in slurmdbd: {refused}"
    assert len(passes.database.calls) == 5, "the others are there"
    for _ in range(60):
        assert [each.message for each in passes.run(declared)] == [told.message], "it is told as long as it lasts"
    tries = passes.database.calls.count("new account bio Parent=chem")
    assert 3 <= tries <= 6, "it is tried again, at growing pauses"
    passes.database.apply(Change(Entity(ACCOUNT, "chem"), {"Parent": "root"}, {}, makes=True))
    passes.now += LONGEST_PAUSE_SECONDS
    passes.run(declared)
    assert passes.run(declared) == [], "it is over when it is done"
    assert passes.status and passes.status["notDeclared"] == ["account chem"]


def test_what_slurmdbd_takes_without_an_effect_is_told(passes: Passes) -> None:
    passes.database.deaf = frozenset({"MaxJobs"})
    passes.run(DECLARED)
    passes.run(DECLARED)
    for _ in range(30):
        (told,) = passes.run(DECLARED)
        assert told.message == f"not set in slurmdbd: user alice in optics MaxJobs=3: {NO_EFFECT}"


def test_a_pass_ends_in_time_and_the_next_one_goes_on(passes: Passes, monkeypatch: pytest.MonkeyPatch) -> None:
    many = Declared(records(qos={f"q{number:02}": {} for number in range(30)}))
    database = passes.database
    slowly = database.change_account

    async def change(cluster: str, change: Change) -> None:
        passes.now += 1
        await slowly(cluster, change)

    monkeypatch.setattr(database, "change_account", change)
    (told,) = passes.run(many)
    assert told.message == "22 of 30 changes of QOS, accounts and users are left"
    assert told.severity.name == "PROGRESSING"
    for _ in range(6):
        passes.run(many)
    assert passes.run(many) == []
    assert len(database.calls) == 30


def test_slurmrestd_that_goes_away_in_the_middle_is_asked_again(passes: Passes) -> None:
    passes.database.most = 2
    (told,) = passes.run(DECLARED)
    assert told.message == "2 of 4 changes of QOS, accounts and users are left"
    passes.database.most = 1000
    passes.run(DECLARED)
    assert passes.run(DECLARED) == []
    assert passes.status and passes.status["made"]["users"] == ["optics/alice"]


def test_what_a_pass_made_is_known_although_its_status_was_lost(passes: Passes) -> None:
    passes.run(DECLARED, written=False)
    passes.run(DECLARED)
    passes.run(Declared({}, deletes=True))
    passes.run(Declared({}, deletes=True))
    assert not passes.database.records.keys() & DECLARED.records.keys()


def test_accounts_wait_until_slurmctld_has_registered_its_cluster_and_qos_do_not(passes: Passes) -> None:
    root = Entity(ACCOUNT, "root")
    values = passes.database.records.pop(root)
    for _ in range(3):
        (told,) = passes.run(DECLARED)
        assert told.severity.name == "PROGRESSING"
    assert passes.database.calls == ["new QOS high Priority=9"]
    passes.database.records[root] = values
    passes.run(DECLARED)
    assert passes.run(DECLARED) == []
    assert DECLARED.records.keys() <= passes.database.records.keys()


def test_another_operator_deletes_what_the_status_says_was_made_and_nothing_else(passes: Passes) -> None:
    passes.run(DECLARED)
    passes.run(DECLARED)
    passes.database.apply(Change(Entity(ACCOUNT, "chem"), {"Parent": "root"}, {}, makes=True))
    passes.begin_anew()
    passes.run(Declared({}, deletes=True))
    assert not passes.database.records.keys() & DECLARED.records.keys()
    assert Entity(ACCOUNT, "chem") in passes.database.records


def test_a_new_slurmcluster_of_that_name_owns_nothing_of_the_old_one(passes: Passes) -> None:
    passes.run(DECLARED)
    passes.status, passes.uid = None, "two"
    passes.run(Declared({}, deletes=True))
    assert DECLARED.records.keys() <= passes.database.records.keys()


def test_running_jobs_keep_their_account_and_qos_until_they_have_ended(passes: Passes) -> None:
    alice = Entity(USER, "optics/alice")
    declared = Declared({**DECLARED.records, alice: {"QOS": "high"}})
    passes.run(declared)
    passes.run(declared)
    passes.database.busy = frozenset({alice})
    gone = Declared({}, deletes=True)
    for _ in range(9):
        (told,) = passes.run(gone)
        refused = "user alice in optics deleted: Job(s) active, cancel job(s) before remove"
        assert told.message == f"not set in slurmdbd: {refused}"
        assert declared.records.keys() <= passes.database.records.keys(), "what she needs stays, too"
    passes.database.busy = frozenset()
    passes.now += LONGEST_PAUSE_SECONDS
    passes.run(gone)
    assert passes.run(gone) == []
    assert not passes.database.records.keys() & declared.records.keys()


def test_without_a_declaration_nobody_is_asked_and_the_status_stays(passes: Passes) -> None:
    passes.run(DECLARED)
    passes.run(DECLARED)
    before, reads = passes.status, passes.database.reads
    assert passes.run(None) == []
    assert (passes.status, passes.database.reads) == (before, reads)


def test_while_slurmdbd_is_away_nothing_is_tried_and_nothing_forgotten(passes: Passes) -> None:
    passes.run(DECLARED)
    passes.run(DECLARED)
    before, reads = passes.status, passes.database.reads
    passes.now += EVERY_SECONDS
    assert passes.run(DECLARED, ready=False) == []
    passes.database.trouble = SlurmError(Trouble.UNREACHABLE, "no answer in time")
    assert passes.run(DECLARED) == []
    assert passes.status == before
    passes.database.trouble = SlurmError(Trouble.REFUSED, "Unable to connect to database")
    (told,) = passes.run(DECLARED)
    assert told.message == "accounts can't be read: Unable to connect to database"
    assert passes.status == before
    assert passes.database.reads == reads + 2


def test_a_slurmdbd_that_stays_silent_is_told_of_and_asked_now_and_then(passes: Passes) -> None:
    passes.run(DECLARED)
    passes.run(DECLARED)
    passes.now += EVERY_SECONDS
    passes.database.trouble = SlurmError(Trouble.UNREACHABLE, "no answer in time")
    assert passes.run(DECLARED) == []
    passes.now += SILENT_SECONDS
    (told,) = passes.run(DECLARED)
    assert told.message == "accounts can't be read: no answer in time"
    reads = passes.database.reads
    assert passes.run(DECLARED) == [told]
    assert passes.database.reads == reads, "each question costs the pass its deadline"
    passes.database.trouble = None
    passes.now += EVERY_SECONDS
    assert passes.run(DECLARED) == []


def test_a_changed_declaration_hides_no_silence(passes: Passes) -> None:
    passes.run(DECLARED)
    passes.database.trouble = SlurmError(Trouble.UNREACHABLE, "no answer in time")
    assert passes.run(DECLARED) == []
    passes.now += SILENT_SECONDS
    (told,) = passes.run(Declared(BIO))
    assert told.message == "accounts can't be read: no answer in time"


def test_one_look_without_an_answer_is_not_told_however_long_ago_the_last_answer_was(passes: Passes) -> None:
    passes.run(DECLARED)
    passes.run(DECLARED)
    passes.database.trouble = SlurmError(Trouble.UNREACHABLE, "no answer in time")
    passes.now += 3600
    assert passes.run(DECLARED) == [], "no pass has looked"
    passes.now += 3600
    assert passes.run(DECLARED, ready=False) == []
    assert passes.run(DECLARED) == [], "slurmdbd was away"


def test_an_operator_without_the_lease_changes_nothing(passes: Passes) -> None:
    passes.begin_anew(checks=2)
    with pytest.raises(NotLeading):
        passes.run(DECLARED)
    assert len(passes.database.calls) == 2


def test_the_status_lists_so_many_undeclared_things_and_counts_the_others(passes: Passes) -> None:
    theirs = records(accounts={f"a{number:03}": {"Parent": "root"} for number in range(LISTED + 7)})
    passes.database.records |= {entity: dict(values) for entity, values in theirs.items()}
    passes.run(DECLARED)
    assert passes.status
    assert len(passes.status["notDeclared"]) == LISTED
    assert passes.status["notDeclaredLeftOut"] == 7


@pytest.mark.apiserver
def test_a_running_operator_brings_accounts_and_tells_of_them(running_operator: World) -> None:
    world = running_operator
    world.wait("Available", "True")
    world.create("statefulsets", stateful_set("slurm-accounting", "accounting"))
    declared = {"qos": {"high": {"Priority": "9"}}}
    world.patch("slurmclusters", "test", {"spec": {"accounting": "slurm-accounting", "accounts": declared}})
    until(lambda: world.slurm.qos.keys() == {"normal", "high"}, "the QOS is there")
    until(
        lambda: world.get("slurmclusters", "test")["status"].get("accounts", {}).get("set") == declared,
        "the status says so",
    )
    assert world.get("slurmclusters", "test")["status"]["accounts"]["made"] == {"qos": ["high"]}
    assert world.get("slurmclusters", "test")["spec"]["accounts"]["removal"] == "keep"
    world.patch("slurmclusters", "test", {"spec": {"accounts": {"removal": "delete", "qos": None}}})
    until(lambda: world.slurm.qos.keys() == {"normal"}, "it goes by policy")
