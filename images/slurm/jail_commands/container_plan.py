"""Decides how a step runs in a container: a pure function from a bundle's configuration and the step to crun's."""

from __future__ import annotations

import os.path
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from contract import paths

TMP = "/tmp"  # noqa: S108 - the job's own
OF_THE_NODE = ("/proc", "/sys", "/dev", "/run", TMP, paths.PREFIX, "/etc", paths.SPOOL_DIR, "/root")
"""A job sees only its batch script of slurmd's spool."""
OF_THE_IMAGE = frozenset({"PATH", "LD_LIBRARY_PATH"})
"""Variables that name places in the image. The job's own values would be wrong there."""
FILES = ("/etc/resolv.conf", "/etc/hosts")

OURS = {"UCX_POSIX_USE_PROC_LINK": "n"}
"""UCX (MPICH's transport) shares memory by /proc/PID/fd, which ranks in containers may not open of each other."""


@dataclass(frozen=True)
class Step:
    """A task that runs in a container.

    Attributes:
        command: as Slurm found it in the jail: the first word may be a path there.
        environment: the job's variables.
        working_folder: of the job, in the jail.
        data: folders of the jail that the container sees at the same path.
    """

    uid: int
    gid: int
    command: Sequence[str]
    environment: Mapping[str, str]
    working_folder: str
    data: Sequence[str]


def data_folders(mountinfo: str) -> list[str]:
    """Returns where users' data is mounted in a job: persistent paths and submounts (proc(5): field 5)."""
    points = {line.split(" ")[4].replace("\\040", " ") for line in mountinfo.split("\n") if line}
    return sorted(point for point in points if point != "/" and not is_below(point, OF_THE_NODE))


def is_below(path: str, folders: Iterable[str]) -> bool:
    """Return whether a path is one of the folders, or inside one."""
    return any(PurePosixPath(path).is_relative_to(folder) for folder in folders)


def configuration(bundle: Mapping[str, Any], root: str, step: Step, in_image: Callable[[str], bool]) -> dict[str, Any]:
    """Returns the config.json with which crun runs the step.

    The user is the image's inside the container, and the job's outside. Only the namespaces that this needs are made.
    Processes, network and limits are the job's. A job may make no new namespace of cgroups or processes.

    Args:
        bundle: the bundle's config.json.
        root: the image's files.
        step: what runs.
        in_image: whether a path is a file of the image.
    """
    process = dict(bundle.get("process", {}))
    user = dict(process.get("user", {}))
    user.pop("additionalGids", None)
    shown = (TMP, *step.data)
    environment = variables(process.get("env", ()), step.environment)
    return {
        "ociVersion": bundle.get("ociVersion", "1.0.2"),
        "root": {"path": root},
        "process": {
            "terminal": False,  # srun's terminal, if it has one, is inherited
            "user": user or {"uid": 0, "gid": 0},
            "args": command(step, in_image),
            "env": [f"{name}={value}" for name, value in environment.items()],
            "cwd": step.working_folder if is_below(step.working_folder, shown) else process.get("cwd", "/"),
            "capabilities": process.get("capabilities", {}),
            "noNewPrivileges": True,
        },
        "mounts": mounts(bundle.get("mounts", ()), step.data),
        "linux": {
            "namespaces": [{"type": "user"}, {"type": "mount"}],
            "uidMappings": [{"containerID": user.get("uid", 0), "hostID": step.uid, "size": 1}],
            "gidMappings": [{"containerID": user.get("gid", 0), "hostID": step.gid, "size": 1}],
        },
    }


def variables(of_image: Iterable[str], of_job: Mapping[str, str]) -> dict[str, str]:
    """Returns the environment: ours, the image's, then the job's. The job's can't replace the image's own places."""
    image = dict(line.split("=", 1) for line in of_image if "=" in line)
    kept = {name: value for name, value in image.items() if name in OF_THE_IMAGE}
    others = {name: value for name, value in of_job.items() if name not in OF_THE_IMAGE}
    return {**OURS, **image, **others, **kept}


def command(step: Step, in_image: Callable[[str], bool]) -> list[str]:
    """Returns the command. Slurm resolved its first word in the jail. One that the image lacks is resolved again."""
    first, *rest = step.command
    seen = not first.startswith("/") or is_below(first, (TMP, paths.SPOOL_DIR, *step.data)) or in_image(first)
    return [first if seen else os.path.basename(first), *rest]  # noqa: PTH119 - a path elsewhere


def mounts(of_bundle: Iterable[Mapping[str, Any]], data: Iterable[str]) -> list[dict[str, Any]]:
    """Returns the mounts: the node's own, users' data, then the bundle's further ones."""
    ours = [
        *(bind(path, "rbind") for path in ("/proc", "/dev", TMP)),
        bind("/sys", "rbind", "ro"),
        bind(paths.SPOOL_DIR, "rbind", "ro"),
        *(bind(path, "bind", "ro") for path in FILES),
        *(bind(path, "rbind") for path in data),
    ]
    named = {mount["destination"] for mount in ours}
    system = ("/proc", "/sys", "/dev")
    theirs = [dict(mount) for mount in of_bundle if not is_below(mount["destination"], system)]
    return [*ours, *(mount for mount in theirs if mount["destination"] not in named)]


def bind(path: str, *options: str) -> dict[str, Any]:
    """Returns a mount that shows a path of the jail at the same place."""
    return {"destination": path, "type": "bind", "source": path, "options": list(options)}
