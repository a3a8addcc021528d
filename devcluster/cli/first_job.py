"""The real job at the end of `up`. It does not wait for nodes that users' jobs have."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Set
from typing import Final, Protocol

from devcluster.machine.progress import Step, StepFailed, say

NODES: Final = 2
NAME: Final = "devcluster-first-job"
COMMAND: Final = [
    *("srun", f"-N{NODES}", f"--job-name={NAME}"),
    *("sh", "-c", 'echo "$(hostname): $(id -un) in $(pwd), $(cat /etc/debian_version)"'),
]
DEADLINE_SECONDS: Final = 120
ASK_SECONDS: Final = 30
TIMED_OUT: Final = 124
"""Exit status with which timeout(1) says that the time was up."""
SINFO: Final = ["sinfo", "-h", "-N", "-o", "%P %N %T"]
IDLE: Final = frozenset({"idle"})
MAY_HAVE_ROOM: Final = IDLE | {"mixed"}
TAKEN: Final = frozenset({"allocated", "mixed", "completing", "draining", "planned"})


class Login(Protocol):
    """The way into the login nodes."""

    def run_command(self, command: list[str]) -> list[str]:
        """Return the command line that runs `command` there."""


def states(sinfo: str) -> dict[str, str]:
    """Return the default partition's nodes: name → state, without marks such as that of an unresponsive node."""
    rows = [line.split() for line in sinfo.splitlines()]
    return {node: state.rstrip("*~#!%$@^-+") for partition, node, state in rows if partition.endswith("*")}


def in_the_way(nodes: Mapping[str, str], free: Set[str]) -> list[str]:
    """Return the nodes that other jobs occupy, if too few are free for the first job.

    Args:
        nodes: to their states.
        free: the states in which a node counts as free.

    Returns:
        No nodes if enough are free, or if there are too few nodes even without jobs.
    """
    usable = {node for node, state in nodes.items() if state in free}
    taken = {node for node, state in nodes.items() if state in TAKEN} - usable
    return sorted(taken) if len(usable) < NODES <= len(usable | taken) else []


def run(login: Login) -> None:
    """Run the job as the ordinary user, over SSH, unless the jobs of others have the nodes. One line tells that.

    Raises:
        StepFailed: With the job's own words, when it fails, or does not run although no job has the nodes.
    """
    holders = _holders(login, MAY_HAVE_ROOM)
    if not holders:
        holders = _run(login)
    if holders:
        say(f"  first job: not run, since the nodes are taken by jobs {', '.join(holders)}")


def _run(login: Login) -> list[str]:
    with Step(f"first job: {' '.join(COMMAND[:2])} …") as step:
        done = _on(login, ["timeout", str(DEADLINE_SECONDS), *COMMAND], DEADLINE_SECONDS + ASK_SECONDS)
        for line in (done.stdout + done.stderr).splitlines():
            step.note(line)
        if done.returncode == 0:
            return []
        holders = _holders(login, IDLE) if done.returncode == TIMED_OUT else []
        if not holders:
            raise StepFailed(f"the first job ended with status {done.returncode}")
        return holders


def _holders(login: Login, free: Set[str]) -> list[str]:
    """Return the ids of the other jobs that occupy the nodes, without the first job itself, which may hang."""
    taken = in_the_way(states(_ask(login, SINFO)), free)
    if not taken:
        return []
    listed = _ask(
        login, ["squeue", "-h", "-t", "running,suspended,completing", "-w", ",".join(taken), "-o", "%i %j"]
    ).splitlines()
    return [number for number, _, name in (line.partition(" ") for line in listed) if name != NAME]


def _ask(login: Login, command: list[str]) -> str:
    done = _on(login, command, ASK_SECONDS)
    if done.returncode != 0:
        raise StepFailed(f"{command[0]} on a login node ended with status {done.returncode}: {done.stderr.strip()}")
    return done.stdout


def _on(login: Login, command: list[str], deadline_seconds: float) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        login.run_command(command), capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL,
        timeout=deadline_seconds,
    )  # fmt: skip
