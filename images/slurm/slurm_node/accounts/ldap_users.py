"""The users that an LDAP directory names, as entries of account files: pure functions over the LDIF of its answers.

Attributes are those of RFC 2307 (posixAccount, posixGroup), ``sshPublicKey``, and ``member`` with distinguished names
(RFC 2307bis). Somebody else fills the directory, so every entry that could change a system account is left out.
"""

import base64
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from slurm_node.accounts.accounts import NAME, Accounts, is_ordinary
from slurm_node.accounts.users import Entry, Users

MOST_KEYS = 50
_PATH = re.compile(r"(/[A-Za-z0-9._+-]+)+")
_GROUP_NAME = re.compile(r"[a-z_][a-z0-9_.-]{0,62}")
_KEY = re.compile(r"(ssh|ecdsa|sk-ssh|sk-ecdsa)-[A-Za-z0-9@.-]+ [A-Za-z0-9+/=]+( [ -~]*)?")
"""A key of one line without options: a directory may not set commands or forwarding."""

Attributes = Mapping[str, tuple[str, ...]]
"""Attributes of one object: name in lower case → values; ``dn`` is one of the names."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The users and groups in an LDAP server's answers.

    Attributes:
        users: entries for account files.
        homes: user → absolute path of the home.
        keys: user → lines of authorized_keys.
        refused: a sentence for each object that is not taken.
    """

    users: Mapping[Entry, str] = field(default_factory=dict)
    homes: Mapping[str, str] = field(default_factory=dict)
    keys: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    refused: tuple[str, ...] = ()


class _NotTakenError(ValueError):
    """Says why an object of the directory is left out."""


def objects(ldif: str) -> Iterator[Attributes]:
    """Yields the objects of an LDIF text (RFC 2849) as ldapsearch -LLL prints it, continued lines and base64 included.

    Raises:
        ValueError: a value's base64 or UTF-8 is broken.
    """
    for block in re.split(r"\n\s*\n", ldif.replace("\r\n", "\n").replace("\n ", "")):
        attributes: dict[str, list[str]] = {}
        for line in block.splitlines():
            name, colon, value = line.partition(":")
            if not colon or line.startswith("#"):
                continue
            text = base64.b64decode(value[1:].strip(), validate=True).decode() if value[:1] == ":" else value.strip()
            attributes.setdefault(name.partition(";")[0].lower(), []).append(text)
        if "dn" in attributes:
            yield {name: tuple(values) for name, values in attributes.items()}


def read(users: str, groups: str) -> Answer:
    """Returns the users and groups in the server's two answers.

    Raises:
        ValueError: an answer is not LDIF.
    """
    entries: dict[Entry, str] = {}
    homes: dict[str, str] = {}
    keys: dict[str, tuple[str, ...]] = {}
    refused: list[str] = []
    by_name: dict[str, str] = {}
    taken_by_users: dict[str, str] = {}
    for entry in objects(users):
        try:
            name, line = _passwd(entry, taken_by_users)
        except _NotTakenError as error:
            refused.append(f"user {entry['dn'][0]}: {error}")
            continue
        entries["passwd", name], entries["shadow", name] = line, f"{name}:*:1::::::"
        homes[name] = line.split(":")[5]
        keys[name] = tuple(key for key in entry.get("sshpublickey", ()) if _KEY.fullmatch(key))[:MOST_KEYS]
        by_name[_plain_dn(entry["dn"][0])] = name
    taken_by_groups: dict[str, str] = {}
    for entry in objects(groups):
        try:
            name, line = _group(entry, taken_by_groups)
        except _NotTakenError as error:
            refused.append(f"group {entry['dn'][0]}: {error}")
            continue
        entries["group", name], entries["gshadow", name] = line, f"{name}:!::"
        members = {*entry.get("memberuid", ()), *(by_name.get(_plain_dn(dn), "") for dn in entry.get("member", ()))}
        entries |= {("member", f"{name}:{user}"): "" for user in sorted(members & homes.keys())}
    return Answer(entries, homes, keys, tuple(refused))


def acceptable(answer: Answer, before: Users, others: tuple[Accounts, ...]) -> Answer:
    """Returns the part that may be taken over: nobody gets the name or id of an existing account.

    Args:
        answer: what the LDAP server says.
        before: what was taken from it last.
        others: the accounts of all roots, those taken before included.
    """
    refused = [*answer.refused]
    left_out: set[Entry] = set()
    for file in ("passwd", "group"):
        known: dict[str, int] = {}
        for root in others:
            known |= {name: number for name, number in root.ids(file).items() if (file, name) not in before}
        numbers = {number: name for name, number in known.items()}
        for (kind, name), line in answer.users.items():
            number = int(line.split(":")[2]) if kind == file else -1
            if kind == file and (name in known or number in numbers):
                has = f"the name {name}" if name in known else f"the id {number}"
                refused.append(f"{'user' if file == 'passwd' else 'group'} {name}: an account of the jail has {has}")
                left_out |= {(file, name), ("shadow" if file == "passwd" else "gshadow", name)}
    users = {name for file, name in left_out if file == "passwd"}
    groups = {name for file, name in left_out if file == "group"}

    def stays(entry: Entry) -> bool:
        group, _, user = entry[1].partition(":")
        return entry not in left_out and not (entry[0] == "member" and (group in groups or user in users))

    return Answer(
        {entry: line for entry, line in answer.users.items() if stays(entry)},
        {name: home for name, home in answer.homes.items() if name not in users},
        {name: keys for name, keys in answer.keys.items() if name not in users},
        tuple(refused),
    )


def with_ldap_users(agreed: Users, before: Users, now: Users) -> dict[Entry, str]:
    """Returns the entries that all roots should have when the LDAP server is followed.

    The server decides which users exist, their ids, names and homes, and the members of its own groups. Passwords that
    were set in the jail stay until their user is gone. So do memberships in the jail's groups.

    Args:
        agreed: what the roots agree on.
        before: what was taken from the directory last.
        now: what is taken from it now.
    """
    gone = before.keys() - now.keys()
    users = {name for file, name in gone if file == "passwd"}
    result = {
        entry: line
        for entry, line in agreed.items()
        if entry not in gone and not (entry[0] == "member" and entry[1].rpartition(":")[2] in users)
    }
    kept = {entry: result[entry] for entry in now.keys() & result.keys() if entry[0] in ("shadow", "gshadow")}
    return result | dict(now) | kept


def _passwd(user: Attributes, taken: dict[str, str]) -> tuple[str, str]:
    name = _one(user, "uid")
    if not NAME.fullmatch(name):
        raise _NotTakenError(f"the name {name!r} is none that a Linux system takes")
    number, group = _ordinary_id(user, "uidnumber"), _ordinary_id(user, "gidnumber")
    _claim(taken, name, number)
    home, shell = _one(user, "homedirectory"), (user.get("loginshell") or ("/bin/sh",))[0]
    for path in (home, shell):
        if not _PATH.fullmatch(path) or "/../" in f"{path}/" or "/./" in f"{path}/":
            raise _NotTakenError(f"{path!r} is no absolute path")
    says = (user.get("gecos") or user.get("cn") or ("",))[0]
    full_name = re.sub(r"[^\w .,'()@+-]", "", says)
    return name, f"{name}:x:{number}:{group}:{full_name}:{home}:{shell}"


def _group(group: Attributes, taken: dict[str, str]) -> tuple[str, str]:
    name = _one(group, "cn")
    if not _GROUP_NAME.fullmatch(name):
        raise _NotTakenError(f"the name {name!r} is none that a Linux system takes")
    number = _ordinary_id(group, "gidnumber")
    _claim(taken, name, number)
    return name, f"{name}:x:{number}:"


def _claim(taken: dict[str, str], name: str, number: str) -> None:
    if taken.setdefault(f"#{number}", name) != name or taken.setdefault(name, number) != number:
        raise _NotTakenError(f"the directory has its name or its id {number} twice")


def _one(entry: Attributes, name: str) -> str:
    values = entry.get(name, ())
    if not values:
        raise _NotTakenError(f"it has no {name}")
    return values[0]


def _ordinary_id(entry: Attributes, name: str) -> str:
    text = _one(entry, name)
    if not re.fullmatch(r"[1-9][0-9]{0,9}", text) or not is_ordinary(int(text)):
        raise _NotTakenError(f"{name} {text!r} is a system's own: 1000 to 59999, or 65536 and more, are people's")
    return text


def _plain_dn(name: str) -> str:
    return re.sub(r"\s*([,=])\s*", r"\1", name).casefold()
