"""The node's NVIDIA driver in the jail, without any file of it on the shared file system.

NVIDIA's container toolkit mounts the files of the node's driver, one by one, into the pod's own root. The shared root
has links of fixed names in its default library directory: libcuda.so.1 → /run/node/driver/lib/libcuda.so.1. The links
are the same on every node, and their targets are in each node's own memory. So nodes with different drivers share a
root. No ld.so.cache has to list a version: the dynamic loader searches the default directory anyway.
"""

import platform
import re
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from slurm_node.pod import paths, resolve_beneath
from slurm_node.pod.log import NodeError, say
from slurm_node.pod.system import MountFlag, mount, opened_inside, points_of

SONAMES = (
    "libcuda.so.1",
    "libcudadebugger.so.1",
    "libnvidia-ml.so.1",
    "libnvidia-cfg.so.1",
    "libnvidia-nvvm.so.4",
    "libnvidia-opencl.so.1",
    "libnvidia-ptxjitcompiler.so.1",
    "libnvidia-allocator.so.1",
)
"""Libraries that programs load by name, from the driver's parts in components/slurm/node_set.py (compute, utility)."""
PROGRAMS = (
    "nvidia-smi",
    "nvidia-debugdump",
    "nvidia-persistenced",
    "nvidia-cuda-mps-control",
    "nvidia-cuda-mps-server",
)
PROGRAM_FOLDER = "usr/bin"
POLL_SECONDS = 2.0
_LIBRARY = re.compile(r"lib(cuda|nvidia|nvcuvid|nvoptix)[\w-]*\.so(\.[\d.]+)?")
_NO_PROGRAM = "#!/bin/sh\necho 'no NVIDIA driver on this node' >&2\nexit 1\n"


def library_folders(machine: str = platform.machine()) -> tuple[str, ...]:
    """Returns default library directories, those of Debian first, then those of Red Hat."""
    return (f"usr/lib/{machine}-linux-gnu", "usr/lib64")


def put_by_toolkit(mountinfo: str) -> list[Path]:
    """Returns the driver's files in the pod from its mount table, where each is a mount."""
    return [
        point
        for point in points_of(mountinfo)
        if not point.is_relative_to(paths.TREE) and (_LIBRARY.fullmatch(point.name) or point.name in PROGRAMS)
    ]


def library_for(soname: str, names: list[str]) -> str | None:
    """Returns the file that a name such as libcuda.so.1 stands for: libcuda.so.570.86.15."""
    stem = soname[: soname.index(".so")] + ".so."
    return soname if soname in names else next((name for name in names if name.startswith(stem)), None)


def link(root: Path, tell: Callable[[str], None] = say) -> None:
    """Makes the links of fixed names in a root. A file with such a name stays as it is.

    Called when a root is made, when a node starts, and while it runs. An image build, a package or a person may have
    removed or replaced links. A folder that is a symbolic link gets none: nothing is written through a link.

    Args:
        root: the root, or a node's view of it.
        tell: called with a sentence for each thing that keeps programs from the node's driver.

    Raises:
        OSError: the root can't be read or written.
    """
    for folder in library_folders():
        if _link_into(root, folder, {name: paths.DRIVER / "lib" / name for name in SONAMES}, tell):
            break
    _link_into(root, PROGRAM_FOLDER, {name: paths.DRIVER / "bin" / name for name in PROGRAMS}, tell)


class Links:
    """Checks the links of a root in use again and again, and reports each sentence once.

    Args:
        root: the node's view of the root.
    """

    def __init__(self, root: Path = paths.TREE) -> None:
        self._root = root
        self._told: list[str] = []

    def tick(self) -> None:
        """Corrects wrong links. It takes as long as the storage does."""
        sentences: list[str] = []
        try:
            link(self._root, sentences.append)
        except OSError as error:
            sentences.append(f"the links to the node's driver can't be looked after: {error}")
        for sentence in sentences:
            if sentence not in self._told:
                say(sentence)
        self._told = sentences


def main() -> int:
    """Maintains the links while a node with a driver runs.

    It is a process of its own, so that nothing else waits for storage that hangs.
    """
    links = Links()
    while True:
        links.tick()
        time.sleep(POLL_SECONDS)  # inotify does not report changes of shared storage by other nodes.


def _link_into(root: Path, folder: str, wanted: Mapping[str, Path], tell: Callable[[str], None]) -> bool:
    """Makes the links in a folder of the root; returns whether the folder exists."""
    try:
        with resolve_beneath.in_words(f"/{folder}"), opened_inside(root, f"/{folder}/.") as opened:
            for name, target in wanted.items():
                there = _entry(opened / name)
                if there is None or there not in (target, opened / name):
                    resolve_beneath.put_link(opened, name, target)
                    if there is not None:
                        say(f"/{folder}/{name} led to {str(there)!r}: now it leads to each node's own driver")
                elif there != target:
                    tell(f"/{folder}/{name} is a file of the root's own: programs don't find this node's driver there")
    except FileNotFoundError:
        return False
    except NodeError as error:
        tell(f"no links to the node's driver in /{folder}: {error}")
        return False
    return True


def _entry(path: Path) -> Path | None:
    """Returns a link's target, the path itself for a file, None if there is nothing. It takes one system call."""
    try:
        return path.readlink()
    except FileNotFoundError:
        return None
    except OSError:  # EINVAL: not a link
        return path


def bring(tree: Path, mountinfo: str) -> None:
    """Fills this node's driver folder, and corrects the root's links.

    Args:
        tree: the node's view of the jail, with its own /run.
        mountinfo: the mount table, from before or after the tree was built.
    """
    files = put_by_toolkit(mountinfo)
    with resolve_beneath.folder(tree, str(paths.DRIVER)) as folder:
        _fill(folder, files)
    link(tree)
    if files:
        say(f"the node's NVIDIA driver is in the jail's view: {len(files)} files")


def _fill(folder: Path, files: list[Path]) -> None:
    for name in ("lib", "bin"):
        (folder / name).mkdir(exist_ok=True)
    for file in files:
        target = folder / ("bin" if file.name in PROGRAMS else "lib") / file.name
        if not target.exists():
            target.touch()
            mount(str(file), target, flags=MountFlag.BIND)
    names = sorted(file.name for file in files if file.name not in PROGRAMS)
    for soname in SONAMES:
        library, path = library_for(soname, names), folder / "lib" / soname
        if library != soname and not path.is_symlink():
            path.symlink_to(library or paths.NO_DRIVER)
    for name in PROGRAMS:
        program = folder / "bin" / name
        if not program.exists():
            program.write_text(_NO_PROGRAM)
            program.chmod(0o755)
