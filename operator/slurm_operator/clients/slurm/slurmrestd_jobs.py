"""Asks slurmrestd about single jobs, and has it change those that hang."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TypeVar
from urllib.parse import quote

from slurm_operator.clients.slurm import slurmrestd_answers as answers
from slurm_operator.clients.slurm import slurmrestd_records as records
from slurm_operator.clients.slurm.slurm_error import SlurmError, Trouble
from slurm_operator.clients.slurm.slurmrestd_connection import Connection
from slurm_operator.state.slurm import SeenQuietJob

_UNKNOWN_JOB = 2017
"""ESLURM_INVALID_JOB_ID."""

_A = TypeVar("_A", answers.Jobs, answers.CheckJobs, answers.QuietJobs, answers.States)


class HangingJobs(Connection):
    """Calls about jobs that hang."""

    async def record_count(self, job_id: int) -> int:
        """Return how many records slurmrestd would read with a job: of an array's last task, those of all tasks.

        Waiting tasks have a row each, with the number of the one record that they share.
        """
        answer = await self._known_job(answers.States, "job_states", f"/jobs/state/?job_id={job_id}")
        rows = answers.listed("jobs", answer.jobs) if answer else []
        return len({str(row.job_id).partition("_")[0] for row in rows})

    async def quiet_job(self, job_id: int) -> SeenQuietJob | None:
        """Read a job that a node noted as quiet; None if slurmctld has forgotten it."""
        answer = await self._about_job(answers.QuietJobs, str(job_id))
        jobs = [records.quiet_job(item) for item in answers.listed("job", answer.jobs)] if answer else []
        return next((job for job in jobs if job.job_id == job_id), None)

    async def comment_job(self, job_id: int, text: str) -> None:
        """Set a job's AdminComment, which its user can't; an empty text takes it away."""
        await self._call("comment_job", "POST", f"/job/{job_id}", {"admin_comment": text})

    async def requeue_held(self, job_id: int) -> None:
        """End a job that has not ended, and queue it again on hold; Slurm refuses one that may not be requeued."""
        wanted = {"jobs": [str(job_id)], "flags": ["Incomplete", "Hold"]}
        await self._call("requeue_held", "POST", "/jobs/requeue", wanted)

    async def exclude_nodes(self, job_id: int, nodes: Sequence[str]) -> None:
        """Have a waiting job run on none of these nodes, and at once: without its wait after a requeue.

        That wait (requeue_delay, two minutes) is for credentials of its earlier run, which these nodes still know.
        """
        now = {"set": True, "infinite": False, "number": int(time.time())}
        wanted = {"excluded_nodes": [*nodes], "begin_time": now}
        await self._call("exclude_nodes", "POST", f"/job/{job_id}", wanted)

    async def _about_job(self, kind: type[_A], number: str) -> _A | None:
        """Read what slurmctld says of a job; None if it has forgotten it.

        Without flags slurmrestd asks for DETAIL as well: each core of each node, and GRES (26.05, _handle_job_get).
        """
        return await self._known_job(kind, "job", f"/job/{quote(number, safe='')}?flags=ALL")

    async def _known_job(self, kind: type[_A], call: str, path: str) -> _A | None:
        try:
            answer = await self._read_as(kind, call, path)
        except SlurmError as error:
            if error.reason is Trouble.REFUSED and _UNKNOWN_JOB in error.numbers:
                return None
            raise
        if answer is None:
            raise SlurmError(Trouble.UNUSABLE, f"{call}: 'not modified' without a question about changes")
        return answer
