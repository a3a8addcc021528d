"""The jail image's root file system as the populate container sees it, and whether it can be a jail."""

import os
from collections.abc import Iterator
from pathlib import Path

from slurm_node.pod.log import NodeError

MOST_LINKS = 40
"""Most symbolic links in a path, like the kernel's limit (path_resolution(7))."""
ELF_MACHINE_AT = slice(18, 20)
SPLIT = ("usr", "usr/lib", "usr/share", "usr/local", "opt")
"""Large folders, copied entry by entry, so that an interrupted copy has less to repeat."""
LEFT_OUT = ("proc", "sys", "dev", "run", "tmp", "etc/hosts", "etc/hostname", "etc/resolv.conf")
"""Paths that belong to a container or a node, not to an image."""


def inside(root: Path, path: str) -> Path | None:
    """Resolves a path as a process whose root is ``root`` would; None if there is nothing."""
    current, rest, followed = root, [part for part in Path(path).parts if part != "/"], 0
    while rest:
        part = rest.pop(0)
        if part == "..":
            current = current if current == root else current.parent
            continue
        step = current / part
        if step.is_symlink():
            followed += 1
            if followed > MOST_LINKS:
                return None
            target = step.readlink()
            current = root if target.is_absolute() else current
            rest = [*(step for step in target.parts if step != "/"), *rest]
            continue
        if not step.exists():
            return None
        current = step
    return current


def check(root: Path, own_program: Path = Path("/proc/self/exe")) -> None:
    """Checks that the image can be a jail.

    Raises:
        NodeError: it has no shell, or is made for another processor.
    """
    shell = inside(root, "/bin/sh")
    if shell is None or not shell.is_file():
        raise NodeError("the jail image has no /bin/sh: jobs and logins need a shell; set pulumi-slurm:jail.image")
    theirs, ours = machine(shell), machine(own_program)
    if theirs != ours:
        raise NodeError(
            f"the jail image is for another processor (its /bin/sh is ELF machine {theirs}, this node's is {ours})"
        )


def machine(program: Path) -> int:
    """Returns e_machine of an ELF file (elf(5)), 0 for another kind of file."""
    with program.open("rb") as file:
        head = file.read(20)
    return int.from_bytes(head[ELF_MACHINE_AT], "little") if head[:4] == b"\x7fELF" else 0


def chunks(root: Path) -> list[str]:
    """Returns paths that together make the image, each small enough to repeat its copy.

    A split folder's own entry comes before its parts, so that its owner and mode are set. The copier does not descend
    into it.
    """
    return list(_chunks_below(root, "", root.stat().st_dev))


def _chunks_below(root: Path, folder: str, device: int) -> Iterator[str]:
    for entry in sorted(os.scandir(root / folder), key=lambda listed: listed.name):
        path = f"{folder}/{entry.name}".lstrip("/")
        if path in LEFT_OUT or _is_mount(entry, device):
            continue
        yield path
        if path in SPLIT and entry.is_dir(follow_symlinks=False):
            yield from _chunks_below(root, path, device)


def _is_mount(entry: os.DirEntry[str], device: int) -> bool:
    # Folders only: on an overlay file system a file may report the device of its layer.
    return entry.is_dir(follow_symlinks=False) and entry.stat(follow_symlinks=False).st_dev != device
