"""The promise that `pulumi preview` says of accounts what the operator then does, whatever is in slurmdbd."""

from __future__ import annotations

import datetime
from typing import Any

import hypothesis
from hypothesis import strategies as st
from slurm_operator import accounts
from slurm_operator.accounts import Database, Declared, Entity, Kind, Ledger, Records
from slurm_operator.decide.cluster.accounts import Change, Removal, decide

from components.preflight import account_changes
from components.preflight.account_changes import AccountChanges, KnownAccounts
from tests.operator.played.played_database import OWN, PlayedDatabase
from tests.operator.states.declared_accounts import bring, declarations

NOW = datetime.datetime(2026, 11, 26, 12, tzinfo=datetime.UTC)
MOST = 100


def section(records: Records, deletes: bool) -> dict[str, Any]:
    """Return a declaration as spec.accounts has it."""
    kinds = {kind.value: {e.name: dict(values) for e, values in records.items() if e.kind is kind} for kind in Kind}
    return {"removal": "delete" if deletes else "keep", **kinds}


def preview(declared: Declared, ledger: Ledger, found: Database) -> tuple[AccountChanges, KnownAccounts]:
    """Return what a preview tells, given a status that the operator wrote."""
    said = accounts.timed(accounts.told(ledger, (), found, MOST), None, NOW)
    known = account_changes.read({"accounts": said})
    return account_changes.changes(section(declared.records, declared.deletes), known), known


def titles(rows: tuple[str, ...]) -> set[str]:
    return {row.partition(":")[0].partition(",")[0] for row in rows}


@hypothesis.given(declarations(), declarations(), declarations(), st.booleans())
def test_a_preview_tells_what_the_operator_then_does(
    before: Records, theirs: Records, after: Records, deletes: bool
) -> None:
    database = PlayedDatabase()
    ledger, _ = bring(database, Declared(before), Ledger())
    for entity, values in theirs.items():  # Administrators make some records, and change values of others.
        database.records.setdefault(entity, {}).update(values)
    declared = Declared(after, deletes)
    ledger = decide(Declared(before), ledger, database.found()).ledger
    told, known = preview(declared, ledger, database.found())
    decision = decide(declared, ledger, database.found())
    assert known.read_at == NOW
    changes = [step for step in decision.steps if isinstance(step, Change)]
    assert titles(told.added) == {str(step.entity) for step in changes if step.makes}
    # A user's other account becomes the default one before that goes. It is no change of the configuration.
    of_values = [step for step in changes if not step.makes and step.values != {"DefaultAccount": "yes"}]
    assert titles(told.changed) == {str(step.entity) for step in of_values}
    removals = {str(step.entity) for step in decision.steps if isinstance(step, Removal)}
    held = {sentence.partition(" stays: ")[0] for sentence in decision.held}
    assert set(told.removed) == removals | held, "what others need is told as such after `up`"
    undeclared = {sentence.partition(":")[0] for sentence in decision.undeclared}
    assert titles(told.kept) <= undeclared - set(told.removed)
    taken_back = undeclared - set(told.removed) - titles(told.kept)
    assert taken_back <= titles(told.changed), "a value that is declared no more goes, and is nobody else's"


def test_slurms_own_records_are_nobodys_difference() -> None:
    entity = Entity(Kind.QOS, "normal")
    told, _ = preview(
        Declared({}, deletes=True), Ledger(made=frozenset(OWN)), Database({**OWN, entity: {"Priority": "1"}})
    )
    assert told == AccountChanges()
