"""Decides what `slurm-user` does: pure functions from the current and the wanted state to actions."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from contract import names
from jail_commands.running import Refused

LEVELS = {
    "Administrator": "{} administers Slurm, as himself and without sudo",
    "Operator": "{} operates Slurm, as himself and without sudo",
    "None": "{} is an ordinary user of Slurm",
}
"""AdminLevel of Slurm → sentence about it."""
_NAME = re.compile(names.USER_NAME)
_ACCOUNT = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,62}")
_KEY = re.compile(r"(?P<type>(ssh|ecdsa|sk-ssh|sk-ecdsa)-[a-z0-9@.-]+) (?P<blob>[A-Za-z0-9+/]+=*)( [^\n]*)?")


def is_ordinary(number: int) -> bool:
    """Return whether an id is an ordinary user's, not a system account's."""
    return names.FIRST_USER_ID <= number <= names.LAST_USER_ID or number >= names.FIRST_LDAP_ID


@dataclass(frozen=True)
class Seen:
    """Present state of a user.

    Attributes:
        uid: of the user; None if there is none of that name.
        taken: ids of all users and groups, and of all owners of homes, also of removed users.
        home_owner: owner of /home/NAME; None if there is no such folder.
        keys: lines of authorized_keys.
        groups: that the user is a member of.
        known_accounts: Slurm accounts of the cluster.
        accounts: Slurm accounts of the user.
        sudo_group: the group that may become root.
        level: AdminLevel in Slurm; empty if Slurm's accounting does not know the user.
    """

    uid: int | None = None
    taken: frozenset[int] = frozenset()
    home_owner: int | None = None
    keys: tuple[str, ...] = ()
    groups: frozenset[str] = frozenset()
    known_accounts: frozenset[str] = frozenset()
    accounts: frozenset[str] = frozenset()
    sudo_group: str = "sudo"
    level: str = ""


@dataclass(frozen=True)
class Wanted:
    """Requested state of a user, from one command line.

    Attributes:
        sudo: True: may become root; False: may not any more; None: as it is.
        level: AdminLevel in Slurm (Administrator, Operator, None); empty: as it is.
    """

    name: str
    keys: tuple[str, ...] = ()
    sudo: bool | None = None
    groups: tuple[str, ...] = ()
    accounts: tuple[str, ...] = ()
    level: str = ""


@dataclass(frozen=True)
class Command:
    """Runs a program, and has the sentence about its effect."""

    words: tuple[str, ...]
    says: str


@dataclass(frozen=True)
class AddKeys:
    """Adds lines to the user's authorized_keys, as that user."""

    keys: tuple[str, ...] = field(default=())


Action = Command | AddKeys


def check_name(name: str) -> str:
    """Returns the name.

    Raises:
        Refused: not every Linux accepts it.
    """
    if not _NAME.fullmatch(name):
        raise Refused(f"{name!r} is no user name: a-z, 0-9, _ and -, at most 31, not a digit first")
    return name


def check_account(name: str) -> str:
    """Returns the name of a Slurm account.

    Raises:
        Refused: Slurm would split it, or take it for an option.
    """
    if not _ACCOUNT.fullmatch(name):
        raise Refused(f"{name!r} is no name for a Slurm account: letters, digits, _, . and -")
    return name


def read_keys(text: str, source: str) -> tuple[str, ...]:
    """Returns the keys of a public key file or an authorized_keys.

    Raises:
        Refused: there is no key, or a line is no key; with the line.
    """
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    for line in lines:
        if "PRIVATE KEY" in line:
            raise Refused(f"{source} is a private key, which nobody but its owner should have: give its .pub file")
        if not _is_key(line):
            raise Refused(f"{source}: {line[:60]!r} is no line of an OpenSSH public key (ssh-ed25519 AAAA… name)")
    if not lines:
        raise Refused(f"{source} holds no key")
    return tuple(lines)


def _is_key(line: str) -> bool:
    match = _KEY.fullmatch(line)
    if match is None:
        return False
    try:
        blob = base64.b64decode(match["blob"], validate=True)
    except binascii.Error:
        return False
    fields = []
    while blob:
        end = 4 + int.from_bytes(blob[:4], "big")
        fields.append(blob[4:end] if len(blob) >= end else None)
        blob = blob[end:]
    # Fields, each after its length. The first repeats the key's type (RFC 4253, 6.6), so a cut line is noticed.
    return len(fields) > 1 and None not in fields and fields[0] == match["type"].encode()


def additions(seen: Seen, wanted: Wanted) -> list[Action]:
    """Actions that make the user as wanted; none for what exists already.

    Raises:
        Refused: the name is a system account's, or the home is another's.
    """
    name = wanted.name
    actions: list[Action] = []
    if seen.uid is None:
        number = str(_number(seen, name))
        # "*": no password fits, and the account is not locked, so a key opens it.
        make = ("useradd", "--create-home", "--shell", "/bin/bash", "--uid", number, "--user-group", "--password", "*")
        actions.append(Command((*make, name), f"made the user {name} with id {number} and home /home/{name}"))
    elif not is_ordinary(seen.uid):
        raise Refused(f"{name} is a system account (id {seen.uid}), not a person's: choose another name")
    if keys := tuple(_new_keys(seen.keys, wanted.keys)):
        actions.append(AddKeys(keys))
    groups = [*wanted.groups, *([seen.sudo_group] if wanted.sudo else [])]
    for group in groups:
        if group not in seen.groups:
            actions.append(Command(("usermod", "--append", "--groups", group, name), f"{name} is in group {group}"))
    if wanted.sudo is False and seen.sudo_group in seen.groups:
        actions.append(Command(("gpasswd", "--delete", name, seen.sudo_group), f"{name} becomes root no more"))
    for account in dict.fromkeys(wanted.accounts):
        if account not in seen.known_accounts:
            open_account = ("sacctmgr", "--immediate", "add", "account", account)
            actions.append(Command(open_account, f"made the Slurm account {account}"))
        if account not in seen.accounts:
            join = ("sacctmgr", "--immediate", "add", "user", name, f"account={account}")
            actions.append(Command(join, f"{name} may use the Slurm account {account}"))
    if wanted.level and wanted.level != (seen.level or "None"):
        if not (seen.level or wanted.accounts):
            raise Refused(f"Slurm keeps administrators among the users of accounts: give {name} one with --account")
        appoint = ("sacctmgr", "--immediate", "modify", "user", name, "set", f"adminlevel={wanted.level}")
        actions.append(Command(appoint, LEVELS[wanted.level].format(name)))
    return actions


def _number(seen: Seen, name: str) -> int:
    """The id for a new user: the owner of an existing home if the user returns, else one that owns no home."""
    if seen.home_owner is not None:
        if names.FIRST_USER_ID <= seen.home_owner <= names.LAST_USER_ID:
            return seen.home_owner
        raise Refused(f"/home/{name} is there and belongs to id {seen.home_owner}: move it away first")
    ordinary = [number for number in seen.taken if names.FIRST_USER_ID <= number <= names.LAST_USER_ID]
    after = max(ordinary, default=names.FIRST_USER_ID - 1) + 1
    candidates = [after, *range(names.FIRST_USER_ID, names.LAST_USER_ID)]
    free = (number for number in candidates if number not in seen.taken and number <= names.LAST_USER_ID)
    number: int | None = next(free, None)
    if number is None:
        raise Refused(f"every id from {names.FIRST_USER_ID} to {names.LAST_USER_ID} is taken")
    return number


def _new_keys(there: Iterable[str], wanted: Iterable[str]) -> Iterable[str]:
    known = {word for line in there for word in line.split()}
    return (key for key in wanted if key.split()[1] not in known)


def removals(seen: Seen, name: str, *, delete_home: bool) -> list[Action]:
    """Actions that remove the user; none if there is no such user.

    Raises:
        Refused: the name is a system account's.
    """
    actions: list[Action] = []
    if seen.accounts:
        leave = ("sacctmgr", "--immediate", "delete", "user", name)
        actions.append(Command(leave, f"{name} may use no Slurm account any more; past jobs stay in sacct"))
    if seen.uid is None:
        return actions
    if not is_ordinary(seen.uid):
        raise Refused(f"{name} is a system account (id {seen.uid}), not a person's")
    if delete_home:
        says = f"removed the user {name} and /home/{name}"
        return [*actions, Command(("userdel", "--remove", name), says)]
    return [*actions, Command(("userdel", name), f"removed the user {name}; /home/{name} stays, and so does its id")]
