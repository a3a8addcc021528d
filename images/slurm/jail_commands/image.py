"""`slurm-image`: fetches and unpacks container images for `srun --container`."""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import shutil
import stat
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

from contract import paths
from jail_commands import container_plan
from jail_commands.running import Refused, outcome

PROGRAM = "slurm-image"
SHARED = Path("/srv/slurm-images")
OWN = Path(".local/share/slurm-images")
NOTE = "pulled-from"
"""File of a bundle that names its source."""
SOURCES = ("docker://", "docker-archive:", "oci-archive:", "oci:", "dir:")
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
"""This node's architecture, as uname and as the OCI image specification name it."""
RIGHTS = stat.S_ISUID | stat.S_ISGID
LOOK_INTO = stat.S_IRUSR | stat.S_IXUSR
CAPABILITIES = "security.capability"
FOLDERS = ("proc", "sys", "dev", "tmp", "home", "srv", paths.SPOOL_DIR.lstrip("/"))
EXAMPLES = """
It prints the path for --container; the same command again prints it at once.

  slurm-image pull docker://ubuntu:24.04
  srun --container=$(slurm-image pull docker://ubuntu:24.04) cat /etc/os-release
  slurm-image pull oci-archive:/home/alice/model.tar --name model
  sudo slurm-image pull docker://registry.example/team/tools:3 --shared     for everybody, in /srv/slurm-images
  slurm-image list
  slurm-image remove ubuntu-24.04

A registry that asks for a password: skopeo login --authfile ~/.docker/config.json registry.example
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
    shared = options.what != "list" and options.shared
    if shared and os.geteuid() != 0:
        raise Refused(f"{SHARED} is root's: sudo {PROGRAM} {' '.join(arguments)}")
    own = SHARED if shared else Path.home() / OWN
    if options.what == "list":
        for folder in (own, SHARED):
            for bundle in sorted(folder.glob("[!.]*")):
                print(bundle)
        return
    bundle = own / check_name(name_of(options.source) if options.what == "pull" and not options.name else options.name)
    if options.what == "remove":
        if not bundle.is_dir():
            raise Refused(f"{bundle} is not there; see {PROGRAM} list")
        delete(bundle)
        return
    if not bundle.is_dir() or options.replace:
        pull(options.source, bundle, insecure=options.insecure)
    else:
        check_source(bundle, options.source)
    print(bundle)


def parser() -> argparse.ArgumentParser:
    """The command line."""
    shape = argparse.RawDescriptionHelpFormatter
    top = argparse.ArgumentParser(
        PROGRAM, description="Container images for srun --container.", epilog=EXAMPLES, formatter_class=shape
    )
    kinds = top.add_subparsers(dest="what", required=True)
    get = kinds.add_parser("pull", help="fetch and unpack an image", epilog=EXAMPLES, formatter_class=shape)
    get.add_argument("source", help=f"one of {'…, '.join(SOURCES)}…")
    get.add_argument("--name", help="of the bundle, the folder that it is unpacked to; else made from the source")
    get.add_argument("--shared", action="store_true", help=f"for everybody, in {SHARED}; as root")
    get.add_argument("--replace", action="store_true", help="pull again what is there; not while jobs use it")
    get.add_argument("--insecure", action="store_true", help="a registry without TLS, or with a certificate of its own")
    kinds.add_parser("list", help="paths of your images and the shared ones")
    drop = kinds.add_parser("remove", help="delete an image")
    drop.add_argument("name", help="of the bundle: the end of its path")
    drop.add_argument("--shared", action="store_true", help=f"one of {SHARED}; as root")
    return top


def check_name(name: str) -> str:
    """Returns the name of a bundle.

    Raises:
        Refused: the name would lead to another folder.
    """
    if not NAME.fullmatch(name):
        raise Refused(f"{name!r} is no name for an image: letters, digits, ., _ and -; give one with --name")
    return name


def name_of(source: str) -> str:
    """Returns a bundle's name for a source: docker://registry/team/tools:3 becomes tools-3.

    Raises:
        Refused: the source is of no kind that skopeo reads.
    """
    kind = next((prefix for prefix in SOURCES if source.startswith(prefix)), None)
    if kind is None:
        want = f"docker://{source}" if NAME.fullmatch(source.split(":")[0].split("/")[-1]) else f"one of {SOURCES}"
        raise Refused(f"{source}: where does it come from? For instance {want}")
    last = source[len(kind) :].rstrip("/").rpartition("/")[2]
    return re.sub(r"\.tar$", "", re.sub(r"[:@]", "-", last)).replace(".tar-", "-")


def whole(source: str) -> str:
    """Returns a source that means the same in every folder.

    Raises:
        Refused: the source is of no kind that skopeo reads.
    """
    name_of(source)
    kind, colon, path = source.partition(":")
    return source if path.startswith("/") else f"{kind}{colon}{Path.cwd() / path}"


def check_source(bundle: Path, source: str) -> None:
    """Checks that an existing bundle came from this source: names only have a source's last part.

    Raises:
        Refused: it came from another one.
    """
    try:
        noted = (bundle / NOTE).read_text().rstrip("\n")
    except FileNotFoundError:  # it has no note of its source, or was not made here
        return
    if noted != whole(source):
        raise Refused(
            f"{bundle} is {noted}, and you ask for {whole(source)}: give it another name with --name,"
            " or have it in the other's place with --replace"
        )


def pull(source: str, bundle: Path, *, insecure: bool) -> None:
    """Makes a bundle in a temporary folder, and renames it when it is complete.

    Raises:
        Refused: skopeo or umoci failed and printed why, or the image is for another architecture.
    """
    noted = whole(source)
    aside = bundle.with_name(f".pulling-{bundle.name}-{os.getpid()}")
    aside.mkdir(parents=True, mode=0o755)
    try:
        trust = ["--src-tls-verify=false"] if insecure else []
        show("skopeo", "copy", *trust, source, f"oci:{aside}/image:image")
        check_architecture(aside / "image", source)
        rootless = [] if os.geteuid() == 0 else ["--rootless"]
        show("umoci", "unpack", *rootless, "--image", f"{aside}/image:image", f"{aside}/bundle")
        take_rights_away(aside / "bundle/rootfs")
        make_places(aside / "bundle/rootfs")
        (aside / "bundle" / NOTE).write_text(f"{noted}\n")
        # umoci makes it readable for its owner only.
        (aside / "bundle").chmod(0o755)
        if bundle.exists():
            bundle.rename(aside / "old")
        (aside / "bundle").rename(bundle)
    finally:
        delete(aside)


def check_architecture(layout: Path, source: str) -> None:
    """Checks that this node can run an image.

    A registry's list has an image for each architecture, of which skopeo took the right one.

    Args:
        layout: the image as skopeo wrote it (OCI image-spec, image-layout.md).
        source: what it was copied from.

    Raises:
        Refused: it is for another architecture.
    """
    index = json.loads((layout / "index.json").read_text())
    config = blob(layout, blob(layout, index["manifests"][0])["config"])
    here = ARCHITECTURES.get(platform.machine(), platform.machine())
    if config.get("architecture") not in (here, "", None):
        raise Refused(f"{source} is for {config['architecture']}, and this machine is {here}: nothing was kept")


def blob(layout: Path, descriptor: dict[str, Any]) -> dict[str, Any]:
    """Returns the JSON that a descriptor of an image layout points to."""
    parsed: dict[str, Any] = json.loads((layout / "blobs" / descriptor["digest"].replace(":", "/")).read_text())
    return parsed


def take_rights_away(root: Path) -> None:
    """Clears set-id bits and file capabilities, since users can run a bundle's programs outside of a container.

    With them, the maker of an image could give every user its puller's rights. Those are root's for a shared image. A
    container loses nothing: its root is the job's user anyway.
    """
    for folder, folders, files in os.walk(root, onerror=fail):
        for name in folders:
            inner = Path(folder, name)
            mode = inner.lstat().st_mode
            if stat.S_ISDIR(mode) and mode & LOOK_INTO != LOOK_INTO:
                # Others might read a folder that its owner may not.
                inner.chmod(stat.S_IMODE(mode) | LOOK_INTO)
        for name in files:
            path = Path(folder, name)
            mode = path.lstat().st_mode
            if not stat.S_ISREG(mode):
                continue
            if mode & RIGHTS:
                path.chmod(stat.S_IMODE(mode) & ~RIGHTS)
            if CAPABILITIES in os.listxattr(path, follow_symlinks=False):
                os.removexattr(path, CAPABILITIES, follow_symlinks=False)


def fail(error: OSError) -> NoReturn:
    """Raises errors that a walk would ignore."""
    raise error


def make_places(root: Path) -> None:
    """Makes mount points, which users of a shared image can't make."""
    for name in FOLDERS:
        if not (root / name).is_symlink():
            (root / name).mkdir(parents=True, exist_ok=True)
    for path in container_plan.FILES:
        file = Path(f"{root}{path}")
        file.parent.mkdir(parents=True, exist_ok=True)
        if not file.is_symlink() and not file.exists():
            file.touch()


def show(*words: str) -> None:
    """Runs a program with its output on standard error, since standard output has only the path."""
    try:
        done = subprocess.run(words, stdin=subprocess.DEVNULL, stdout=sys.stderr, check=False)
    except FileNotFoundError:
        raise Refused(f"the jail has no {words[0]}: install its package") from None
    if done.returncode != 0:
        raise Refused(f"{words[0]} failed, nothing was kept: {' '.join(words)}")


def delete(folder: Path) -> None:
    """Deletes a folder, also where folders in it lack write permission for their owner, as in some images."""
    for path, names, _ in os.walk(folder):
        for name in names:
            inner = Path(path, name)
            if not inner.is_symlink():
                inner.chmod(0o700)
    shutil.rmtree(folder)
