"""Asks why Kubernetes makes no pod. A pass asks only while a StatefulSet has had too few pods for some time."""

from __future__ import annotations

import asyncio
import dataclasses
import datetime
import logging
import math
import time
from collections.abc import Callable, Set

import httpx

from slurm_operator.clients.kubernetes import DEADLINE_SECONDS, KubernetesApi, KubernetesError
from slurm_operator.decide.nodes import refused_pods
from slurm_operator.decide.nodes.refused_pods import Refusal
from slurm_operator.parse.refusals import parse_refusal
from slurm_operator.state.kubernetes import Kubernetes, Unread

log = logging.getLogger(__name__)

LACKING_SECONDS = 10.0
"""So long a StatefulSet has too few pods, and gets no other, until somebody asks why."""
ASKED_AGAIN_SECONDS = 30.0
"""Seconds between two questions about the same StatefulSets."""


class PodRefusals:
    """The API server's words about pods that it refuses, as far as StatefulSets lack pods."""

    def __init__(self, api: KubernetesApi, clock: Callable[[], float] = time.monotonic) -> None:
        self._api = api
        self._clock = clock
        self._lacking: dict[str, tuple[tuple[int, int, str], float]] = {}
        """StatefulSets that have too few pods: what changes when one is made, and since when nothing changed."""
        self._asked: Set[str] = frozenset()
        self._asked_at = -math.inf
        self._refusals: list[Refusal] = []
        self._trouble = ""
        self._lost_right = ""

    async def look(self, seen: Kubernetes) -> Kubernetes:
        """Return what was seen, with the words about each StatefulSet whose pods are refused."""
        moment, before = self._clock(), self._lacking
        rows = refused_pods.lacking(seen).items()
        known = {name: before.get(name, (row, moment)) for name, row in rows}
        self._lacking = {name: known[name] if known[name][0] == row else (row, moment) for name, row in rows}
        lasting = {name for name, (_, since) in self._lacking.items() if moment - since >= LACKING_SECONDS}
        if not lasting:
            self._asked, self._refusals, self._lost_right = frozenset(), [], ""
            return seen
        if not lasting <= self._asked or moment >= self._asked_at + ASKED_AGAIN_SECONDS:
            self._asked, self._asked_at = lasting, moment
            await self._ask()
        words = refused_pods.told(self._refusals, lasting, seen.pods.keys(), datetime.datetime.now(datetime.UTC))
        workloads = {
            name: dataclasses.replace(workload, refused=words[name]) if name in words else workload
            for name, workload in seen.workloads.items()
        }
        unread = {**seen.unread, Unread.EVENTS: self._lost_right} if self._lost_right else seen.unread
        return dataclasses.replace(seen, workloads=workloads, unread=unread)

    async def _ask(self) -> None:
        """List the Events; if that fails, what they said before stays."""
        trouble = self._lost_right = ""
        try:
            async with asyncio.timeout(DEADLINE_SECONDS):
                pages = self._api.pages("v1", "events", refused_pods.EVENTS)
                self._refusals = [parse_refusal(event) async for _, events in pages for event in events]
        except (KubernetesError, TimeoutError) as error:
            trouble = str(error) or f"Events: no end within {DEADLINE_SECONDS:.0f} s"
            if isinstance(error, KubernetesError) and error.status == httpx.codes.FORBIDDEN:
                self._lost_right = trouble
        if trouble and trouble != self._trouble:
            log.warning("nobody knows why pods are not made: error=%s", trouble)
        self._trouble = trouble
