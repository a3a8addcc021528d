"""Tells this node's jobs why no further step of theirs can start here, when a step can't tell it.

The plugin reports why it refuses a step. When Slurm would not load the plugin, or slurmd is stopped for that, no plugin
runs. srun then only prints the name of an error.
"""

import time
from collections.abc import Callable
from pathlib import Path

from slurm_node.conditions.drains import plain, run_scontrol
from slurm_node.conditions.jail_watch import PROBE_JOB
from slurm_node.pod import paths

WORDS = "this node can't run your job inside the jail: {}. No further step of it starts here; tell your administrator."
ROUND_SECONDS = 10.0
"""Deadline of a call: while slurmctld is away, the node's other work must go on."""


class JobNotifier:
    """Sends a sentence to each job of the node once.

    Args:
        scontrol: runs scontrol with arguments. `notify` writes to the standard error of a job's srun or salloc, or to
            that of its batch script (scontrol(1)).
        jobs: folder with a file for each job here (native/job/job.h).
    """

    def __init__(
        self,
        scontrol: Callable[..., str | None] = run_scontrol,
        jobs: Path = paths.JOBS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._scontrol = scontrol
        self._jobs = jobs
        self._clock = clock
        self._told: set[tuple[str, str]] = set()

    def tick(self, sentence: str | None) -> None:
        """Called about twice a second.

        Args:
            sentence: why Slurm would start no step in the jail; None while it starts them.
        """
        if sentence is None:
            return
        here = {file.name for file in self._jobs.glob("[0-9]*")} - {PROBE_JOB}
        self._told = {(job, said) for job, said in self._told if job in here}
        end = self._clock() + ROUND_SECONDS
        for job in sorted(here - {job for job, said in self._told if said == sentence}):
            if self._clock() >= end:
                return
            # No repeat after a failure: a job's file may outlive the job.
            self._told.add((job, sentence))
            self._scontrol("notify", job, WORDS.format(plain(sentence)))
