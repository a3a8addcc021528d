"""Homes and SSH keys of LDAP users. Users may write to roots and homes, so no link in one is followed."""

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from slurm_node.accounts import account_sync, skeleton
from slurm_node.accounts.ldap_users import Answer
from slurm_node.pod import durable, paths, resolve_beneath
from slurm_node.pod.log import NodeError, say
from slurm_node.pod.settings import Jail
from slurm_node.pod.system import opened_inside


def make(taken: Answer, jail: Jail, volume: Path) -> None:
    """Makes missing homes that lie in a persistent path. Existing ones stay as they are.

    Args:
        taken: what was taken over.
        jail: which paths are persistent.
        volume: where the shared volume is mounted.
    """
    root = paths.root_of(volume, account_sync.complete_roots(volume)[0])
    for name, home in taken.homes.items():
        outer = next((path for path in jail.persistent if home.startswith(f"{path}/")), None)
        if outer is None:
            continue
        folder, inside = paths.persistent_of(volume, outer), home.removeprefix(outer)
        user, group = (int(number) for number in taken.users["passwd", name].split(":")[2:4])
        try:
            if _is_there(folder, inside):
                continue
            aside = volume / "accounts" / f"home-{name}"
            _begin(aside, root, user, group)
            with resolve_beneath.folder(folder, str(Path(inside).parent)) as homes:
                durable.move(aside, homes / Path(inside).name)
        except (NodeError, OSError) as error:
            say(f"the home {home} of {name} is not made: {error}")
            continue
        say(f"made the home {home} of {name}")


def _is_there(folder: Path, inside: str) -> bool:
    try:
        with opened_inside(folder, inside):
            return True
    except FileNotFoundError:
        return False


def _begin(aside: Path, root: Path, user: int, group: int) -> None:
    """Makes a home in a place that users don't see until it is complete."""
    if aside.exists():
        shutil.rmtree(aside)
    skeleton.copy(root, aside)
    aside.mkdir(exist_ok=True)
    aside.chmod(0o750)
    for path in [aside, *aside.rglob("*")]:
        os.chown(path, user, group, follow_symlinks=False)


def write_keys(wanted: Mapping[str, tuple[str, ...]], folder: Path) -> None:
    """Makes the folder hold one file for each user who has keys, and no other. Sshd reads each as that user."""
    folder.mkdir(mode=0o755, parents=True, exist_ok=True)
    texts = {name: "".join(f"{key}\n" for key in lines) for name, lines in wanted.items() if lines}
    for name, text in texts.items():
        file = folder / name
        if not file.exists() or file.read_text() != text:
            aside = folder / f".{name}"
            aside.write_text(text)
            aside.chmod(0o644)
            aside.replace(file)
    for file in folder.iterdir():
        if file.name not in texts:
            file.unlink()
