"""Shows on the Slurm node what its health checks say of it and its jobs. That affects neither jobs nor drains.

It is for the node's administrator, and the operator reads what is in contract/node_notes.py. It stands in the node's
field Extra (`scontrol show node`), not in Comment, which is the operator's and users'.
"""

from collections.abc import Callable, Mapping

from node_health import notes

from contract import node_notes, reasons
from slurm_node.conditions.drains import RETRY_SECONDS, plain, run_scontrol
from slurm_node.pod.log import say


class NodeExtra:
    """Keeps the note equal to the last run of the checks.

    Args:
        node_name: this node in Slurm.
        scontrol: runs scontrol with arguments; returns what it printed, or None when slurmctld does not answer.
    """

    def __init__(self, node_name: str, scontrol: Callable[..., str | None] = run_scontrol) -> None:
        self._node_name = node_name
        self._scontrol = scontrol
        self._told: tuple[str, frozenset[str]] | None = None
        self._next = 0.0

    def tick(self, now: float, warnings: Mapping[str, str] | None, facts: str = "") -> None:
        """Called about twice a second. Calls scontrol only when another set of checks warns, or facts have changed.

        Numbers in their sentences change with every run, and slurmctld sends each change of a node to all its watchers.

        Args:
            now: seconds of a clock that only goes forward.
            warnings: check → evidence; None before the first run.
            facts: notes for programs (contract/node_notes.py), which change seldom; empty without any.
        """
        if warnings is None or now < self._next or (facts, frozenset(warnings)) == self._told:
            return
        if self._write(warnings, facts):
            self._told = (facts, frozenset(warnings))
        else:
            self._next = now + RETRY_SECONDS

    def _write(self, warnings: Mapping[str, str], facts: str) -> bool:
        """Writes the note, unless somebody else's is there; False when slurmctld did not answer."""
        printed = self._scontrol("-o", "show", "node", self._node_name)
        if printed is None:
            return False
        written, ours = " Extra=" in printed, any(f" Extra={begin}" in printed for begin in node_notes.BEGINNINGS)
        if ours != written or not (ours or warnings or facts):
            return True
        warned = plain("; ".join(f"{check}: {why}" for check, why in warnings.items()))
        note = notes.joined((facts, warned and reasons.WARNING + warned))
        say(f"the node's note: {note}" if note else "the node's note is taken back: no check warns any more")
        return self._scontrol("update", f"nodename={self._node_name}", f"extra={note}") is not None
