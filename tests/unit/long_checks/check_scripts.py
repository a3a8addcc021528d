"""Runs the scripts of builtin long checks on this machine, beside fakes of their tools."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from components.config.nodes.long_checks import LongCheck
from components.control import long_checks
from devcluster.fakes.gpu_scenario import PROGRAMS

ADDRESS = "192.0.2.1"
"""Of the node on which a check's script runs, as Slurm tells a step's tasks."""
NO_ADDRESS = 'while [ "${1#--}" != "$1" ]; do shift; done; exec "$@"'
"""A fake of srun that starts one task on this machine, and tells it no address."""
HERE = f"export SLURM_LAUNCH_NODE_IPADDR={ADDRESS}; {NO_ADDRESS}"
"""A fake of srun that starts one task on this machine."""


def status(
    folder: Path,
    tools: Mapping[str, str | None],
    scenario: str = "gpus 8\n",
    replace: Mapping[str, str] | None = None,
    **check: Any,
) -> int:
    """Return the exit status of a check.

    Args:
        folder: for the script and the tools.
        tools: name of a program → its script for sh; None: the fake of devcluster/fakes. GPUs come with nvidia-smi.
        scenario: what the latter answer (devcluster/fakes/gpu_scenario.py).
        replace: text of the check's script → another, for what this machine lacks.
        check: fields of its configuration.
    """
    (folder / "scenario").write_text(scenario)
    for name, text in {"nvidia-smi": None, **tools}.items():
        if text is None:
            shutil.copy(PROGRAMS[name], folder / name)
        else:
            (folder / name).write_text(f"#!/bin/sh\n{text}\n")
            (folder / name).chmod(0o755)
    script = long_checks.script(LongCheck(name="a", partition="main", **check))
    for old, new in (replace or {}).items():
        assert old in script
        script = script.replace(old, new)
    (folder / "script").write_text(script)
    environment = {"PATH": f"{folder}:{os.environ['PATH']}", "FAKE_GPUS": str(folder / "scenario")}
    return subprocess.run(
        ["sh", folder / "script"], env=environment, timeout=60, check=False, capture_output=True
    ).returncode
