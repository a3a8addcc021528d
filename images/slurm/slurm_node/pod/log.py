"""The pod's log."""

import sys


class NodeError(Exception):
    """A pod can't do its work; the text is one sentence for the administrator, with what to change."""


def say(sentence: str) -> None:
    """Writes one line to the container's log, at once."""
    print(f"slurm-node: {sentence}", file=sys.stderr, flush=True)
