"""Promises of previews about accounts: what slurmdbd gets, what it loses, and what others made and is kept."""

from __future__ import annotations

import datetime
from typing import Any

import pulumi
import pytest

from components.config import Config, parse
from components.kubernetes.kubernetes_reader import UnreachableError
from components.preflight import account_changes, account_checks
from components.preflight.account_changes import KnownAccounts
from components.slurm import accounts
from tests.unit.samples import SMALL, changed

STATUS: dict[str, Any] = {
    "accounts": {
        "readAt": "2026-11-26T12:00:00Z",
        "set": {
            "qos": {"low": {}, "high": {"Preempt": "low", "Priority": "100"}},
            "accounts": {"physics": {"Parent": "root", "Fairshare": "20"}},
            "users": {"physics/alice": {"MaxJobs": "40"}, "physics/bob": {}},
        },
        "made": {"qos": ["high"], "accounts": ["physics"], "users": ["physics/alice", "physics/bob"]},
        "others": {"accounts": {"chem": {"Parent": "root"}, "physics": {"GrpJobs": "20"}}, "users": {"chem/eve": {}}},
    }
}
QOS = [{"name": "low"}, {"name": "high", "priority": 100, "preempts": ["low"]}]
ALICE, BOB = {"name": "alice", "limits": {"MaxJobs": 40}}, {"name": "bob"}
ACCOUNTS = [{"name": "physics", "fairshare": 20, "users": [ALICE, BOB]}]


def config(qos: Any = QOS, people: Any = ACCOUNTS, removal: str = "keep", **checks: bool) -> Config:
    accounting = {"mode": "mariadb", "enforce": ["limits"], "qos": qos, "accounts": people, "removal": removal}
    preempting = changed("slurm.options", {"PreemptType": "preempt/qos", "PreemptMode": "REQUEUE"}, SMALL)
    return parse(changed("checks", checks, changed("accounting", accounting, preempting)))


def told(config: Config, status: dict[str, Any] = STATUS) -> list[str]:
    """Lines of a preview, without their head."""
    section = accounts.section(config.accounting)
    assert section is not None
    known = account_changes.read(status)
    return [line.strip() for line in account_changes.lines(account_changes.changes(section, known), known)][1:]


def test_what_slurmdbd_has_already_is_not_told() -> None:
    assert told(config()) == []


def test_what_is_added_changed_and_kept_is_told_in_sacctmgrs_words() -> None:
    optics = {"name": "optics", "parent": "physics", "limits": {"GrpTRES": "cpu=8"}}
    physics = {**ACCOUNTS[0], "fairshare": 5, "users": [{"name": "alice"}, BOB]}
    assert told(config(people=[physics, optics])) == [
        "+ account optics: GrpTRES=cpu=8 Parent=physics",
        "~ account physics: Fairshare 20 → 5",
        "~ user alice in physics: MaxJobs 40 → none",
        "= account chem: stays",
        "= user eve in chem: stays",
        "= account physics: GrpJobs=20: stays",
    ]


def test_a_record_that_an_administrator_made_is_taken_over_with_its_values() -> None:
    rows = told(config(people=[*ACCOUNTS, {"name": "chem", "fairshare": 3}]))
    assert rows[0] == "~ account chem: Fairshare 1 → 3"


@pytest.mark.parametrize(
    ("removal", "rows"),
    [
        (
            "delete",
            ["- QOS high: deleted, unless jobs or records of others need it",
             "- user bob in physics: deleted, unless jobs or records of others need it",
             "= QOS low, declared no more (this configuration did not make it): stays"],
        ),
        ("keep", []),
    ],
)  # fmt: skip
def test_what_is_declared_no_more_goes_by_policy_and_only_if_the_configuration_made_it(
    removal: str, rows: list[str]
) -> None:
    lines = told(config(qos=[], people=[{**ACCOUNTS[0], "users": [ALICE]}], removal=removal))
    assert set(rows) <= {*lines}
    assert bool(lines) == bool(rows), "nothing changes, so nothing is told"


def test_a_kept_record_says_why_where_something_changes() -> None:
    rows = told(config(qos=[{"name": "new"}]))
    assert "= QOS high, declared no more (accounting.removal is keep): stays" in rows


def test_a_list_that_only_sacctmgr_empties_is_told_as_such() -> None:
    rows = told(config(qos=[QOS[0], {"name": "high", "priority": 100}]))
    assert rows[0] == "~ QOS high: Preempt low → none (only sacctmgr takes it away)"


def test_long_differences_are_counted_and_records_that_are_not_known_are_told() -> None:
    many = [{"name": f"q{number:03}"} for number in range(25)]
    status = {"accounts": {**STATUS["accounts"], "othersLeftOut": 40}}
    rows = told(config(qos=[*QOS, *many]), status)
    assert rows[19:21] == ["+ QOS q019", "+ 5 more"]
    assert rows[-1] == "40 more records have other values; one that is added may be there already"


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Messages of a preview, warnings among them."""
    told: list[str] = []
    monkeypatch.setattr(pulumi.log, "warn", told.append)
    monkeypatch.setattr(pulumi.log, "info", told.append)
    monkeypatch.setattr(pulumi.runtime, "is_dry_run", lambda: True)
    return told


def running(age: datetime.timedelta = datetime.timedelta()) -> KnownAccounts:
    """Return the status of a cluster whose slurmdbd was read so long ago."""
    read_at = (datetime.datetime.now(datetime.UTC) - age).isoformat()
    return account_changes.read({"accounts": {**STATUS["accounts"], "readAt": read_at}})


def test_a_preview_tells_the_difference_and_its_age_if_it_is_old(said: list[str]) -> None:
    more = config(qos=[*QOS, {"name": "new"}], accounts=True)
    account_checks.run(more, lambda _: running())
    (message,) = said
    assert message.splitlines()[:2] == ["accounting: what slurmdbd has, and what becomes of it:", "  + QOS new"]
    account_checks.run(more, lambda _: running(datetime.timedelta(hours=1)))
    assert said[-1] == "slurmdbd was read 60 minutes ago: the operator, or slurmdbd, does not answer"


def test_a_cluster_that_cannot_be_asked_is_one_warning(said: list[str]) -> None:
    def unreachable(_: Config) -> KnownAccounts:
        raise UnreachableError("no answer in 5 s")

    account_checks.run(config(cluster=True), unreachable)
    assert said == ["checks.accounts: what differs in slurmdbd is not known: no answer in 5 s"]


def test_a_status_without_accounts_is_one_warning_and_no_cluster_none(said: list[str]) -> None:
    account_checks.run(config(cluster=True), lambda _: None)
    assert said == []
    account_checks.run(config(cluster=True), lambda _: account_changes.read({}))
    (warning,) = said
    assert warning.startswith("accounting: what differs in slurmdbd is not known: the operator has not read it")


@pytest.mark.parametrize(
    ("checks", "asks"), [({}, False), ({"cluster": True}, True), ({"cluster": True, "accounts": False}, False)]
)
def test_a_preview_asks_where_the_configuration_lets_it(said: list[str], checks: dict[str, bool], asks: bool) -> None:
    asked: list[Config] = []
    account_checks.run(config(**checks), asked.append)
    assert (len(asked) == 1, said) == (asks, [])


def test_an_update_and_a_configuration_without_accounts_ask_for_none(
    said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Config] = []
    account_checks.run(config(qos=[], people=[], cluster=True), asked.append)
    monkeypatch.setattr(pulumi.runtime, "is_dry_run", lambda: False)
    account_checks.run(config(cluster=True), asked.append)
    assert asked == []
