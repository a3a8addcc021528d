"""Accounts of a jail's root: pure functions over the text of its /etc files.

A root's system accounts come from its image. Ordinary users are the same in all roots (users.py). Functions here never
change existing lines.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from contract import names
from slurm_node.pod.log import NodeError
from slurm_node.pod.settings import User

FIRST_SUBORDINATE_ID = 100_000
SUBORDINATE_IDS = 65_536
FILES = ("passwd", "shadow", "group", "gshadow", "subuid", "subgid")
NAME = re.compile(names.USER_NAME)
NUMBER = re.compile(r"[0-9]{1,10}")
"""An id in a file that users write. `str.isdigit` would accept digits that `int` refuses."""


def is_ordinary(number: int) -> bool:
    """Return whether an id is an ordinary user's, not a system account's."""
    is_debians = names.FIRST_USER_ID <= number <= names.LAST_USER_ID
    return is_debians or names.FIRST_LDAP_ID <= number <= names.LAST_LDAP_ID


@dataclass(frozen=True, slots=True)
class Accounts:
    """The account files of one root: name → lines."""

    lines: Mapping[str, tuple[str, ...]]

    def names(self, file: str) -> set[str]:
        """Returns the names that a file defines."""
        return {line.partition(":")[0] for line in self.lines.get(file, ())}

    def ids(self, file: str) -> dict[str, int]:
        """Returns name → numeric id of passwd or group. Of a name's lines the first counts, as for the C library."""
        fields = (line.split(":") for line in reversed(self.lines.get(file, ())))
        return {field[0]: int(field[2]) for field in fields if len(field) > 2 and NUMBER.fullmatch(field[2])}

    def homes(self) -> dict[str, str]:
        """Returns name → home folder of passwd."""
        fields = (line.split(":") for line in self.lines.get("passwd", ()))
        return {field[0]: field[5] for field in fields if len(field) > 5}

    def with_lines(self, added: Mapping[str, Iterable[str]]) -> "Accounts":
        """Returns the accounts with those of the lines appended whose names are new."""
        merged = dict(self.lines)
        for file, lines in added.items():
            known = self.names(file)
            merged[file] = (*merged.get(file, ()), *(line for line in lines if line.partition(":")[0] not in known))
        return Accounts(merged)

    def with_member(self, group: str, user: str) -> "Accounts":
        """Returns the accounts with a user in a group's list of members."""
        return Accounts({**self.lines, **{file: self._joined(file, group, user) for file in ("group", "gshadow")}})

    def _joined(self, file: str, group: str, user: str) -> tuple[str, ...]:
        result = []
        for line in self.lines.get(file, ()):
            head, _, members = line.rpartition(":")
            named = [member for member in members.split(",") if member]
            joins = line.partition(":")[0] == group and user not in named
            result.append(f"{head}:{','.join([*named, user])}" if joins else line)
        return tuple(result)


def with_slurm(accounts: Accounts) -> Accounts:
    """Returns the accounts with the user that Slurm's own daemons run as.

    Raises:
        NodeError: the image has a user or group ``slurm`` with another id.
    """
    for file in ("passwd", "group"):
        number = accounts.ids(file).get("slurm", names.SLURM_UID)
        if number != names.SLURM_UID:
            raise NodeError(
                f"the jail image's /etc/{file} gives slurm the id {number}; it must be {names.SLURM_UID} or absent"
            )
    return accounts.with_lines(
        {
            "passwd": [f"slurm:x:{names.SLURM_UID}:{names.SLURM_UID}:Slurm:/nonexistent:/usr/sbin/nologin"],
            "shadow": ["slurm:!:1::::::"],
            "group": [f"slurm:x:{names.SLURM_UID}:"],
        }
    )


def with_user(accounts: Accounts, user: User, shell: str) -> Accounts:
    """Returns the accounts with one initial user, who has no password; unchanged if the name is there.

    Raises:
        NodeError: a Linux system would not accept the name.
    """
    if not NAME.fullmatch(user.name):
        raise NodeError(f"login user {user.name!r}: a name is made of a-z, 0-9, _ and -, and starts with a letter")
    if user.name in accounts.names("passwd"):
        return accounts
    number = _next_id(accounts, user.name)
    subordinate = f"{user.name}:{_next_subordinate(accounts)}:{SUBORDINATE_IDS}"
    added = accounts.with_lines(
        {
            "passwd": [f"{user.name}:x:{number}:{number}::/home/{user.name}:{shell}"],
            # "*", not "!": no password fits, and the account is not locked, so a key opens it.
            "shadow": [f"{user.name}:*:1::::::"],
            "group": [f"{user.name}:x:{number}:"],
            "gshadow": [f"{user.name}:!::"],
            "subuid": [subordinate],
            "subgid": [subordinate],
        }
    )
    if user.sudo:
        added = added.with_lines({"group": [f"sudo:x:{_free_system_id(added)}:"], "gshadow": ["sudo:*::"]})
        added = added.with_member("sudo", user.name)
    return added


def _next_id(accounts: Accounts, name: str) -> int:
    user_ids = set(accounts.ids("passwd").values())
    # The group may exist: an interrupted write leaves it, since passwd is written last.
    group = accounts.ids("group").get(name)
    if group is not None and is_ordinary(group) and group not in user_ids:
        return group
    taken = user_ids | set(accounts.ids("group").values())
    return next(number for number in range(names.FIRST_USER_ID, names.LAST_USER_ID + 1) if number not in taken)


def _next_subordinate(accounts: Accounts) -> int:
    ends = [
        int(fields[1]) + int(fields[2])
        for line in accounts.lines.get("subuid", ())
        if len(fields := line.split(":")) == 3 and NUMBER.fullmatch(fields[1]) and NUMBER.fullmatch(fields[2])
    ]
    return max([FIRST_SUBORDINATE_ID, *ends])


def _free_system_id(accounts: Accounts) -> int:
    taken = set(accounts.ids("group").values())
    return next(number for number in range(999, 99, -1) if number not in taken)
