"""nvidia-smi's answer, where the pod has the program but no NVML."""

from dataclasses import dataclass

from node_health.check import Machine
from node_health.sources import tool
from node_health.verdict import Finding, Verdict, fails, passes, unknown

PROGRAM = "/usr/bin/nvidia-smi"
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


def ask(machine: Machine, program: str = PROGRAM) -> Asked:
    """Runs nvidia-smi."""
    answered = tool.run(machine, [program, f"--query-gpu={','.join(FIELDS)}", "--format=csv,noheader,nounits"])
    return Asked(answered.code, answered.printed)


def judge(asked: Asked, declared: int) -> Finding:
    """FAIL when a GPU is gone, can't be queried, or had an uncorrectable error in its memory."""
    if asked.code is None:
        return unknown(f"{declared} declared, and the pod has neither NVML nor nvidia-smi to ask")
    last = asked.printed.splitlines()[-1] if asked.printed else "nothing printed"
    if asked.code:
        verdict = Verdict.UNKNOWN if asked.code in MISUSED else Verdict.FAIL
        return Finding(verdict, f"nvidia-smi ended with {asked.code}: {last}")
    rows = [[word.strip() for word in line.split(",")] for line in asked.printed.splitlines()]
    if strange := next((row for row in rows if len(row) != len(FIELDS)), None):
        return unknown(f"nvidia-smi printed {', '.join(strange)}")
    errors = [f"GPU {index} ({uuid}): {count}" for index, uuid, count in rows if count.isdigit() and int(count)]
    if len(rows) < declared:
        return fails(f"{len(rows)} of {declared} GPUs answer")
    if errors:
        return fails(f"uncorrectable memory errors since the driver was loaded: {', '.join(errors)}")
    counted = sum(count.isdigit() for _, _, count in rows)
    evidence = f"{len(rows)} GPUs answer, {declared} declared; {counted} count memory errors (ECC), and had none"
    return passes(evidence) if len(rows) == declared else Finding(Verdict.WARNING, evidence)
