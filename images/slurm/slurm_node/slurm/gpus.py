"""Delays the registration of a node with GPUs until Slurm's own configuration finds all of them.

slurmctld drains a node that reports fewer, and the drain stays when the reason is gone. Two reasons pass by themselves.
The operator activates a new node set's lines of gres.conf some time after its first pod runs. And a driver may still be
loading.
"""

import os
import re
import subprocess
import time
from collections.abc import Callable, Sequence

from slurm_node.pod.log import say
from slurm_node.pod.settings import gpu_count

POLL_SECONDS = 3.0
REMIND_SECONDS = 30.0
SLURMD_SECONDS = 30

_WITH_DEVICE = re.compile(r"\bGres Name=gpu\b.*\bCount=(\d+)\b.*\bFile=(?!\(null\))\S+")


def usable_gpus(printed: str) -> int:
    """Returns the number of GPUs with a device file in `slurmd -G`'s output. Slurm can't constrain others."""
    return sum(int(match[1]) for line in printed.splitlines() if (match := _WITH_DEVICE.search(line)))


def ask_slurmd(slurmd: Sequence[str], environment: dict[str, str]) -> str:
    """Returns the output of `slurmd -G`, which fetches the configuration, looks for GPUs, and does not register."""
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


def wait(gres: str, ask: Callable[[], str], set_state: Callable[[str], object], poll: float = POLL_SECONDS) -> None:
    """Waits until Slurm finds as many GPUs as the node should have. Log and readiness probe report the wait.

    Args:
        gres: the node's Gres.
        ask: prints what Slurm finds.
        set_state: takes the sentence that the readiness probe shows.
        poll: seconds between two checks.
    """
    reminded = 0.0
    while (count := usable_gpus(ask())) < gpu_count(gres):
        sentence = (
            f"Slurm finds {count} of {gpu_count(gres)} GPUs: is gres.conf's line for this node set active, and the"
            " driver loaded?"
        )
        set_state(sentence)
        if time.monotonic() - reminded >= REMIND_SECONDS or not reminded:
            say(f"not registering yet: {sentence}")
            reminded = time.monotonic()
        time.sleep(poll)
