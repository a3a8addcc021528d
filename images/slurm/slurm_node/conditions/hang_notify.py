"""Sends a message to jobs that seem to hang, in the operator's words: slurmrestd has no call for it."""

import re
from collections.abc import Callable, Collection

from contract import node_notes
from slurm_node.conditions.drains import plain, run_scontrol

LOOK_SECONDS = 60.0
"""Time between two looks at the same job."""
SOON_SECONDS = 20.0
"""The same until the operator has noted the job: it queues a job again half a minute later, and the job ends here."""


class HangNotifier:
    """Sends what the operator has noted about a job to the job, once for each note that names this node.

    Args:
        node_name: this node in Slurm.
        scontrol: runs scontrol with arguments; returns what it printed, or None when slurmctld does not answer.
    """

    def __init__(self, node_name: str, scontrol: Callable[..., str | None] = run_scontrol) -> None:
        self._node_name = node_name
        self._scontrol = scontrol
        self._next: dict[int, float] = {}
        self._told: dict[int, str] = {}

    def tick(self, now: float, quiet: Collection[int]) -> None:
        """Called about twice a second. Looks at one job at most, since each look may wait for slurmctld.

        Args:
            now: seconds of a clock that only goes forward.
            quiet: jobs that this node has noted as quiet.
        """
        self._next = {job: at for job, at in self._next.items() if job in quiet}
        self._told = {job: note for job, note in self._told.items() if job in quiet}
        job = min(quiet, key=lambda job: (self._next.get(job, 0.0), job), default=None)
        if job is None or now < self._next.get(job, 0.0):
            return
        record = self._scontrol("-o", "show", "job", str(job)) or ""
        self._next[job] = now + (LOOK_SECONDS if node_notes.HANGS in record else SOON_SECONDS)
        note = noted(record, self._node_name)
        # It counts as told even if that fails: a job whose srun is gone can't be told.
        if note and self._told.get(job) != note:
            self._told[job] = note
            self._scontrol("notify", str(job), plain(note))


def noted(record: str, node_name: str) -> str:
    """Returns the operator's words to a job, if this node is to tell them; else nothing.

    Args:
        record: what ``scontrol -o show job JOB`` printed.
        node_name: this node in Slurm.
    """
    told = re.search(rf" AdminComment={node_notes.HANGS}(.*?), told by (\S+)(?: \w+=.*)?\s*$", record)
    return f"this job seems to hang: {told[1]}" if told and told[2] == node_name else ""
