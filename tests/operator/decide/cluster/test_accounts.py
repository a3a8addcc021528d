"""Promises about QOS, accounts and users: what is declared comes to slurmdbd, and what people made there stays."""

from __future__ import annotations

import datetime
import json
from typing import Any

import hypothesis
import pytest
from hypothesis import strategies as st
from slurm_operator import accounts
from slurm_operator.accounts import Database, Declared, Entity, Ledger, Other, Records
from slurm_operator.decide.cluster.accounts import Removal, decide, qos_of_partitions

from tests.operator.played.played_database import ACCOUNT, OWN, QOS, USER, PlayedDatabase, records
from tests.operator.states.declared_accounts import bring, declarations

HIGH, PHYSICS = Entity(QOS, "high"), Entity(ACCOUNT, "physics")
SACCTMGR = "kubectl -n slurm exec slurm-accounting-0 -- sacctmgr -i"
ALICE = Entity(USER, "optics/alice")
PEOPLE = records(
    users={"optics/alice": {"MaxJobs": "3", "QOS": "high"}, "bio/alice": {"DefaultAccount": "yes"}},
    accounts={
        "optics": {"Parent": "physics"},
        "physics": {"Parent": "root", "QOS": "high,normal", "Coordinators": "alice"},
        "bio": {"Parent": "root"},
    },
    qos={"high": {"Priority": "100", "Preempt": "low"}, "low": {}},
)


def steps(declared: Records, found: Records, ledger: Ledger | None = None, deletes: bool = False) -> list[str]:
    """Return what is to be done, in words."""
    decision = decide(Declared(declared, deletes), ledger or Ledger(), Database({**OWN, **found}))
    return [str(step) for step in decision.steps]


def test_everything_is_made_in_an_order_that_slurm_takes() -> None:
    assert steps(PEOPLE, {}) == [
        "new QOS low",
        "new QOS high Priority=100 Preempt=low",
        "new account bio Parent=root",
        "new account physics Parent=root QOS=high,normal",
        "new account optics Parent=physics",
        "new user alice in bio DefaultAccount=yes",
        "new user alice in optics MaxJobs=3 QOS=high",
        "account physics Coordinators=alice",
    ]


def test_what_is_as_declared_is_left_alone() -> None:
    database = PlayedDatabase()
    ledger, decision = bring(database, Declared(PEOPLE), Ledger())
    assert steps(PEOPLE, database.records, ledger) == []
    assert (decision.held, decision.undeclared) == ((), ())
    assert ledger.made == PEOPLE.keys()


@pytest.mark.parametrize(
    ("declared", "found", "given", "changed"),
    [
        ({"MaxJobs": "3"}, {"MaxJobs": "5"}, {"MaxJobs": "3"}, ["MaxJobs=3"]),
        ({"MaxJobs": "3"}, {"MaxJobs": "5"}, {}, ["MaxJobs=3"]),
        ({"MaxJobs": "3"}, {"MaxJobs": "3", "GrpJobs": "9"}, {"MaxJobs": "3"}, []),
        ({}, {"MaxJobs": "3"}, {"MaxJobs": "3"}, ["MaxJobs="]),
        ({}, {"MaxJobs": "7"}, {"MaxJobs": "3"}, []),
        ({}, {"MaxJobs": "7"}, {}, []),
        ({}, {"Fairshare": "9"}, {"Fairshare": "9"}, ["Fairshare=1"]),
        ({"Fairshare": "1"}, {}, {}, []),
        ({}, {"DefaultAccount": "yes"}, {"DefaultAccount": "yes"}, []),
        ({"QOS": "low"}, {"QOS": "high,low"}, {"QOS": "high,low"}, ["QOS=low"]),
    ],
    ids=[
        "changed by hand", "taken over", "more by hand", "declared no more", "changed by hand since", "somebody's",
        "back to the default", "the default", "the default account", "a shorter list",
    ],
)  # fmt: skip
def test_which_values_change(
    declared: dict[str, str], found: dict[str, str], given: dict[str, str], changed: list[str]
) -> None:
    ledger = Ledger({ALICE: given})
    said = steps({ALICE: declared}, {ALICE: found}, ledger)
    assert said == [f"user alice in optics {pair}" for pair in changed]


def test_texts_stay_when_they_are_declared_no_more() -> None:
    given = Ledger({PHYSICS: {"Parent": "root", "Description": "Physics"}})
    assert steps({PHYSICS: {"Parent": "root"}}, {PHYSICS: {"Description": "Physics"}}, given) == []


def test_an_account_moves_below_one_that_is_made_in_the_same_pass() -> None:
    declared = records(accounts={"optics": {"Parent": "science"}, "science": {"Parent": "root"}})
    found = records(accounts={"optics": {"Parent": "physics"}, "physics": {}})
    assert steps(declared, found) == ["new account science Parent=root", "account optics Parent=science"]


def test_a_list_that_slurmrestd_can_not_empty_is_told_with_the_command_for_it() -> None:
    found = {HIGH: {"Preempt": "low"}, Entity(QOS, "low"): {}, ALICE: {"QOS": "high"}}
    given = Ledger({HIGH: {"Preempt": "low"}, ALICE: {"QOS": "high"}})
    decision = decide(Declared({HIGH: {"Priority": "5"}, ALICE: {}}), given, Database({**OWN, **found}))
    assert [str(step) for step in decision.steps] == ["QOS high Priority=5"]
    assert decision.held == (
        f"QOS high: only sacctmgr takes Preempt away: {SACCTMGR} modify qos high set preempt=",
        "user alice in optics: only sacctmgr takes QOS away: "
        f"{SACCTMGR} modify user alice where account=optics set qos=",
    )
    assert decision.ledger.given[HIGH] == {"Preempt": "low"}, "it is tried until a person did it"


def test_what_is_declared_no_more_stays_unless_the_policy_says_delete() -> None:
    ledger = Ledger(made=frozenset(PEOPLE))
    assert steps({}, PEOPLE, ledger) == []
    assert steps({}, PEOPLE, ledger, deletes=True) == [
        "user alice in optics deleted",
        "user alice in bio deleted",
        "account optics deleted",
        "account physics deleted",
        "account bio deleted",
        "QOS high deleted",
        "QOS low deleted",
    ]


def test_what_people_made_is_never_deleted_and_is_listed() -> None:
    theirs = records(qos={"night": {}}, accounts={"chem": {}}, users={"chem/eve": {}, "physics/eve": {"MaxJobs": "1"}})
    database = PlayedDatabase({**theirs, PHYSICS: {"GrpJobs": "8"}})
    ledger, decision = bring(
        database, Declared({PHYSICS: {"Parent": "root", "Fairshare": "5"}}, deletes=True), Ledger()
    )
    assert decision.undeclared == (
        "account chem", "account physics: GrpJobs=8", "QOS night", "user eve in chem", "user eve in physics",
    )  # fmt: skip
    _, decision = bring(database, Declared({}, deletes=True), ledger)
    assert theirs.keys() | {PHYSICS} <= database.records.keys(), "it was there before it was declared"


def test_slurms_own_are_never_deleted() -> None:
    assert steps({}, {}, Ledger(made=frozenset(OWN)), deletes=True) == []


@pytest.mark.parametrize(
    ("gone", "found", "others", "partitions", "why"),
    [
        (PHYSICS, records(accounts={"physics": {}}, users={"physics/eve": {}}), (), "", "user eve in physics needs it"),
        (PHYSICS, records(accounts={"physics": {}, "bio": {"Parent": "physics"}}), (), "", "account bio needs it"),
        (
            PHYSICS,
            records(accounts={"physics": {}}),
            (Other("account physics of cluster other", "physics", "", elsewhere=True),),
            "",
            "account physics of cluster other needs it",
        ),
        (HIGH, records(qos={"high": {}}, accounts={"bio": {"QOS": "high,normal"}}), (), "", "account bio needs it"),
        (HIGH, records(qos={"high": {}, "top": {"Preempt": "high"}}), (), "", "QOS top needs it"),
        (HIGH, records(qos={"high": {}}), (), "high", "a partition of slurm.conf names it"),
        (
            HIGH,
            records(qos={"high": {}}),
            (Other("user eve in bio with partition p", "bio", "eve", frozenset({"high"})),),
            "",
            "user eve in bio with partition p needs it",
        ),
    ],
)
def test_what_others_need_stays_and_is_told(
    gone: Entity, found: Records, others: tuple[Other, ...], partitions: str, why: str
) -> None:
    there = Database({**OWN, **found}, others)
    ledger = Ledger(made=frozenset({gone}))
    decision = decide(Declared({}, deletes=True), ledger, there, frozenset({partitions}))
    assert (decision.steps, decision.held) == ((), (f"{gone} stays: {why}",))
    assert decision.ledger.made == {gone}, "it goes when nobody needs it"


@pytest.mark.parametrize(
    ("found", "others", "administrators", "whole"),
    [
        ({ALICE: {}}, (), (), True),
        ({ALICE: {}, Entity(USER, "bio/alice"): {}}, (), (), False),
        ({ALICE: {}}, (Other("", "optics", "alice", elsewhere=True),), (), False),
        ({ALICE: {}}, (), ("alice",), False),
    ],
    ids=["his only account", "another account", "another cluster", "an administrator"],
)
def test_a_user_goes_with_his_last_association_unless_he_is_more(
    found: Records, others: tuple[Other, ...], administrators: tuple[str, ...], whole: bool
) -> None:
    there = Database({**OWN, **found}, others, frozenset(administrators))
    decision = decide(Declared({}, deletes=True), Ledger(made=frozenset({ALICE})), there)
    assert decision.steps == (Removal(ALICE, whole),)


def test_a_user_who_changes_his_account_has_another_default_one_before_the_old_one_goes() -> None:
    old = Entity(USER, "bio/alice")
    found = {old: {"DefaultAccount": "yes"}}
    ledger = Ledger(made=frozenset({old}))
    assert steps({ALICE: {"MaxJobs": "2"}}, found, ledger, deletes=True) == [
        "new user alice in optics MaxJobs=2 DefaultAccount=yes",
        "user alice in bio deleted",
    ]
    assert (
        steps({ALICE: {}}, {**found, ALICE: {}}, ledger, deletes=True)[0] == "user alice in optics DefaultAccount=yes"
    )


def test_a_default_account_beside_peoples_own_stays_and_is_told() -> None:
    old = Entity(USER, "bio/alice")
    there = Database({**OWN, old: {"DefaultAccount": "yes"}, ALICE: {}})
    decision = decide(Declared({}, deletes=True), Ledger(made=frozenset({old})), there)
    assert (decision.steps, decision.held) == (
        (),
        (
            "user alice in bio stays: it is his default account; choose another: "
            f"{SACCTMGR} modify user alice set defaultaccount=optics",
        ),
    )


def test_qos_of_partitions_are_read_from_each_configuration() -> None:
    conf = "ClusterName=x\nPartitionName=a Nodes=n QOS=high AllowQos=low,night State=UP\nPartitionName=b DenyQos=c\n"
    assert qos_of_partitions([{"slurm.conf": conf}, None, {"x": "# QOS=no\n"}]) == {"high", "low", "night", "c"}


def test_the_status_is_read_as_it_was_written() -> None:
    ledger = Ledger(PEOPLE, frozenset({ALICE, HIGH}))
    more = {ALICE: {"MaxJobs": "3", "QOS": "high", "GrpJobs": "7"}, PHYSICS: {"Parent": "root", "Fairshare": "2"}}
    found = Database({**PEOPLE, **more, HIGH: {}})
    said = json.loads(json.dumps(accounts.told(ledger, ["QOS x", "QOS y"], found, 1)))
    assert accounts.ledger({"accounts": said}) == ledger
    assert (said["notDeclared"], said["notDeclaredLeftOut"]) == (["QOS x"], 1)
    assert said["others"] == {"accounts": {"physics": {"Fairshare": "2"}}}
    assert said["othersLeftOut"] == 1
    assert accounts.told(Ledger(), (), Database({}), 9) == {}
    spec = {"removal": "delete", "qos": {"high": {"Priority": "1"}}}
    assert accounts.declared({"accounts": spec}) == Declared({HIGH: {"Priority": "1"}}, deletes=True)
    assert accounts.declared({}) is None


def test_a_status_that_stays_gets_a_new_time_every_ten_minutes() -> None:
    at = datetime.datetime(2026, 11, 26, 12, tzinfo=datetime.UTC)
    first = accounts.timed({"made": {}}, None, at)
    assert first == {"readAt": "2026-11-26T12:00:00Z", "made": {}}
    assert accounts.timed({"made": {}}, first, at + datetime.timedelta(minutes=9)) is first
    assert accounts.timed({"made": {}}, first, at + datetime.timedelta(minutes=10))["readAt"] > first["readAt"]
    assert accounts.timed({"set": {}}, first, at + datetime.timedelta(minutes=1))["readAt"] > first["readAt"]


@hypothesis.given(st.lists(st.tuples(declarations(), st.booleans()), min_size=1, max_size=4), declarations())
def test_any_declarations_in_a_row_are_brought_and_what_people_made_stays(
    declarations: list[tuple[Records, bool]], theirs: Records
) -> None:
    theirs = {entity: values for entity, values in theirs.items() if entity.kind is not USER or entity.user == "bo"}
    database, ledger = PlayedDatabase(theirs), Ledger()
    for declared, deletes in declarations:
        mine = {entity: values for entity, values in declared.items() if _fits(entity, values, theirs)}
        ledger, decision = bring(database, Declared(mine, deletes), ledger)
        for entity, values in mine.items():
            assert {word: accounts.value(entity, database.records[entity], word) for word in values} == values
        assert theirs.keys() <= database.records.keys(), "what was there before stays"
        assert not ledger.made & theirs.keys()
        for entity in theirs.keys() - mine.keys() - ledger.given.keys():
            assert database.records[entity].keys() <= {
                *theirs[entity],
                "DefaultAccount",
                *_touched(declarations, entity),
            }
        if deletes:
            left = database.records.keys() - mine.keys() - theirs.keys() - OWN.keys()
            assert len(left) <= len(decision.held), "what stays is told"


def _fits(entity: Entity, values: Any, theirs: Records) -> bool:
    """Leave out accounts that would have to move in a circle with those of others: Slurm refuses that."""
    return entity.kind is not ACCOUNT or entity not in theirs or values["Parent"] == theirs[entity].get("Parent")


def _touched(declarations: list[tuple[Records, bool]], entity: Entity) -> set[str]:
    return {word for declared, _ in declarations for word in declared.get(entity, {})}
