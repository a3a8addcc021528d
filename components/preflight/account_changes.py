"""Decides what a configuration makes of slurmdbd's QOS, accounts and users: pure functions over what the operator read.

The operator decides the same from slurmdbd itself (its decide/cluster/accounts.py). A test compares the two.
"""

import datetime
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from contract import accounts
from contract.accounts import Field, Kind

Values = Mapping[str, str]
"""Word of sacctmgr → value as contract/accounts.py has it."""
Record = tuple[str, str]
"""A kind, which is a key of spec.accounts, and a name; a user's is account/user."""
Records = Mapping[Record, Values]

FIELDS: Final[Mapping[str, Mapping[str, Field]]] = {
    "qos": accounts.QOS,
    "accounts": accounts.ACCOUNT,
    "users": accounts.USER,
}
_OWN: Final[frozenset[Record]] = frozenset(
    {("qos", accounts.NORMAL), ("accounts", accounts.ROOT), ("users", f"{accounts.ROOT}/{accounts.ROOT}")}
)
"""Slurm's own records, which each cluster has."""
_SHOWN: Final = 20
"""Most lines of each sort."""
_NONE: Final = "none"


@dataclass(frozen=True, slots=True)
class KnownAccounts:
    """The SlurmCluster's status tells this of slurmdbd.

    Attributes:
        given: Values that are as declared.
        made: Records that the operator made.
        others: Other values of these records, and records that are not declared.
        left_out: Number of records whose other values are not in the status.
        read_at: When slurmdbd was read.
    """

    given: Records = field(default_factory=dict)
    made: frozenset[Record] = frozenset()
    others: Records = field(default_factory=dict)
    left_out: int = 0
    read_at: datetime.datetime | None = None

    def there(self, record: Record) -> Values | None:
        """Return the values of a record; None if it is not known to be there."""
        if record not in self.given and record not in self.others:
            return None
        return {**self.others.get(record, {}), **self.given.get(record, {})}


@dataclass(frozen=True, slots=True)
class AccountChanges:
    """Differences between the configuration and slurmdbd, each in words."""

    added: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()

    @property
    def are_some(self) -> bool:
        """Return whether anything changes."""
        return bool(self.added or self.changed or self.removed)


def read(status: Mapping[str, Any]) -> KnownAccounts:
    """Return what the status of a SlurmCluster tells of slurmdbd."""
    section = status.get("accounts") or {}
    read_at, made = section.get("readAt"), section.get("made") or {}
    return KnownAccounts(
        records(section.get("set") or {}),
        frozenset((kind, name) for kind in FIELDS for name in made.get(kind, ())),
        records(section.get("others") or {}),
        section.get("othersLeftOut", 0),
        datetime.datetime.fromisoformat(read_at) if read_at else None,
    )


def records(section: Mapping[str, Any]) -> Records:
    """Return the records of `spec.accounts`, or of a part of `status.accounts`."""
    return {(kind, name): values for kind in FIELDS for name, values in (section.get(kind) or {}).items()}


def changes(section: Mapping[str, Any], known: KnownAccounts) -> AccountChanges:
    """Return what a configuration makes of slurmdbd.

    Args:
        section: `spec.accounts` as the configuration has it.
        known: What slurmdbd has.
    """
    declared = records(section)
    added = [_pairs(record, values) for record, values in declared.items() if known.there(record) is None]
    differing = {record: _differing(record, values, known) for record, values in declared.items()}
    changed = [f"{title(record)}: {', '.join(words)}" for record, words in differing.items() if words]
    gone = sorted({*known.given, *known.others} - declared.keys() - _OWN)
    removed = [record for record in gone if record in known.made and section["removal"] == "delete"]
    stays = [_staying(record, known, section["removal"]) for record in gone if record not in removed]
    values = [_pairs(record, rest) for record in sorted(declared) if (rest := _besides(record, declared, known))]
    return AccountChanges(tuple(added), tuple(changed), tuple(map(title, removed)), (*stays, *values))


def title(record: Record) -> str:
    """Return a record's kind and name in words."""
    kind, name = record
    if kind == "users":
        account, _, user = name.partition("/")
        return f"user {user} in {account}"
    return f"{'QOS' if kind == 'qos' else 'account'} {name}"


def lines(changes: AccountChanges, known: KnownAccounts) -> list[str]:
    """Return the changes for people to read; none if nothing changes."""
    if not changes.are_some:
        return []
    told = ["accounting: what slurmdbd has, and what becomes of it:"]
    told += _shown("+", changes.added)
    told += _shown("~", changes.changed)
    told += _shown("-", [f"{what}: deleted, unless jobs or records of others need it" for what in changes.removed])
    told += _shown("=", [f"{what}: stays" for what in changes.kept])
    if known.left_out:
        told.append(f"  {known.left_out} more records have other values; one that is added may be there already")
    return told


def _shown(mark: str, rows: Sequence[str]) -> Iterator[str]:
    yield from (f"  {mark} {row}" for row in rows[:_SHOWN])
    if len(rows) > _SHOWN:
        yield f"  {mark} {len(rows) - _SHOWN} more"


def _differing(record: Record, wanted: Values, known: KnownAccounts) -> list[str]:
    """Return words about each value that changes."""
    there = known.there(record)
    if there is None:
        return []
    fields = FIELDS[record[0]]
    given = known.given.get(record, {})
    gone = {word: fields[word].default for word in given if word not in wanted and _may_go(record, word)}
    rows = []
    for word, text in {**wanted, **gone}.items():
        was = there.get(word, fields[word].default)
        if was != text:
            by_hand = "" if text or fields[word].is_kept_empty else " (only sacctmgr takes it away)"
            rows.append(f"{word} {was or _NONE} → {text or _NONE}{by_hand}")
    return rows


def _besides(record: Record, declared: Records, known: KnownAccounts) -> Values:
    """Return values of a declared record that others gave it."""
    fields = FIELDS[record[0]]
    return {
        word: text
        for word, text in known.others.get(record, {}).items()
        if word not in declared[record] and _may_go(record, word) and text != fields[word].default
    }


def _may_go(record: Record, word: str) -> bool:
    """Texts have no default. A default account ends when another one begins."""
    fields = FIELDS[record[0]]
    return word in fields and fields[word].kind is not Kind.TEXT and word != accounts.DEFAULT_ACCOUNT


def _staying(record: Record, known: KnownAccounts, removal: str) -> str:
    if record not in known.given and record not in known.made:
        return title(record)
    why = f"accounting.removal is {removal}" if record in known.made else "this configuration did not make it"
    return f"{title(record)}, declared no more ({why})"


def _pairs(record: Record, values: Values) -> str:
    pairs = " ".join(f"{word}={text}" for word, text in values.items())
    return f"{title(record)}: {pairs}" if pairs else title(record)
