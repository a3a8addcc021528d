"""Images in the containerd of a node."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path

from devcluster.machine.progress import StepFailed
from devcluster.node.instance import Instance, enter_command
from devcluster.node.plan.facts import CONTAINERD_SOCKET

IMPORT_SECONDS = 600
RECORD = "loaded-images.json"
"""File beside a containerd's root: archive → names of its images."""


def ctr_command(socket: str = CONTAINERD_SOCKET) -> list[str]:
    """Return the beginning of ctr's command lines for a containerd of Kubernetes'."""
    return ["ctr", "--address", socket, "--namespace", "k8s.io"]


def load_image(instance: Instance, archive: Path) -> list[str]:
    """Import an image archive (docker or OCI) into the node, unless this very file is there already.

    Returns:
        The names of the images in it.

    Raises:
        StepFailed: when it is no image archive, does not fit on the disk, or takes too long.
    """
    return load(archive, instance.state / RECORD, enter_command(instance, ctr_command()))


def load(archive: Path, record: Path, ctr: Sequence[str]) -> list[str]:
    """Import an image archive by ctr, unless it is there already.

    Args:
        archive: The archive.
        record: File of what is imported.
        ctr: The beginning of the command line.

    Returns:
        The names of the images in it.

    Raises:
        StepFailed: when it is no image archive, does not fit on the disk, or takes too long.
    """
    loaded: dict[str, list[str]] = json.loads(record.read_text()) if record.exists() else {}
    facts = archive.stat()
    # Not by its time: an archive that is used stays young (images.py).
    key = f"{archive.resolve()} {facts.st_size} {facts.st_ino}"
    present = set(run([*ctr, "images", "ls", "-q"]).split())
    if key in loaded and set(loaded[key]) <= present:
        return loaded[key]
    with archive.open("rb") as content:
        try:
            said = subprocess.run(
                [*ctr, "images", "import", "-"],
                stdin=content,
                capture_output=True,
                text=True,
                timeout=IMPORT_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise StepFailed(
                f"loading {archive} took more than {IMPORT_SECONDS} s: end what else this machine runs, and start again"
            ) from None
    if said.returncode != 0:
        raise StepFailed(f"loading {archive}: {said.stderr.strip()}")
    names = [line.split()[1] for line in said.stdout.splitlines() if line.startswith("unpacking ")]
    loaded = {k: v for k, v in loaded.items() if not set(v) & set(names)} | {key: names}
    record.write_text(json.dumps(loaded, indent=1))
    return names


def ctr(instance: Instance, *arguments: str) -> str:
    """Return what ctr prints.

    Raises:
        StepFailed: it fails.
    """
    try:
        return run(enter_command(instance, [*ctr_command(), *arguments]))
    except StepFailed as error:
        raise StepFailed(str(error), instance.logs / "containerd.log") from None


def run(command: Sequence[str]) -> str:
    """Return what a command line of ctr prints.

    Raises:
        StepFailed: it fails.
    """
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    if done.returncode != 0:
        said = " ".join(command[command.index("ctr") :])
        raise StepFailed(f"{said}: {done.stderr.strip()}")
    return done.stdout
