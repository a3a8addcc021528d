"""The records of QOS, accounts and associations: what is declared, what is in slurmdbd, what the operator did."""

from __future__ import annotations

import dataclasses
import datetime
import enum
from collections.abc import Mapping, Sequence
from typing import Any

from contract import accounts
from contract.accounts import Field
from slurm_operator.timestamps import timestamp

REPEATED_AFTER = datetime.timedelta(minutes=10)
"""A status that stays as it is gets a new time so often: an older time tells that nobody reads slurmdbd."""


class Kind(enum.StrEnum):
    """The kind of a record; the values are the keys of spec.accounts."""

    QOS = "qos"
    ACCOUNT = "accounts"
    USER = "users"

    @property
    def fields(self) -> Mapping[str, Field]:
        """Return the values that such a record has."""
        return {Kind.QOS: accounts.QOS, Kind.ACCOUNT: accounts.ACCOUNT, Kind.USER: accounts.USER}[self]


@dataclasses.dataclass(frozen=True, slots=True, order=True)
class Entity:
    """A QOS, an account with its association, or a user's association; the last is named account/user."""

    kind: Kind
    name: str

    @property
    def account(self) -> str:
        """Return the account, also of a user."""
        return self.name.partition("/")[0]

    @property
    def user(self) -> str:
        """Return the user; empty for others than a user's association."""
        return self.name.partition("/")[2]

    def __str__(self) -> str:
        if self.kind is Kind.USER:
            return f"user {self.user} in {self.account}"
        return f"{'QOS' if self.kind is Kind.QOS else 'account'} {self.name}"


Values = Mapping[str, str]
"""Word of sacctmgr → value as contract/accounts.py has it. A word that is missing has its default."""
Records = Mapping[Entity, Values]


@dataclasses.dataclass(frozen=True, slots=True)
class Declared:
    """The declaration of the SlurmCluster; `deletes`: what it made earlier goes with its declaration."""

    records: Records
    deletes: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class Ledger:
    """The operator's deeds, as the status says: values that it set or found as declared, and records that it made."""

    given: Records = dataclasses.field(default_factory=dict)
    made: frozenset[Entity] = frozenset()


@dataclasses.dataclass(frozen=True, slots=True)
class Other:
    """An association that is not this program's to declare: another cluster's, or for one partition."""

    title: str
    account: str
    user: str
    qos: frozenset[str] = frozenset()
    elsewhere: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class Database:
    """The content of slurmdbd. `administrators` are users with an AdminLevel."""

    records: Records
    others: tuple[Other, ...] = ()
    administrators: frozenset[str] = frozenset()


def value(entity: Entity, values: Values, word: str) -> str:
    """Return a value of a record, its default if it is not set."""
    return values.get(word, entity.kind.fields[word].default)


def declared(spec: Mapping[str, Any]) -> Declared | None:
    """Read `spec.accounts` of a SlurmCluster; None where there is none."""
    section = spec.get("accounts")
    if section is None:
        return None
    return Declared(_records(section), deletes=section.get("removal") == "delete")


def ledger(status: Mapping[str, Any]) -> Ledger:
    """Read `status.accounts` of a SlurmCluster."""
    section = status.get("accounts") or {}
    made = section.get("made") or {}
    return Ledger(
        _records(section.get("set") or {}),
        frozenset(Entity(kind, name) for kind in Kind for name in made.get(kind, ())),
    )


def told(ledger: Ledger, undeclared: Sequence[str], database: Database, most: int) -> dict[str, Any]:
    """Return `status.accounts` without its time: the ledger, and what slurmdbd has besides.

    Args:
        ledger: what the operator did.
        undeclared: what nobody declared, in words.
        database: what slurmdbd has.
        most: how many undeclared things, and how many records with other values, are listed.
    """
    made: dict[str, list[str]] = {}
    for entity in sorted(ledger.made):
        made.setdefault(entity.kind.value, []).append(entity.name)
    others = _others(ledger.given, database.records)
    section: dict[str, Any] = {"set": _written(ledger.given), "made": made, "notDeclared": [*undeclared[:most]]}
    section |= {"others": _written(dict(others[:most]))}
    left_out = {"notDeclaredLeftOut": len(undeclared) - most, "othersLeftOut": len(others) - most}
    section |= {key: number for key, number in left_out.items() if number > 0}
    return {key: value for key, value in section.items() if value}


def timed(said: Mapping[str, Any], before: Mapping[str, Any] | None, now: datetime.datetime) -> Mapping[str, Any]:
    """Return `status.accounts` with the time at which slurmdbd was read, or the one before if it says the same.

    Args:
        said: what the status is to say.
        before: what it says.
        now: when slurmdbd was read.
    """
    is_same = before is not None and "readAt" in before and {**before, "readAt": ""} == {**said, "readAt": ""}
    if before and is_same and now - datetime.datetime.fromisoformat(before["readAt"]) < REPEATED_AFTER:
        return before
    return {"readAt": timestamp(now), **said}


def _others(given: Records, records: Records) -> list[tuple[Entity, Values]]:
    """Return values that are not as declared, those of declared records first; a default one is no value."""
    rows = list[tuple[Entity, Values]]()
    for entity, values in sorted(records.items(), key=lambda row: (row[0] not in given, row[0])):
        own = given.get(entity)
        rest = {word: text for word, text in values.items() if own is None or own.get(word) != text}
        rows += [(entity, rest)] if rest or own is None else []
    return rows


def _written(records: Records) -> dict[str, dict[str, dict[str, str]]]:
    section: dict[str, dict[str, dict[str, str]]] = {}
    for entity, values in sorted(records.items()):
        section.setdefault(entity.kind.value, {})[entity.name] = dict(sorted(values.items()))
    return section


def _records(section: Mapping[str, Any]) -> Records:
    return {Entity(kind, name): values for kind in Kind for name, values in (section.get(kind) or {}).items()}
