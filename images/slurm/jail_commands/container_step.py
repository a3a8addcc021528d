"""Runs one task of a `--container` step by rootless crun, as the user, inside the job. oci.conf names it.

Slurm itself ignores the bundle (IgnoreFileConfigJson): slurmstepd would look for it outside of the jail, and run the
jail's crun as root to query states.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from jail_commands import container_plan
from jail_commands.container_plan import Step
from jail_commands.running import Refused, outcome

FIRST_KEPT = 3
"""The first descriptor after stdin, stdout and stderr. Crun closes all that it is not told to keep."""
PROGRAM = "srun --container"
ALLOWED = ("--no-new-keyring", "--no-pivot")
"""Container runtimes' default seccomp profile refuses keyrings and pivot_root to a pod, and so to its jobs."""


def main() -> int:
    """Runs the step, or prints the reason and returns 1."""
    return outcome(PROGRAM, command, sys.argv[1:])


def command(arguments: Sequence[str]) -> None:
    """Becomes crun.

    Args:
        arguments: the bundle, the file with the job's variables, the job's folder, a name, then the command.

    Raises:
        Refused: there is no such bundle, or no crun.
    """
    named, variables, folder, name, *words = arguments
    bundle = Path(folder, named)
    root, wanted = read_bundle(bundle)
    environment = read_variables(Path(variables))
    kept = keep_pmi(environment)
    step = Step(
        uid=os.getuid(),
        gid=os.getgid(),
        command=words,
        environment={**environment, **kept},
        working_folder=folder,
        data=visible(container_plan.data_folders(Path("/proc/self/mountinfo").read_text(errors="replace")), root),
    )
    crun = shutil.which("crun")
    if crun is None:
        raise Refused("the jail has no crun: install its package")
    made = container_plan.configuration(wanted, str(root), step, lambda path: os.path.lexists(f"{root}{path}"))
    # A file without a name, so that nothing is left behind.
    file = os.memfd_create("config.json", 0)
    os.write(file, json.dumps(made).encode())
    state = f"--root={container_plan.TMP}/.crun-{step.uid}"
    run = ["run", *ALLOWED, f"--preserve-fds={len(kept)}", f"--config=/proc/self/fd/{file}", f"--bundle={bundle}", name]
    # Without PATH crun finds no newuidmap, which lacks capabilities in a job, and maps the id itself.
    os.execve(crun, ["crun", state, "--cgroup-manager=disabled", *run], {"PATH": ""})  # noqa: S606 - no shell


def keep_pmi(environment: Mapping[str, str]) -> dict[str, str]:
    """Moves a rank's PMI2 connection (srun --mpi=pmi2) to the descriptor that crun leaves open.

    Returns:
        Value for its variable; nothing if there is no connection.
    """
    try:
        os.dup2(int(environment["PMI_FD"]), FIRST_KEPT)
    except (KeyError, ValueError, OSError):
        return {}
    return {"PMI_FD": str(FIRST_KEPT)}


def read_bundle(bundle: Path) -> tuple[Path, dict[str, object]]:
    """Returns the folder of a bundle's files and its configuration.

    Raises:
        Refused: it is no bundle, or this user may not read it.
    """
    try:
        wanted = json.loads((bundle / "config.json").read_text())
        root = bundle / wanted["root"]["path"]
        list(os.scandir(root))
    except FileNotFoundError:
        raise Refused(f"{bundle} is no bundle: slurm-image pull makes one and prints its path") from None
    except PermissionError as error:
        raise Refused(f"{error.filename} is not yours to read: pull the image yourself with slurm-image") from None
    except (ValueError, KeyError, TypeError, NotADirectoryError) as error:
        raise Refused(f"{bundle}/config.json is no configuration of a container: {error}") from None
    return root, wanted


def visible(folders: Sequence[str], root: Path) -> list[str]:
    """Returns the folders that can be mounted. In somebody else's image only those whose mount point exists."""
    return [path for path in folders if os.access(root, os.W_OK) or Path(f"{root}{path}").is_dir()]


def read_variables(file: Path) -> dict[str, str]:
    """Returns the job's variables from Slurm's file, whose entries end with NUL."""
    entries = file.read_bytes().decode(errors="surrogateescape").split("\0")
    return dict(entry.split("=", 1) for entry in entries if "=" in entry)
