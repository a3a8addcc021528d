"""NVIDIA's container toolkit for a pod of a small cluster.

nvidia-ctk writes what the toolkit does: a CDI specification, with device files, mounts of the driver's files
and hooks. A container runtime carries it out; here it is this file: `python3 toolkit.py SPECIFICATION ROOT`.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

PROGRAM = "nvidia-ctk"
SECONDS = 60
LIBRARY_FOLDERS = ("/usr/local/nvidia/lib64",)
"""Where virtual machines of clouds have the driver, besides the toolkit's own list."""


class Refused(Exception):
    """The toolkit cannot tell; the text has its words."""


def describe(folder: Path) -> Path:
    """Returns the file of this machine's specification.

    Raises:
        Refused: there is no toolkit, or it fails.
    """
    program = shutil.which(PROGRAM)
    if program is None:
        raise Refused(f"there is no {PROGRAM}: NVIDIA's container toolkit is not installed")
    file = folder / "nvidia.json"
    searched = [f"--library-search-path={path}" for path in LIBRARY_FOLDERS if Path(path).is_dir()]
    hook = Path(program).with_name("nvidia-cdi-hook")
    hooks = [f"--nvidia-cdi-hook-path={hook}"] if hook.exists() else []
    done = subprocess.run(
        [program, "cdi", "generate", "--format=json", f"--output={file}", *searched, *hooks],
        capture_output=True, text=True, timeout=SECONDS, check=False,
    )  # fmt: skip
    if done.returncode != 0 or not file.exists():
        raise Refused(f"{PROGRAM} cdi generate: {done.stderr[-1000:]}")
    return file


def apply(specification: Mapping[str, Any], root: Path) -> None:
    """Gives all GPUs to the container with that root; the mount namespace must be its own."""
    (every,) = (device for device in specification["devices"] if device["name"] == "all")
    for edits in (specification.get("containerEdits", {}), every["containerEdits"]):
        for node in edits.get("deviceNodes", []):
            _bind(node.get("hostPath", node["path"]), root / node["path"].lstrip("/"))
        for mount in edits.get("mounts", []):
            _bind(mount["hostPath"], root / mount["containerPath"].lstrip("/"), *mount.get("options", []))
        for hook in edits.get("hooks", []):
            _run_hook(hook, root)


def _bind(source: str, target: Path, *options: str) -> None:
    if Path(source).is_dir():
        target.mkdir(parents=True, exist_ok=True)
    else:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.touch()
    subprocess.run(["mount", "--bind", source, target], check=True, timeout=SECONDS)
    flags = [option for option in options if option in ("ro", "nosuid", "nodev", "noexec")]
    if flags:
        subprocess.run(["mount", "-o", ",".join(["remount", "bind", *flags]), target], check=True, timeout=SECONDS)


def _run_hook(hook: Mapping[str, Any], root: Path) -> None:
    """Run a hook as a runtime does: it reads the container's state, and the root's path from config.json (OCI)."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as bundle:
        (Path(bundle) / "config.json").write_text(json.dumps({"ociVersion": "1.0.2", "root": {"path": str(root)}}))
        state = {"ociVersion": "1.0.2", "id": "pod", "status": "creating", "bundle": bundle}
        done = subprocess.run(
            [hook["path"], *hook.get("args", [])[1:]],
            input=json.dumps(state), capture_output=True, text=True, timeout=SECONDS, check=False,
            env=dict(_pair(line) for line in hook.get("env", [])),
        )  # fmt: skip
        if done.returncode != 0:
            sys.exit(f"{hook['args']}: {done.stderr}")


def _pair(line: str) -> tuple[str, str]:
    name, _, value = line.partition("=")
    return name, value


def mounted(specification: Mapping[str, Any]) -> Iterator[str]:
    """Yields the path of each of the driver's files in a container."""
    for mount in specification["containerEdits"]["mounts"]:
        yield mount["containerPath"]


if __name__ == "__main__":
    apply(json.loads(Path(sys.argv[1]).read_text()), Path(sys.argv[2]))
