"""How the commands run others, and how they stop: with a sentence, never with a traceback."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Sequence

SECONDS = 60.0


class Refused(Exception):
    """The command stops; the text says why and what would be right."""


def run(*words: str, seconds: float = SECONDS) -> str:
    """Runs a program and returns what it printed.

    Raises:
        Refused: it is not there, failed, or took too long; with its own words.
    """
    try:
        done = subprocess.run(
            words, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=seconds, check=False
        )
    except FileNotFoundError:
        raise Refused(f"the jail has no {words[0]}: install its package") from None
    except subprocess.TimeoutExpired:
        raise Refused(f"{' '.join(words)} was not done after {seconds:.0f} s") from None
    if done.returncode != 0:
        raise Refused(f"{' '.join(words)} failed: {(done.stderr or done.stdout).strip()}")
    return done.stdout


def outcome(name: str, command: Callable[[Sequence[str]], None], arguments: Sequence[str]) -> int:
    """Runs a command line and returns its exit status; a refusal is printed as a sentence."""
    try:
        command(arguments)
    except (Refused, OSError) as error:
        print(f"{name}: {error}", file=sys.stderr)
        return 1
    return 0
