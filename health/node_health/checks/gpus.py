"""Checks with nvidia-smi that all GPUs are there, without memory errors that ECC can't correct."""

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

from node_health.node import Declared
from node_health.verdict import Finding, Verdict

PROGRAM = Path("/usr/bin/nvidia-smi")
"""Path at which NVIDIA's container toolkit mounts the node's nvidia-smi. PATH is not searched."""
FIELDS = ("index", "uuid", "ecc.errors.uncorrected.volatile.total")
"""Fields of nvidia-smi --help-query-gpu. Volatile: since the driver was loaded."""
MISUSED = frozenset({2, 3, 12, 127})
"""Exit codes about the query, not about the GPUs (nvidia-smi(1)).

Invalid argument, operation not available, no NVML library; 127: a library of the program itself is missing.
"""


@dataclass(frozen=True, slots=True)
class Asked:
    """Output of nvidia-smi and its exit code; None if there is no such program."""

    code: int | None
    printed: str = ""


def look(program: Path = PROGRAM) -> Asked:
    """Runs nvidia-smi. The time box ends one that hangs."""
    if not os.access(program, os.X_OK):
        return Asked(None)
    command = [str(program), f"--query-gpu={','.join(FIELDS)}", "--format=csv,noheader,nounits"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env={"LC_ALL": "C"})
    return Asked(done.returncode, (done.stdout or done.stderr).strip())


def judge(asked: Asked, declared: Declared) -> Finding:
    """FAIL when a GPU is gone, can't be queried, or had an uncorrectable error in its memory."""
    if not declared.gpus:
        return Finding(Verdict.PASS, "none declared")
    if asked.code is None:
        return Finding(Verdict.UNKNOWN, f"{declared.gpus} declared, and the pod has no nvidia-smi to ask")
    last = asked.printed.splitlines()[-1] if asked.printed else "nothing printed"
    if asked.code:
        verdict = Verdict.UNKNOWN if asked.code in MISUSED else Verdict.FAIL
        return Finding(verdict, f"nvidia-smi ended with {asked.code}: {last}")
    rows = [[word.strip() for word in line.split(",")] for line in asked.printed.splitlines()]
    if strange := next((row for row in rows if len(row) != len(FIELDS)), None):
        return Finding(Verdict.UNKNOWN, f"nvidia-smi printed {', '.join(strange)}")
    errors = [f"GPU {index} ({uuid}): {count}" for index, uuid, count in rows if count.isdigit() and int(count)]
    if len(rows) < declared.gpus:
        return Finding(Verdict.FAIL, f"{len(rows)} of {declared.gpus} GPUs answer")
    if errors:
        return Finding(Verdict.FAIL, f"uncorrectable memory errors since the driver was loaded: {', '.join(errors)}")
    counted = sum(count.isdigit() for _, _, count in rows)
    evidence = f"{len(rows)} GPUs answer, {declared.gpus} declared; {counted} count memory errors (ECC), and had none"
    return Finding(Verdict.PASS if len(rows) == declared.gpus else Verdict.WARNING, evidence)
