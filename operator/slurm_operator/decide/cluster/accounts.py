"""Decides what changes in slurmdbd, given what is declared, what is there, and what was done before.

What people made with sacctmgr stays, and so does each value that is not declared. A value that the declaration stops
naming goes back to Slurm's default, unless somebody changed it since. A record that it stops naming goes by policy.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Iterator, Mapping

from contract import accounts as slurms
from contract import commands, names
from slurm_operator.accounts import Database, Declared, Entity, Kind, Ledger, Records, Values, value

_OWN = frozenset(
    {
        Entity(Kind.QOS, slurms.NORMAL),
        Entity(Kind.ACCOUNT, slurms.ROOT),
        Entity(Kind.USER, f"{slurms.ROOT}/{slurms.ROOT}"),
    }
)
"""Slurm's own records, which each cluster has."""
_QOS_IN_A_LINE = re.compile(r"^PartitionName=.*?\b(?:QOS|AllowQos|DenyQos)=(\S+)", re.IGNORECASE)
_REFERENCES = ("QOS", "DefaultQOS", "Preempt")


@dataclasses.dataclass(frozen=True, slots=True)
class Change:
    """Values to set of a record, which has to be made first if `makes`; `before` are its values now."""

    entity: Entity
    values: Values
    before: Values
    makes: bool = False

    def __str__(self) -> str:
        pairs = " ".join(f"{word}={text}" for word, text in self.values.items())
        return f"{self.entity} {pairs}".strip() if not self.makes else f"new {self.entity} {pairs}".strip()


@dataclasses.dataclass(frozen=True, slots=True)
class Removal:
    """A record to delete; `whole`: the user goes with his only association."""

    entity: Entity
    whole: bool = False

    def __str__(self) -> str:
        return f"{self.entity} deleted"


@dataclasses.dataclass(frozen=True, slots=True)
class Decision:
    """The steps to take, in this order. `held` says what can't be done, `undeclared` what is there besides."""

    steps: tuple[Change | Removal, ...]
    ledger: Ledger
    held: tuple[str, ...]
    undeclared: tuple[str, ...]


def decide(
    declared: Declared,
    ledger: Ledger,
    database: Database,
    in_partitions: frozenset[str] = frozenset(),
    namespace: str = names.NAMESPACE,
) -> Decision:
    """Return the steps from what is there to what is declared.

    Args:
        declared: what the SlurmCluster declares.
        ledger: what its status says of earlier steps.
        database: what slurmdbd has.
        in_partitions: QOS that partitions name: without one of them slurmctld might not start again.
        namespace: that of slurmdbd, for commands in messages.
    """
    changes, held = list[Change](), list[str]()
    leaving = _leaving(declared, ledger, database)
    heirs = _heirs(declared, database, leaving)
    for entity in _in_order(declared.records):
        there = database.records.get(entity)
        wanted = {**_wanted(entity, declared.records[entity], ledger, there), **heirs.get(entity, {})}
        if there is None:
            changes.append(Change(entity, wanted, {}, makes=True))
            continue
        differing = {word: text for word, text in wanted.items() if value(entity, there, word) != text}
        stuck = [word for word, text in differing.items() if not text and not entity.kind.fields[word].is_kept_empty]
        held += [_by_hand(entity, word, namespace) for word in stuck]
        if rest := {word: text for word, text in differing.items() if word not in stuck}:
            changes.append(Change(entity, rest, there))
    removals, kept = _removals(declared, database, leaving, in_partitions, namespace)
    steps: tuple[Change | Removal, ...] = (*_coordinators_last(changes), *removals)
    return Decision(steps, _ledger(declared, ledger, database), (*held, *kept), tuple(_undeclared(declared, database)))


def waits_for(entity: Entity, refused: Iterable[Entity], database: Database) -> bool:
    """Return whether a record must not go yet, since slurmdbd refused to delete one that needs it."""
    staying = Database({other: database.records[other] for other in refused})
    return bool(_needs(entity, staying, set(), frozenset()))


def qos_of_partitions(files: Iterable[Mapping[str, str] | None]) -> frozenset[str]:
    """Return the QOS that partitions name in any of some configurations."""
    lines = [line for texts in files for text in (texts or {}).values() for line in text.splitlines()]
    words = [words for line in lines for words in _words_of(line)]
    return frozenset(name for word in words for name in word.split(","))


def _words_of(line: str) -> Iterator[str]:
    while match := _QOS_IN_A_LINE.match(line):
        yield match[1]
        line = f"PartitionName= {line[match.end() :]}"


def _wanted(entity: Entity, declared: Values, ledger: Ledger, there: Values | None) -> Values:
    """The declared values, and the defaults of those that only an earlier declaration had."""
    given = ledger.given.get(entity, {}) if there is not None else {}
    gone = {
        word: entity.kind.fields[word].default
        for word, text in given.items()
        if word not in declared and _may_go(entity, word) and value(entity, there or {}, word) == text
    }
    return {**declared, **gone}


def _may_go(entity: Entity, word: str) -> bool:
    """Texts have no default. A default account ends when another one begins."""
    field = entity.kind.fields.get(word)
    return field is not None and field.kind is not slurms.Kind.TEXT and word != slurms.DEFAULT_ACCOUNT


def _in_order(records: Records) -> list[Entity]:
    """Return QOS before those that preempt them, parents before accounts, and users at last, default accounts first."""
    depths = dict[Entity, int]()

    def depth(entity: Entity) -> int:
        if entity not in depths:
            depths[entity] = 0  # A circle would end here; the program refuses one.
            word = {Kind.QOS: "Preempt", Kind.ACCOUNT: slurms.PARENT, Kind.USER: ""}[entity.kind]
            named = [Entity(entity.kind, name) for name in records[entity].get(word, "").split(",")]
            depths[entity] = 1 + max((depth(other) for other in named if other in records), default=0)
        return depths[entity]

    kinds = [*Kind]

    def place(entity: Entity) -> tuple[int, int, bool, str]:
        is_default = records[entity].get(slurms.DEFAULT_ACCOUNT) == slurms.YES
        return kinds.index(entity.kind), depth(entity), not is_default, entity.name

    return sorted(records, key=place)


def _coordinators_last(changes: Iterable[Change]) -> Iterator[Change]:
    """Slurm takes only users that it knows for coordinators."""
    last = list[Change]()
    for change in changes:
        others = {word: text for word, text in change.values.items() if word != slurms.COORDINATORS}
        if others or change.makes:
            yield dataclasses.replace(change, values=others)
        if len(others) < len(change.values):
            of = {slurms.COORDINATORS: change.values[slurms.COORDINATORS]}
            before = {**change.before, **others}
            last.append(Change(change.entity, of, before))
    yield from last


def _leaving(declared: Declared, ledger: Ledger, database: Database) -> set[Entity]:
    """Return what an earlier declaration made and this one names no more, if the policy is to delete it."""
    gone = {entity for entity in ledger.made if entity in database.records and entity not in declared.records}
    return gone - _OWN if declared.deletes else set()


def _heirs(declared: Declared, database: Database, leaving: set[Entity]) -> dict[Entity, Values]:
    """Return associations that become their users' default ones, since Slurm lets no default one go before others."""
    orphaned = {entity.user for entity in leaving if _is_default(entity, database)}
    chosen = {entity.user for entity, values in declared.records.items() if values.get(slurms.DEFAULT_ACCOUNT)}
    heirs = dict[str, Entity]()
    for entity in sorted(declared.records):
        if entity.user in orphaned - chosen:
            heirs.setdefault(entity.user, entity)
    return {entity: {slurms.DEFAULT_ACCOUNT: slurms.YES} for entity in heirs.values()}


def _is_default(entity: Entity, database: Database) -> bool:
    return bool(entity.user) and database.records[entity].get(slurms.DEFAULT_ACCOUNT) == slurms.YES


def _removals(
    declared: Declared, database: Database, leaving: set[Entity], in_partitions: frozenset[str], namespace: str
) -> tuple[list[Removal], list[str]]:
    """Return records that go, and sentences about those that others need."""
    removals, kept = list[Removal](), list[str]()
    going = set[Entity]()
    # From the end: a user's default account after his others, accounts after those below them, QOS at last.
    for entity in (entity for entity in reversed(_in_order(database.records)) if entity in leaving):
        last = _last_default(entity, declared, database, leaving, namespace)
        if needs := _needs(entity, database, going, in_partitions) or last:
            kept.append(f"{entity} stays: {needs}")
            continue
        going.add(entity)
        removals.append(Removal(entity, whole=bool(entity.user) and _is_alone(entity, database, going)))
    return removals, kept


def _last_default(entity: Entity, declared: Declared, database: Database, leaving: set[Entity], namespace: str) -> str:
    """Return why a user's default account has to stay, and the command that lets it go; empty if it may go.

    It stays while the user has other accounts that the stack does not declare: Slurm needs one of them as the default.
    """
    if not entity.user or not _is_default(entity, database):
        return ""
    if any(other.user == entity.user for other in declared.records):
        return ""
    theirs = [other for other in database.records if other.user == entity.user and other not in leaving]
    if not theirs:
        return ""
    command = commands.sacctmgr(namespace, f"modify user {entity.user} set defaultaccount={theirs[0].account}")
    return f"it is his default account; choose another: {command}"


def _needs(entity: Entity, database: Database, going: set[Entity], in_partitions: frozenset[str]) -> str:
    """Return who needs a record; empty if nobody does."""
    staying = {other: values for other, values in database.records.items() if other not in going and other != entity}
    if entity.kind is Kind.QOS:
        if entity.name in in_partitions:
            return "a partition of slurm.conf names it"
        names = [str(other) for other, values in staying.items() if entity.name in _named(values)]
        names += [other.title for other in database.others if entity.name in other.qos]
    elif entity.kind is Kind.ACCOUNT:
        names = [str(other) for other, values in staying.items() if _is_below(other, values, entity.name)]
        names += [other.title for other in database.others if other.account == entity.name]
    else:
        names = []
    return f"{names[0]} needs it" if names else ""


def _named(values: Values) -> set[str]:
    return {name for word in _REFERENCES for name in values.get(word, "").split(",")}


def _is_below(other: Entity, values: Values, account: str) -> bool:
    if other.kind is Kind.USER:
        return other.account == account
    return other.kind is Kind.ACCOUNT and values.get(slurms.PARENT) == account


def _is_alone(entity: Entity, database: Database, going: set[Entity]) -> bool:
    """Return whether a user has no other association, and no AdminLevel that would go with him."""
    others = [other for other in database.records if other.user == entity.user and other not in going]
    others_of_his = [other for other in database.others if other.user == entity.user]
    return not others and not others_of_his and entity.user not in database.administrators


def _ledger(declared: Declared, ledger: Ledger, database: Database) -> Ledger:
    """Return what is given now: declared values that are there, and earlier ones that are yet to go or to change."""
    given = dict[Entity, Values]()
    for entity, wanted in declared.records.items():
        there = database.records.get(entity)
        if there is None:
            continue
        earlier = {
            word: text
            for word, text in ledger.given.get(entity, {}).items()
            if value(entity, there, word) == text and _may_go(entity, word) and text != entity.kind.fields[word].default
        }
        given[entity] = {
            **earlier,
            **{word: text for word, text in wanted.items() if value(entity, there, word) == text},
        }
    made = {entity for entity in ledger.made if entity in database.records or entity in declared.records}
    return Ledger(given, frozenset(made))


def _undeclared(declared: Declared, database: Database) -> Iterator[str]:
    for entity, values in sorted(database.records.items()):
        wanted = declared.records.get(entity)
        if wanted is None:
            if entity not in _OWN:
                yield str(entity)
            continue
        besides = [
            f"{word}={text}"
            for word, text in sorted(values.items())
            if word not in wanted and _may_go(entity, word) and text != entity.kind.fields[word].default
        ]
        if besides:
            yield f"{entity}: {' '.join(besides)}"
    yield from (other.title for other in database.others if not other.elsewhere)


def _by_hand(entity: Entity, word: str, namespace: str) -> str:
    """Say what a person does about a value that slurmrestd can't take away."""
    what = f"{'user' if entity.user else 'qos' if entity.kind is Kind.QOS else 'account'} {entity.user or entity.name}"
    where = f" where account={entity.account}" if entity.user else ""
    command = commands.sacctmgr(namespace, f"modify {what}{where} set {word.lower()}=")
    return f"{entity}: only sacctmgr takes {word} away: {command}"
