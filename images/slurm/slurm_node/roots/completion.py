"""Completes a copied image to a root: mount points, Slurm's commands and user, persistent paths."""

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from slurm_node.accounts import account_files, accounts
from slurm_node.jail import driver
from slurm_node.pod import durable, paths, resolve_beneath, settings
from slurm_node.pod.log import NodeError, say
from slurm_node.roots import image_root

MOUNT_POINTS = ("dev", "proc", "sys", "run", "opt/slurm", "var/spool/slurmd")
EMPTY_FILES = ("etc/hosts", "etc/hostname", "etc/resolv.conf")


def complete_root(root: Path) -> None:
    """Adds what a node needs: mount points, Slurm's commands and user.

    Raises:
        NodeError: the image has a symbolic link where something is to be mounted.
    """
    for name in MOUNT_POINTS:
        with resolve_beneath.folder(root, f"/{name}"):
            pass
    with resolve_beneath.folder(root, "/tmp") as tmp:  # noqa: S108 - of the root
        tmp.chmod(0o1777)
    for name in EMPTY_FILES:
        with resolve_beneath.in_words(f"/{name}"):
            resolve_beneath.make_folder(root, f"/{name.rpartition('/')[0]}")
            resolve_beneath.make_file(root, f"/{name}")
    link_commands(root)
    driver.link(root)
    with account_files.etc(root) as etc:
        before = account_files.read(etc)
        account_files.write(etc, before, accounts.with_slurm(before))


def link_commands(root: Path) -> None:
    """Puts Slurm's commands on everybody's PATH, and slurmstepd where `sbatch --get-user-env` looks for it."""
    programs = {program.name: program for program in (paths.PREFIX / "bin").iterdir()}
    # /usr/local/bin comes first on Debian's PATH; the one that a shell without a profile has, as busybox's, lacks it.
    for folder in ("/usr/local/bin", "/usr/bin"):
        _link_into(root, folder, programs)
    _link_into(root, "/usr/sbin", {"slurmstepd": paths.PREFIX / "sbin/slurmstepd"})


def _link_into(root: Path, folder: str, wanted: Mapping[str, Path]) -> None:
    # Some distributions' /usr/sbin is a link to bin.
    there = image_root.inside(root, folder)
    try:
        with resolve_beneath.folder(root, f"/{there.relative_to(root)}" if there else folder) as opened:
            for name, target in wanted.items():
                if not os.path.lexists(opened / name):
                    (opened / name).symlink_to(target)
    except NodeError as error:
        say(f"no links to Slurm's commands in {folder}: {error}")


def seed_persistent(root: Path, jail: settings.Jail, volume: Path) -> None:
    """Fills each new persistent path once, from the root, which may be in use."""
    for path in sorted(jail.persistent):
        target = paths.persistent_of(volume, path)
        with resolve_beneath.folder(root, path) as inside:
            if target.exists():
                tell_hidden(inside, target, path)
                continue
            # Beside the path, where no mount shows it to users.
            aside = target.with_name(f".seeding-{target.name}")
            aside.parent.mkdir(parents=True, exist_ok=True)
            if aside.exists():  # ours, of an interrupted attempt
                shutil.rmtree(aside)
            resolve_beneath.copy_out(inside, aside)
        durable.move(aside, target)


def tell_hidden(inside: Path, target: Path, path: str) -> None:
    """Warns about an image's files under a persistent path that has content already: nobody will see them."""
    hidden = sorted(entry.name for entry in inside.iterdir() if not (target / entry.name).exists())
    if hidden:
        shown = ", ".join(hidden[:5]) + (" …" if hidden[5:] else "")
        say(f"warning: the image has {shown} in {path}, which is persistent: it is not taken over, copy it by hand")
