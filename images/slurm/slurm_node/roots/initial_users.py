"""The initial users of a root: their accounts, homes and keys."""

import os
import shutil
from pathlib import Path

from slurm_node.accounts import account_files, accounts, skeleton
from slurm_node.pod import durable, paths, resolve_beneath, settings
from slurm_node.pod.log import say
from slurm_node.pod.system import opened_inside
from slurm_node.roots import image_root

SUDOERS = "pulumi-slurm"
SUDO_RULE = "# Members of sudo have no password: they come by key.\n%sudo ALL=(ALL:ALL) NOPASSWD: ALL\n"


def add(root: Path, users: tuple[settings.User, ...], volume: Path) -> None:
    """Adds the initial users whose names the root lacks. Existing users stay as they are.

    A user with an account but no home gets his home: an earlier attempt may have stopped between the two.
    """
    shell = "/bin/bash" if image_root.inside(root, "/bin/bash") else "/bin/sh"
    with account_files.locked(root) as etc:
        before = after = account_files.read(etc)
        for user in users:
            after = accounts.with_user(after, user, shell)
        account_files.write(etc, before, after)
        if any(user.sudo for user in users):
            _allow_sudo(etc)
    for user in users:
        if after.homes().get(user.name) == f"/home/{user.name}":
            make_home(root, volume, user, after.ids("passwd")[user.name])
        if user.name not in before.names("passwd"):
            say(f"added the user {user.name}")


def _allow_sudo(etc: int) -> None:
    with account_files.sudoers(etc) as folder:
        if folder is not None and SUDOERS not in account_files.names(folder):
            account_files.replace(folder, SUDOERS, SUDO_RULE, 0o440)


def make_home(root: Path, volume: Path, user: settings.User, number: int) -> None:
    """Makes an initial user's home with the skeleton and his SSH keys. An existing home stays as it is."""
    persistent = paths.persistent_of(volume, "/home")
    with opened_inside(persistent, "/") if persistent.is_dir() else resolve_beneath.folder(root, "/home") as homes:
        if os.path.lexists(homes / user.name):
            return
        # Made where users don't see it, since they may change /home, and renamed when it is complete.
        aside = volume / "accounts" / f"home-{user.name}"
        aside.parent.mkdir(mode=0o700, exist_ok=True)
        if aside.exists():
            shutil.rmtree(aside)
        skeleton.copy(root, aside)
        _give_keys(aside, user)
        for path in [aside, *aside.rglob("*")]:
            os.chown(path, number, number, follow_symlinks=False)
        durable.move(aside, homes / user.name)


def _give_keys(home: Path, user: settings.User) -> None:
    keys = home / ".ssh/authorized_keys"
    home.mkdir(exist_ok=True)
    _clear_way(keys)
    keys.parent.mkdir(exist_ok=True)
    keys.write_text("".join(f"{key}\n" for key in user.ssh_public_keys))
    for path, mode in ((home, 0o750), (keys.parent, 0o700), (keys, 0o600)):
        path.chmod(mode)


def _clear_way(keys: Path) -> None:
    """Removes links of the skeleton, which users may have changed, and what is of another kind than it must be."""
    if keys.parent.is_symlink() or keys.parent.is_file():
        keys.parent.unlink()
    if keys.is_symlink():
        keys.unlink()
    elif keys.is_dir():
        shutil.rmtree(keys)
