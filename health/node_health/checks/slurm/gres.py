"""Checks that the device files of the declared GPUs are in the pod, as gres.conf names them."""

import re

from contract import names, reasons
from node_health.check import Applies, CannotJudgeError, Check, Machine
from node_health.verdict import Action, Finding, fails, passes

CONF = f"/run/slurm/conf/{names.GRES_CONF}"
"""The configuration that the node has fetched."""
NVIDIA = "/dev/nvidia"
_FILES = re.compile(r"\b(?:File|MultipleFiles)=(\S+)")
_RANGE = re.compile(r"\[([\d,-]+)\]")


def look(machine: Machine) -> tuple[list[str], list[str]]:
    """Returns the device files that are named for this node, and those of them that are missing."""
    node_set = machine.text("/proc/sys/kernel/hostname").rpartition("-")[0]
    lines = [line for line in machine.text(CONF).splitlines() if line.startswith(f"NodeName={node_set}-[")]
    if not lines:
        raise CannotJudgeError(f"gres.conf has no line for nodes of the set {node_set}")
    files = [file for line in lines for file in files_of(line)]
    if not any("Name=gpu" in line for line in lines):
        # Slurm finds NVIDIA's GPUs by itself, whatever numbers the pod's files have.
        devices = [f"{NVIDIA}{file.name.removeprefix('nvidia')}" for file in machine.path("/dev").glob("nvidia[0-9]*")]
        files += devices + [f"{NVIDIA}*"] * (machine.declared.gpus - len(devices))
    files = list(dict.fromkeys(files)) if machine.declared.mig else files
    return files, [file for file in files if not machine.path(file).exists()]


def files_of(line: str) -> list[str]:
    """Returns the device files that a line of gres.conf names."""
    match = _FILES.search(line)
    return expand(match[1]) if match else []


def expand(named: str) -> list[str]:
    """Returns the files that a value of File= or MultipleFiles= names, such as /dev/nvidia[0-3,7],/dev/x."""
    return [file for pattern in re.split(r",(?=/)", named) for file in _expand(pattern)]


def _expand(pattern: str) -> list[str]:
    if not (match := _RANGE.search(pattern)):
        return [pattern]
    ends = [part.partition("-") for part in match[1].split(",")]
    numbers = [number for first, _, last in ends for number in range(int(first), int(last or first) + 1)]
    return [f"{pattern[: match.start()]}{number}{pattern[match.end() :]}" for number in numbers]


def judge(files: tuple[list[str], list[str]], machine: Machine) -> Finding:
    """FAIL when a device file is missing, or there are fewer than GPUs declared.

    Args:
        files: the device files that are named for this node, and those of them that are missing.
        machine: whose declaration counts.
    """
    named, missing = files
    if missing:
        return fails(f"{len(missing)} of {len(named)} device files are missing: {', '.join(sorted(set(missing)))}")
    if len(named) < machine.declared.gpus:
        return fails(f"{len(named)} device files, {machine.declared.gpus} GPUs declared")
    return passes(f"{len(named)} device files are there")


CHECK = Check(
    reasons.Check.GRES,
    look,
    judge,
    fails="a device file of a declared GPU is missing",
    warns="",
    remedy="look at the device plugin, then restart the pod",
    action=Action.RESTART_VM,
    applies=Applies.GPUS,
)
