"""Delays the registration of a node with GPUs until Slurm's own configuration finds all of them.

slurmctld drains a node that reports fewer, and the drain stays when the reason is gone. Two reasons pass by themselves.
The operator activates a new node set's lines of gres.conf some time after its first pod runs. And a driver may still be
loading. Other generic resources are waited for, too: slurmctld leaves those out that it does not know.
"""

import os
import re
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence

from slurm_node.pod.log import say

POLL_SECONDS = 3.0
REMIND_SECONDS = 30.0
SLURMD_SECONDS = 30

_RESOURCE = re.compile(r"\bGres Name=(\S+) .*\bCount=(\d+)\b(?:.*\bFile=(\S+))?")


def usable(printed: str, with_files: frozenset[str]) -> dict[str, int]:
    """Returns how many of each name `slurmd -G` finds.

    Args:
        printed: its output.
        with_files: names that count only with a device file: Slurm can't constrain others.
    """
    counts: dict[str, int] = {}
    for line in printed.splitlines():
        match = _RESOURCE.search(line)
        if match and (match[1] not in with_files or match[3] not in (None, "(null)")):
            counts[match[1]] = counts.get(match[1], 0) + int(match[2])
    return counts


def ask_slurmd(slurmd: Sequence[str], environment: dict[str, str]) -> str:
    """Returns the output of `slurmd -G`, which fetches the configuration, looks for devices, and does not register."""
    try:
        done = subprocess.run(
            [*slurmd, "-G"],
            env=os.environ | environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=SLURMD_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return ""
    return done.stdout + done.stderr


def wait(
    wanted: Mapping[str, int],
    with_files: frozenset[str],
    ask: Callable[[], str],
    set_state: Callable[[str], object],
    poll: float = POLL_SECONDS,
) -> None:
    """Waits until Slurm finds what the node should have. Log and readiness probe report the wait.

    Args:
        wanted: the node's generic resources, name → count.
        with_files: names of those with device files.
        ask: prints what Slurm finds.
        set_state: takes the sentence that the readiness probe shows.
        poll: seconds between two checks.
    """
    reminded = 0.0
    while lacking := _lacking(wanted, usable(ask(), with_files)):
        sentence = f"Slurm finds {lacking}: is gres.conf's line for this node set active, and the driver loaded?"
        set_state(sentence)
        if time.monotonic() - reminded >= REMIND_SECONDS or not reminded:
            say(f"not registering yet: {sentence}")
            reminded = time.monotonic()
        time.sleep(poll)  # Neither a driver nor slurmctld tells when it has them.


def _lacking(wanted: Mapping[str, int], counts: Mapping[str, int]) -> str:
    """Returns what is missing, as `3 of 4 GPUs, 0 of 2 fpga`; empty when all is there."""
    fewer = {name: counts.get(name, 0) for name, count in wanted.items() if counts.get(name, 0) < count}
    words = {"gpu": "GPUs"}
    return ", ".join(f"{count} of {wanted[name]} {words.get(name, name)}" for name, count in fewer.items())
