"""The pod's log."""

import sys

from contract.printable import printable


class NodeError(Exception):
    """A pod can't do its work; the text is one sentence for the administrator, with what to change."""


def say(sentence: str) -> None:
    """Writes one line to the container's log, at once. Users choose names in it, which must act on no terminal."""
    print(f"slurm-node: {printable(sentence)}", file=sys.stderr, flush=True)
