"""Rules between QOS, accounts and their users: names that others declare, and circles."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from components.config.accounts.accounts import Account, Association
from components.config.accounts.qos import Qos
from components.config.rule import Violation, named_twice
from contract import accounts as slurms

Check = Callable[[Sequence[Qos], Sequence[Account]], Iterator[Violation]]


def _names(qos: Sequence[Qos], accounts: Sequence[Account]) -> Iterator[Violation]:
    yield from named_twice(qos, "qos")
    yield from named_twice(accounts, "accounts")
    for index, account in enumerate(accounts):
        for violation in named_twice(getattr(account, "users", ()), "users"):
            yield violation.inside("accounts", index)


def _parents(qos: Sequence[Qos], accounts: Sequence[Account]) -> Iterator[Violation]:
    parents = {_name(account): [_parent(account)] for account in accounts}
    for index, account in enumerate(accounts):
        if _parent(account) not in (slurms.ROOT, *parents):
            want = f"root, or the name of an account; there are: {', '.join(filter(None, parents)) or 'none'}"
            yield Violation("accounts", index, "parent", want=want)
        elif circle := _circle(_name(account), parents):
            want = f"an account that is not below {_name(account)} itself: {' → '.join(circle)}"
            yield Violation("accounts", index, "parent", want=want)


def _preemption(qos: Sequence[Qos], accounts: Sequence[Account]) -> Iterator[Violation]:
    below = {_name(one): getattr(one, "preempts", ()) for one in qos}
    for index, one in enumerate(qos):
        for position, name in enumerate(below[_name(one)]):
            if name not in (*below, slurms.NORMAL):
                yield Violation("qos", index, "preempts", position, want=_known(below))
        if circle := _circle(_name(one), below):
            want = f"no QOS that preempts {_name(one)} in turn, as Slurm refuses: {' → '.join(circle)}"
            yield Violation("qos", index, "preempts", want=want)


def _allowed(qos: Sequence[Qos], accounts: Sequence[Account]) -> Iterator[Violation]:
    known = {_name(one): () for one in qos}
    for path, association, allowed in _associations(accounts):
        own = getattr(association, "qos", [])
        for position, name in enumerate(own):
            if name not in (*known, slurms.NORMAL):
                yield Violation(*path, "qos", position, want=_known(known))
            elif name in own[:position]:
                yield Violation(*path, "qos", position, want="each QOS once")
        default = getattr(association, "default_qos", None)
        if default is not None and default not in allowed:
            want = f"one of the QOS that it may have ({', '.join(allowed)})"
            yield Violation(*path, "defaultQos", want=want)


def _coordinators(qos: Sequence[Qos], accounts: Sequence[Account]) -> Iterator[Violation]:
    users = {_name(user) for account in accounts for user in getattr(account, "users", ())}
    for index, account in enumerate(accounts):
        for position, name in enumerate(getattr(account, "coordinators", ())):
            if name not in users:
                want = "a user of one of accounting.accounts: Slurm knows no others"
                yield Violation("accounts", index, "coordinators", position, want=want)


def _defaults(qos: Sequence[Qos], accounts: Sequence[Account]) -> Iterator[Violation]:
    rows: dict[str, list[tuple[int, int]]] = {}
    for index, account in enumerate(accounts):
        for position, user in enumerate(getattr(account, "users", ())):
            rows.setdefault(_name(user), []).append((index, position))
    for name, places in rows.items():
        chosen = [(index, at) for index, at in places if getattr(accounts[index].users[at], "default", False)]
        for index, at in chosen[1:]:
            first = f"accounts[{chosen[0][0]}].users[{chosen[0][1]}]"
            want = f"one default account of {name}: {first} is it already"
            yield Violation("accounts", index, "users", at, "default", want=want)
        if len(places) > 1 and not chosen:
            index, at = places[0]
            want = f"true here or in another account of {name}: jobs that name none need one"
            yield Violation("accounts", index, "users", at, "default", want=want, got=False)


def _number(qos: Sequence[Qos], accounts: Sequence[Account]) -> Iterator[Violation]:
    number = len(qos) + len(accounts) + sum(len(getattr(account, "users", ())) for account in accounts)
    if number > slurms.LONGEST_LIST:
        want = f"{slurms.LONGEST_LIST} QOS, accounts and users in all; sacctmgr takes more beside them"
        yield Violation("accounts", want=want, got=number)


CHECKS: Final[tuple[Check, ...]] = (_names, _parents, _preemption, _allowed, _coordinators, _defaults, _number)


def _associations(
    accounts: Sequence[Account],
) -> Iterator[tuple[tuple[str | int, ...], Association, Sequence[str]]]:
    """Each association with its path, and the QOS that it may have: its own, or those of the account above."""
    by_name = {_name(account): account for account in accounts}
    for index, account in enumerate(accounts):
        above: Account | None = account
        steps = len(accounts)
        while above is not None and not getattr(above, "qos", ()) and steps:
            above, steps = by_name.get(_parent(above)), steps - 1
        inherited = getattr(above, "qos", ()) or [slurms.NORMAL]
        yield ("accounts", index), account, inherited
        for position, user in enumerate(getattr(account, "users", ())):
            yield ("accounts", index, "users", position), user, getattr(user, "qos", ()) or inherited


def _name(row: Qos | Account | Association) -> str:
    """The name of a row, empty if it is invalid: another line says so, and rules about other rows still hold."""
    return getattr(row, "name", "")


def _parent(account: Account) -> str:
    return getattr(account, "parent", slurms.ROOT)


def _circle(start: str, following: Mapping[str, Sequence[str]]) -> list[str]:
    """The names from one back to itself; empty if there is no way."""
    paths = [[start]]
    seen: set[str] = set()
    while paths:
        path = paths.pop()
        for name in following.get(path[-1], ()):
            if name == start:
                return [*path, name]
            if name not in seen:
                seen.add(name)
                paths.append([*path, name])
    return []


def _known(names: Mapping[str, object]) -> str:
    return f"normal, or the name of a QOS of accounting.qos; there are: {', '.join(filter(None, names)) or 'none'}"
