"""The records of QOS, accounts and associations: what is declared, what is in slurmdbd, what the operator did."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Mapping, Sequence
from typing import Any

from contract import accounts
from contract.accounts import Field


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
class Found:
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


def told(ledger: Ledger, undeclared: Sequence[str], most: int) -> dict[str, Any]:
    """Return `status.accounts`, with the first of what slurmdbd has besides."""
    given: dict[str, dict[str, dict[str, str]]] = {}
    for entity, values in sorted(ledger.given.items()):
        given.setdefault(entity.kind.value, {})[entity.name] = dict(sorted(values.items()))
    made: dict[str, list[str]] = {}
    for entity in sorted(ledger.made):
        made.setdefault(entity.kind.value, []).append(entity.name)
    left_out = len(undeclared) - most
    section: dict[str, Any] = {"set": given, "made": made, "notDeclared": [*undeclared[:most]]}
    section |= {"notDeclaredLeftOut": left_out} if left_out > 0 else {}
    return {key: value for key, value in section.items() if value}


def _records(section: Mapping[str, Any]) -> Records:
    return {Entity(kind, name): values for kind in Kind for name, values in (section.get(kind) or {}).items()}
