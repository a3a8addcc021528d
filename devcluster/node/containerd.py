"""Images in the containerd of a node."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from devcluster.machine.progress import StepFailed
from devcluster.node.instance import Instance, enter_command
from devcluster.node.plan.facts import CONTAINERD_SOCKET

IMPORT_SECONDS = 600
_CTR = ("ctr", "--address", CONTAINERD_SOCKET, "--namespace", "k8s.io")


def load_image(instance: Instance, archive: Path) -> list[str]:
    """Import an image archive (docker or OCI) into the node, unless this very file is there already.

    Returns:
        The names of the images in it.

    Raises:
        StepFailed: when it is no image archive, does not fit on the disk, or takes too long.
    """
    record = instance.state / "loaded-images.json"
    loaded: dict[str, list[str]] = json.loads(record.read_text()) if record.exists() else {}
    facts = archive.stat()
    key = f"{archive.resolve()} {facts.st_size} {facts.st_mtime_ns}"
    present = set(ctr(instance, "images", "ls", "-q").split())
    if key in loaded and set(loaded[key]) <= present:
        return loaded[key]
    with archive.open("rb") as content:
        try:
            said = subprocess.run(
                enter_command(instance, [*_CTR, "images", "import", "-"]),
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
    done = subprocess.run(
        enter_command(instance, [*_CTR, *arguments]), capture_output=True, text=True, timeout=60, check=False
    )
    if done.returncode != 0:
        raise StepFailed(f"ctr {' '.join(arguments)}: {done.stderr.strip()}", instance.logs / "containerd.log")
    return done.stdout
