"""Runs programs of the machine that may hang, print without an end or be missing."""

import os
from collections.abc import Sequence
from dataclasses import dataclass

from node_health.check import Machine

LONGEST = 1 << 20
"""Bytes of a program's output that are read. What follows is no answer to a question of ours."""


@dataclass(frozen=True, slots=True)
class Answered:
    """Output of a program and its exit code; None if there is no such program."""

    code: int | None
    printed: str = ""


def run(machine: Machine, command: Sequence[str]) -> Answered:
    """Runs a program of the machine without the caller's environment. The time box ends one that hangs.

    Args:
        machine: whose program.
        command: its absolute path, then arguments. No PATH is searched.

    Raises:
        ValueError: it printed more than any answer is long.
    """
    import subprocess

    program = machine.path(command[0])
    if not os.access(program, os.X_OK):
        return Answered(None)
    with subprocess.Popen(
        [str(program), *command[1:]],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={"LC_ALL": "C"},
    ) as process:  # fmt: skip
        assert process.stdout is not None
        assert process.stderr is not None
        printed = process.stdout.read(LONGEST + 1)
        if len(printed) > LONGEST:
            process.kill()
            raise ValueError(f"{command[0]} printed more than {LONGEST} bytes")
        # Warnings there are no part of an answer.
        printed = printed or process.stderr.read(LONGEST)
        code = process.wait()
    return Answered(code, printed.decode(errors="replace").strip())
