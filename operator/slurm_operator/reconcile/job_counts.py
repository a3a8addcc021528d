"""Counts jobs now and then, so that the SlurmCluster's status can tell of them."""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable

from slurm_operator.clients.kubernetes import Object
from slurm_operator.clients.slurm.job_census import JobCensus
from slurm_operator.clients.slurm.job_listing import JobListing
from slurm_operator.decide.cluster import job_counts
from slurm_operator.reconcile.pass_budget import ACTED_AFTER_SECONDS
from slurm_operator.reconcile.pass_context import PassContext
from slurm_operator.state.slurm import Nodes, TooDeep, Unknown

COUNTED_SECONDS = 60.0
"""Between counts; each lists the states of all jobs and reads up to 200 that are new or have changed."""


class JobCounts:
    """The counts of one namespace's cluster. What it keeps spares work, and may be lost at any time."""

    def __init__(self, listing: JobListing, clock: Callable[[], float]) -> None:
        self._census = JobCensus(listing, clock)
        self._clock = clock
        self._counted = -math.inf
        self._latest: tuple[str, job_counts.Counts] | None = None
        """The cluster's uid, and its counts."""

    def told(self, body: Object) -> job_counts.Counts | None:
        """Return what the status of a SlurmCluster is to say of jobs; None as long as nobody has counted."""
        latest = self._latest[1] if self._latest and self._latest[0] == body["metadata"]["uid"] else None
        return job_counts.told(latest, body.get("status", {}).get("jobs"))

    async def count(self, now: PassContext, nodes: Nodes) -> None:
        """Count, unless that was done just before or the pass is late; without an answer the counts before stay."""
        seconds = now.budget.left(ACTED_AFTER_SECONDS)
        if not seconds or self._clock() < self._counted + COUNTED_SECONDS:
            return
        self._counted = self._clock()
        census = await self._census.take(now.rest, seconds)
        if not isinstance(census, Unknown) or isinstance(census, TooDeep):
            counts = job_counts.summary(census, now.seen, nodes, datetime.datetime.now(datetime.UTC))
            self._latest = (now.body["metadata"]["uid"], counts)
