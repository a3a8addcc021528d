"""The users of a cluster, the same in every root: pure functions that merge the roots' account files.

Each root has account files of its own, since programs like useradd replace them by renaming. Their lines about ordinary
users and groups are entries. The merge applies each root's changes since the last agreement to the agreed entries. The
result is written back to all roots. A root's system accounts stay its image's.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from slurm_node.accounts.accounts import FILES, Accounts, is_ordinary

Entry = tuple[str, str]
Users = Mapping[Entry, str]
"""(file, name) → its lines; ("member", "GROUP:USER") for each member of a group. Lines of groups are without members.

("sudoers.d", NAME) is a file of that folder which the image did not bring.
"""
SUDOERS = "sudoers.d"


@dataclass(frozen=True, slots=True)
class Root:
    """One root's entries now, and those when it last agreed with the others; None if it never did."""

    now: Users
    before: Users | None


def users_of(accounts: Accounts) -> dict[Entry, str]:
    """Returns a root's entries of ordinary users and groups, and of ordinary users in system groups."""
    users, groups = _ordinary(accounts, "passwd"), _ordinary(accounts, "group")
    wanted = {"group": groups, "gshadow": groups}
    entries: dict[Entry, str] = {}
    for file in FILES:
        for line in accounts.lines.get(file, ()):
            name = line.partition(":")[0]
            if name in wanted.get(file, users):
                text = _without_members(line) if file in wanted else line
                entries[file, name] = "\n".join(filter(None, (entries.get((file, name)), text)))
    for line in accounts.lines.get("group", ()):
        group = line.partition(":")[0]
        entries |= {("member", f"{group}:{user}"): "" for user in _members(line) if user in users}
    return entries


def merged(agreed: Users, roots: Iterable[Root]) -> dict[Entry, str]:
    """Returns the entries that all roots should have.

    Args:
        agreed: what they agreed on last.
        roots: those that ever agreed first; later ones win where two changed the same.
    """
    result = dict(agreed)
    for root in roots:
        if root.before is None:
            result |= _joining(result, root.now)
            continue
        for entry in root.before.keys() | root.now.keys():
            now = root.now.get(entry)
            if now == root.before.get(entry):
                continue
            if now is None:
                result.pop(entry, None)
            else:
                result[entry] = now
    return result


def with_users(accounts: Accounts, entries: Users) -> Accounts:
    """Returns a root's accounts with exactly these users, in the groups that the root has."""
    mine = users_of(accounts)
    users = {name for file, name in {**mine, **entries} if file == "passwd"}
    lines: dict[str, tuple[str, ...]] = {}
    for file in FILES:
        wanted = {name: text for (kind, name), text in entries.items() if kind == file}
        old = {name for kind, name in mine if kind == file}
        kept: list[str] = []
        for line in accounts.lines.get(file, ()):
            name = line.partition(":")[0]
            if name not in old:
                # In this root, the name is a system account of the image.
                kept.append(line)
                wanted.pop(name, None)
            elif name in wanted:
                kept += wanted.pop(name).split("\n")
        kept += [line for text in wanted.values() for line in text.split("\n")]
        is_group = file in ("group", "gshadow")
        lines[file] = tuple(_joined(line, entries, users) for line in kept) if is_group else tuple(kept)
    return Accounts(lines)


def clashes(entries: Users) -> list[str]:
    """Returns a sentence for each id that two users share: they were made in two roots at the same moment."""
    by_id: dict[str, list[str]] = {}
    for (file, name), line in entries.items():
        if file == "passwd":
            by_id.setdefault(line.split(":")[2], []).append(name)
    return [
        f"the users {', '.join(sorted(names))} share the id {number}" for number, names in by_id.items() if names[1:]
    ]


def _joining(agreed: Users, now: Users) -> dict[Entry, str]:
    """Entries of a new root that the others lack. The others decide about known names and taken ids."""
    taken = {(file, line.split(":")[2]) for (file, _), line in agreed.items() if file in ("passwd", "group")}
    known = {name for file, name in agreed if file in ("passwd", "group")}
    refused = {name for (file, name), line in now.items() if file == "passwd" and (file, line.split(":")[2]) in taken}
    return {
        entry: text
        for entry, text in now.items()
        if entry not in agreed
        and (user := entry[1].rpartition(":")[2]) not in refused
        and (entry[0] in ("member", SUDOERS) or user not in known)
        and not (entry[0] == "group" and ("group", text.split(":")[2]) in taken)
    }


def _ordinary(accounts: Accounts, file: str) -> set[str]:
    return {name for name, number in accounts.ids(file).items() if is_ordinary(number)}


def _members(line: str) -> list[str]:
    return [member for member in line.rpartition(":")[2].split(",") if member]


def _without_members(line: str) -> str:
    return f"{line.rpartition(':')[0]}:"


def _joined(line: str, entries: Users, users: set[str]) -> str:
    """A line of group or gshadow with the desired members. System users in it stay."""
    group = line.partition(":")[0]
    wanted = [name.partition(":")[2] for kind, name in entries if kind == "member" and name.partition(":")[0] == group]
    there = _members(line)
    members = [name for name in there if name not in users or name in wanted]
    members += [name for name in wanted if name not in members]
    return _without_members(line) + ",".join(members)
