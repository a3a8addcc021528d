"""`slurm-user`: one command sets a person up: user, home, keys, sudo and Slurm account."""

from __future__ import annotations

import argparse
import functools
import grp
import os
import pwd
import shutil
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from jail_commands import user_plan
from jail_commands.running import Refused, outcome, run
from jail_commands.user_plan import AddKeys, Seen, Wanted

PROGRAM = "slurm-user"
HOMES = Path("/home")
KEYS = Path(".ssh/authorized_keys")
SUDO_GROUPS = ("sudo", "wheel")
ATTEMPTS = 20
"""Attempts: another process may take the same free id, or hold useradd's lock. Then this one tries again."""
TAKEN = ("not unique", "cannot lock")
EXAMPLES = """
Give it again to change something: what is there already is left as it is. The user is on every node at once.

  sudo slurm-user add alice --key alice.pub --account team
  sudo slurm-user add bob --key - --sudo < bob.pub          root in the jail, and nobody to Slurm
  sudo slurm-user add carol --account team --admin          administers Slurm, as herself; not root
  sudo slurm-user add alice --group docker --no-sudo
  sudo slurm-user remove alice                              /home/alice stays
  sudo slurm-user remove alice --delete-home
"""


def main() -> int:
    """Runs the command line and returns its exit status."""
    return outcome(PROGRAM, command, sys.argv[1:])


def command(arguments: Sequence[str]) -> None:
    """Executes one command line.

    Raises:
        Refused: with the reason.
    """
    options = parser().parse_args(arguments)
    name = user_plan.check_name(options.name)
    if os.geteuid() != 0:
        raise Refused(f"only root makes users: sudo {PROGRAM} {' '.join(arguments)}")
    if options.what == "remove":
        seen = look(name, with_accounts=has_accounting())
        if seen.uid is None:
            print(f"there is no user {name}")
        refuse_while_at_work(name, seen)
        execute(name, user_plan.removals(seen, name, delete_home=options.delete_home))
        return
    wanted = Wanted(
        name,
        tuple(key for source in options.key for key in read_key_file(source)),
        options.sudo,
        tuple(options.group),
        tuple(user_plan.check_account(account) for account in options.account),
        options.level,
    )
    if (wanted.accounts or wanted.level) and not has_accounting():
        raise Refused("this cluster has no accounts: pulumi-slurm:accounting.mode is off in the stack's config")
    add(wanted)


def add(wanted: Wanted) -> None:
    """Makes the user as wanted."""
    for attempt in range(1, ATTEMPTS + 1):
        seen = look(wanted.name, with_accounts=bool(wanted.accounts or wanted.level))
        actions = user_plan.additions(seen, wanted)
        try:
            execute(wanted.name, actions)
        except Refused as error:
            if attempt == ATTEMPTS or not any(words in str(error) for words in TAKEN):
                raise
            continue
        if not actions:
            print(f"{wanted.name} is as wanted already")
        return


def parser() -> argparse.ArgumentParser:
    """The command line."""
    top = argparse.ArgumentParser(
        PROGRAM,
        description="Makes and removes users of the jail. Only root may: with sudo.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    kinds = top.add_subparsers(dest="what", required=True)
    make = kinds.add_parser(
        "add", help="make a user, or add to one", epilog=EXAMPLES, formatter_class=top.formatter_class
    )
    make.add_argument("name", help="of the user, such as alice")
    make.add_argument("--key", action="append", default=[], metavar="FILE", help="OpenSSH public key; - for stdin")
    make.add_argument("--sudo", action="store_true", default=None, help="may become root in the jail")
    make.add_argument("--no-sudo", dest="sudo", action="store_false", help="takes that back")
    levels = {"--admin": "Administrator", "--operator": "Operator", "--no-admin": "None"}
    for option, level in levels.items():
        says = user_plan.LEVELS[level].format("NAME")
        make.add_argument(option, dest="level", action="store_const", const=level, default="", help=says)
    make.add_argument("--group", action="append", default=[], help="a group to be in; may be given again")
    make.add_argument(
        "--account", action="append", default=[], help="a Slurm account, made if missing; may be given again"
    )
    drop = kinds.add_parser("remove", help="remove a user; the home stays unless you say otherwise")
    drop.add_argument("name", help="of the user")
    drop.add_argument("--delete-home", action="store_true", help="delete /home/NAME with all that is in it")
    return top


def read_key_file(source: str) -> tuple[str, ...]:
    """Returns the keys of a file, or of standard input for "-"."""
    try:
        text = sys.stdin.read() if source == "-" else Path(source).read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise Refused(f"--key {source}: {getattr(error, 'strerror', None) or 'no text'}") from None
    return user_plan.read_keys(text, "standard input" if source == "-" else source)


def look(name: str, *, with_accounts: bool) -> Seen:
    """Returns what exists of a user.

    Raises:
        Refused: sacctmgr does not answer.
    """
    users = pwd.getpwall()
    uid = next((user.pw_uid for user in users if user.pw_name == name), None)
    groups = grp.getgrall()
    owners = [entry.stat(follow_symlinks=False).st_uid for entry in os.scandir(HOMES)] if HOMES.is_dir() else []
    home = HOMES / name
    return Seen(
        uid=uid,
        taken=frozenset([entry.pw_uid for entry in users] + [entry.gr_gid for entry in groups] + owners),
        home_owner=home.lstat().st_uid if home.is_dir() and not home.is_symlink() else None,
        keys=tuple(as_user(name, existing_keys)) if uid is not None and home.is_dir() else (),
        groups=frozenset(group.gr_name for group in groups if name in group.gr_mem),
        known_accounts=rows("account", "format=account") if with_accounts else frozenset(),
        accounts=rows("assoc", "where", f"user={name}", "format=account") if with_accounts else frozenset(),
        level=next(iter(rows("user", "where", f"name={name}", "format=adminlevel")), "") if with_accounts else "",
        sudo_group=next(
            (candidate for candidate in SUDO_GROUPS if any(candidate == group.gr_name for group in groups)), "sudo"
        ),
    )


def rows(*question: str) -> frozenset[str]:
    """Asks sacctmgr for one column."""
    return frozenset(run("sacctmgr", "--noheader", "--parsable2", "show", *question).split())


def has_accounting() -> bool:
    """Return whether this cluster has Slurm accounts."""
    settings = run("scontrol", "show", "config")
    return any("slurmdbd" in line for line in settings.splitlines() if line.startswith("AccountingStorageType"))


def refuse_while_at_work(name: str, seen: Seen) -> None:
    """Refuses to remove a user who has jobs."""
    if seen.uid is not None and (jobs := run("squeue", "--noheader", f"--user={name}", "--format=%i").split()):
        raise Refused(f"{name} has jobs: {', '.join(jobs)}; wait for them, or: scancel --user={name}")


def execute(name: str, actions: Sequence[user_plan.Action]) -> None:
    """Executes the actions and prints each."""
    for action in actions:
        if isinstance(action, AddKeys):
            as_user(name, functools.partial(append_keys, action.keys))
            print(f"added {len(action.keys)} key{'s' if len(action.keys) > 1 else ''} to ~{name}/{KEYS}")
            continue
        if shutil.which(action.words[0]) is None:
            raise Refused(f"the jail has no {action.words[0]}: install its package")
        run(*action.words)
        print(action.says)


def existing_keys() -> list[str]:
    """Lines of the authorized_keys in the current folder."""
    return KEYS.read_text().splitlines() if KEYS.exists() else []


def append_keys(keys: Sequence[str]) -> list[str]:
    """Adds lines to the authorized_keys in the current folder."""
    KEYS.parent.mkdir(mode=0o700, exist_ok=True)
    before = existing_keys()
    aside = KEYS.with_suffix(".slurm-user")
    aside.write_text("".join(f"{line}\n" for line in [*before, *keys]))
    aside.chmod(0o600)
    aside.replace(KEYS)
    return list(keys)


def as_user(name: str, task: Callable[[], list[str]]) -> list[str]:
    """Runs a task in a user's home, as that user, so that root follows no link of his.

    Raises:
        Refused: with what went wrong there.
    """
    entry = pwd.getpwnam(name)
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.close(reading)
            os.initgroups(name, entry.pw_gid)
            os.setgid(entry.pw_gid)
            os.setuid(entry.pw_uid)
            os.umask(0o077)
            os.chdir(entry.pw_dir)
            said = "\n".join(task())
            status = 0
        except Exception as error:  # This child ends by _exit, so the parent reports any error.
            said = str(error)
        with os.fdopen(writing, "w") as pipe:
            pipe.write(said)
        os._exit(status)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        said = pipe.read()
    if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) != 0:
        raise Refused(f"the home of {name}: {said}")
    return said.splitlines()
