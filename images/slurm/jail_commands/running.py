"""Runs programs for the commands. A failure is a sentence, never a traceback."""

from __future__ import annotations

import os
import pwd
import subprocess
import sys
from collections.abc import Callable, Sequence

SECONDS = 60.0


class Refused(Exception):
    """The command failed; the text says why, and what would be right."""


SLURMS = ("sacctmgr", "scontrol", "squeue")


def who_asks() -> int | None:
    """Returns the id of the user behind sudo; None if this process is not root's.

    Raises:
        Refused: root without a user behind sudo. Slurm refuses root of the jail.
    """
    if os.geteuid() != 0:
        return None
    number = os.environ.get("SUDO_UID", "")
    if not number.isdecimal() or int(number) == 0:
        raise Refused("Slurm listens to persons, not to root: use sudo as yourself")
    return int(number)


def run(*words: str, seconds: float = SECONDS) -> str:
    """Runs a program and returns its output. Slurm's commands run as the user behind sudo.

    Raises:
        Refused: it is missing, failed, or took too long; with its own words.
    """
    uid = who_asks() if words[0] in SLURMS else None
    group = None if uid is None else group_of(uid)
    groups: list[int] | None = None if uid is None else []
    try:
        done = subprocess.run(
            words,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
            user=uid,
            group=group,
            extra_groups=groups,
        )
    except FileNotFoundError:
        raise Refused(f"the jail has no {words[0]}: install its package") from None
    except subprocess.TimeoutExpired:
        raise Refused(f"{' '.join(words)} was not done after {seconds:.0f} s") from None
    if done.returncode != 0:
        raise Refused(f"{' '.join(words)} failed: {(done.stderr or done.stdout).strip()}")
    return done.stdout


def group_of(uid: int) -> int:
    """Returns a user's own group.

    Raises:
        Refused: there is no such user.
    """
    try:
        return pwd.getpwuid(uid).pw_gid
    except KeyError:
        raise Refused(f"there is no user with id {uid}") from None


def outcome(name: str, command: Callable[[Sequence[str]], None], arguments: Sequence[str]) -> int:
    """Runs a command line and returns its exit status; a refusal is printed as a sentence."""
    try:
        command(arguments)
    except (Refused, OSError) as error:
        print(f"{name}: {error}", file=sys.stderr)
        return 1
    return 0
