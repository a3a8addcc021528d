"""Writes Slurm's state and the checks' verdicts on the workers' pods, a few in each pass, and after everything else."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Sequence

import httpx

from slurm_operator import execute, metrics
from slurm_operator.clients.kubernetes import KubernetesError
from slurm_operator.decide.nodes import pod_conditions
from slurm_operator.decide.nodes.pod_conditions import Told
from slurm_operator.findings import Finding
from slurm_operator.reconcile.growing_pause import GrowingPause
from slurm_operator.report import Reporter
from slurm_operator.state.kubernetes import Pod
from slurm_operator.state.slurm import Nodes

log = logging.getLogger(__name__)

PER_PASS = 50
PASS_SECONDS = 2.0
"""Time that a pass spends on these conditions at most."""
_AT_ONCE = 10
_MOOT = frozenset({httpx.codes.NOT_FOUND, httpx.codes.CONFLICT})
"""Answers that mean: the pod is gone, or another one has its name."""


class PodConditions:
    """The conditions of one namespace's workers.

    Attributes:
        problems: why they could not be written last.
    """

    def __init__(self, reporter: Reporter) -> None:
        self.problems: list[Finding] = []
        self._reporter = reporter
        self._last = ""
        self._refused = GrowingPause(first_seconds=10, longest_seconds=300)

    async def tell(self, pods: Iterable[Pod], nodes: Nodes) -> None:
        """Write what differs, within the pass's part of it.

        Raises:
            NotLeading: the lease is not ours any more.
        """
        told = pod_conditions.changes(pods, nodes, PER_PASS, self._last)
        if told and self.problems and not self._refused.is_over("write"):
            return
        try:
            async with asyncio.timeout(PASS_SECONDS):
                for first in range(0, len(told), _AT_ONCE):
                    await self._write(told[first : first + _AT_ONCE])
        except TimeoutError:
            log.debug("conditions of pods took too long; the next pass goes on")
        except KubernetesError as error:
            if not self.problems:
                log.warning("conditions of pods not written: %s", error)
            self.problems = [Finding(execute.REFUSED, f"PodConditions: {error}")]
            return
        self.problems = []
        self._refused.reset()

    async def _write(self, told: Sequence[Told]) -> None:
        writing = (self._reporter.write_pod_conditions(change) for change in told)
        answers = await asyncio.gather(*writing, return_exceptions=True)
        self._last = told[-1].pod
        metrics.POD_CONDITIONS.inc(sum(answer is None for answer in answers))
        for failed in answers:
            if failed and not (isinstance(failed, KubernetesError) and _is_moot(failed)):
                raise failed


def _is_moot(error: KubernetesError) -> bool:
    """Return whether the pod is gone: for a status, another uid is an invalid field to the API server, no conflict."""
    another = error.status == httpx.codes.UNPROCESSABLE_ENTITY and "metadata.uid" in str(error)
    return another or error.status in _MOOT
