"""Waits until objects are ready or gone, with progress lines, a deadline, and the reason when it takes too long."""

from __future__ import annotations

import asyncio
import dataclasses
import time
from collections.abc import Awaitable, Callable
from typing import Final

from devcluster.standin import api
from devcluster.standin.decisions import kinds
from devcluster.standin.decisions.kinds import Kind, Manifest
from devcluster.standin.waiting import problems, readiness, wait_for

DEFAULT_SECONDS: Final = 600.0
_FIRST_POLL_SECONDS: Final = 0.2
_SLOWEST_POLL_SECONDS: Final = 2.0
_EXPLAIN_EVERY_SECONDS: Final = 10.0

Tell = Callable[[str], Awaitable[None]]


class NotReady(Exception):
    """The object exists, but did not reach the awaited state."""

    def __init__(self, live: Manifest, message: str, reasons: list[str]) -> None:
        """Keeps the object as it was last seen, for the state."""
        super().__init__(message)
        self.live = live
        self.reasons = reasons


@dataclasses.dataclass(frozen=True, slots=True)
class Waiter:
    """Waits for one resource.

    Attributes:
        client: the API server.
        tell: shows a progress line.
        cancelled: set when the user cancelled.
        timeout_seconds: for the whole wait.
    """

    client: api.Api
    tell: Tell
    cancelled: asyncio.Event
    timeout_seconds: float

    async def until_ready(self, inputs: Manifest, live: Manifest, previous: Manifest | None) -> Manifest:
        """Waits after a create or an update.

        Args:
            inputs: as declared, with the annotations that shape the wait.
            live: as the API server answered.
            previous: as it was before an update.

        Returns:
            The ready object.

        Raises:
            NotReady: time is up, it failed for good, or the user cancelled.
            ValueError: the annotation `pulumi.com/waitFor` cannot be understood.
        """
        decide = self._decision(inputs, live, previous)
        if decide is None:
            return live
        ends = time.monotonic() + self.timeout_seconds
        explain_at = time.monotonic() + _EXPLAIN_EVERY_SECONDS
        pause_seconds = _FIRST_POLL_SECONDS
        while True:
            verdict = await decide(live)
            if verdict.ready:
                return live
            await self.tell(verdict.progress)
            now = time.monotonic()
            if verdict.failed or now >= ends or self.cancelled.is_set():
                if verdict.good_enough_at_deadline and not verdict.failed:
                    return live
                raise await self._not_ready(live, verdict)
            if now >= explain_at:
                explain_at = now + _EXPLAIN_EVERY_SECONDS
                for line in (await problems.gather(self.client, live))[:1]:
                    await self.tell(f"{verdict.progress}: {line}")
            await self._sleep(min(pause_seconds, max(0.0, ends - now)))
            pause_seconds = min(pause_seconds * 1.5, _SLOWEST_POLL_SECONDS)
            live = await self._read(live, verdict)

    def _decision(
        self, inputs: Manifest, live: Manifest, previous: Manifest | None
    ) -> Callable[[Manifest], Awaitable[readiness.Verdict]] | None:
        if kinds.annotation(inputs, "skipAwait") == "true":
            return None
        annotation = kinds.annotation(live, "waitFor")
        if annotation:
            expression = wait_for.parse(annotation)

            async def by_annotation(now: Manifest) -> readiness.Verdict:
                return readiness.declared(expression, now)

            return by_annotation
        known = readiness.ON_WRITE.get(kinds.of(live))
        if known is None:
            return None
        decide = known
        look = Look(self.client, previous)

        async def by_kind(now: Manifest) -> readiness.Verdict:
            return decide(await look.around(now))

        return by_kind

    async def _read(self, live: Manifest, verdict: readiness.Verdict) -> Manifest:
        try:
            return await self.client.get(live)
        except api.ApiError as error:
            if error.code != 404:
                raise
            message = f"'{kinds.name_of(live)}' was deleted while waiting for it to be Ready"
            raise NotReady(live, message, list(verdict.lacking)) from error

    async def _not_ready(self, live: Manifest, verdict: readiness.Verdict) -> NotReady:
        name = kinds.name_of(live)
        if self.cancelled.is_set():
            return NotReady(live, "context canceled", [])
        reasons = await problems.gather(self.client, live)
        if verdict.declared:
            # The official provider knows no conditions: it shows the object's Warnings as status lines.
            for line in reasons:
                await self.tell(line)
            return NotReady(live, "timed out waiting for the condition", [])
        reasons = [*verdict.lacking, *reasons]
        if verdict.failed:
            return NotReady(live, f"Resource '{name}' was created but failed to initialize", reasons)
        return NotReady(live, f"'{name}' timed out waiting to be Ready", reasons)

    async def until_gone(self, inputs: Manifest, live: Manifest) -> None:
        """Waits after a deletion, until the object is not there any more or is another one.

        Raises:
            NotReady: time is up, or the user cancelled.
        """
        if kinds.annotation(inputs, "skipAwait") == "true" and kinds.of(live).name in kinds.SKIP_AWAIT_SKIPS_DELETE:
            return
        ends = time.monotonic() + self.timeout_seconds
        uid, pause_seconds = live["metadata"]["uid"], _FIRST_POLL_SECONDS
        while live["metadata"]["uid"] == uid:
            finalizers = ", ".join(live["metadata"].get("finalizers") or [])
            if self.cancelled.is_set():
                raise NotReady(live, "context canceled", [])
            if time.monotonic() >= ends:
                held = f": finalizers might be preventing deletion ({finalizers})" if finalizers else ""
                raise NotReady(live, f"'{kinds.name_of(live)}' timed out waiting for its deletion{held}", [])
            await self.tell("Waiting for deletion" + (f" (finalizers: {finalizers})" if finalizers else ""))
            await self._sleep(pause_seconds)
            pause_seconds = min(pause_seconds * 1.5, _SLOWEST_POLL_SECONDS)
            try:
                live = await self.client.get(live)
            except api.ApiError as error:
                if error.code == 404:
                    return
                raise

    async def _sleep(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self.cancelled.wait()
        except TimeoutError:
            return


class Look:
    """Reads what the decision about a kind needs in addition to the object."""

    def __init__(self, client: api.Api, previous: Manifest | None, settled: bool = False) -> None:
        """Remembers nothing yet.

        Args:
            client: the API server.
            previous: the object before an update.
            settled: take a Service's endpoints as they are, without watching them for a while.
        """
        self._client = client
        self._previous = previous
        self._settled = settled
        self._endpoints_version: str | None = None
        self._endpoints_since = time.monotonic()

    async def around(self, live: Manifest) -> readiness.Seen:
        """Return the object with the other objects that decide its readiness."""
        namespace, kind = kinds.namespace_of(live), live.get("kind")
        seen = readiness.Seen(live=live, previous=self._previous)
        if kind == "Deployment":
            sets = await self._client.items(Kind("apps", "v1", "ReplicaSet"), namespace)
            return dataclasses.replace(
                seen,
                replica_sets=problems.owned(sets, {live["metadata"]["uid"]}),
                claims=await self._claims(live),
            )
        if kind == "Service":
            return await self._with_endpoints(seen)
        if kind == "PersistentVolumeClaim" and live["spec"].get("storageClassName"):
            storage_class = {
                "apiVersion": "storage.k8s.io/v1",
                "kind": "StorageClass",
                "metadata": {"name": live["spec"]["storageClassName"]},
            }
            live_class = await self._get(storage_class)
            return dataclasses.replace(seen, binding_mode=(live_class or {}).get("volumeBindingMode", ""))
        return seen

    async def _get(self, manifest: Manifest) -> Manifest | None:
        try:
            return await self._client.get(manifest)
        except api.ApiError as error:
            if error.code == 404:
                return None
            raise

    async def _claims(self, deployment: Manifest) -> list[Manifest]:
        volumes = deployment["spec"]["template"]["spec"].get("volumes") or []
        sources = [volume["persistentVolumeClaim"] for volume in volumes if "persistentVolumeClaim" in volume]
        kind, namespace = {"apiVersion": "v1", "kind": "PersistentVolumeClaim"}, kinds.namespace_of(deployment)
        claims = [
            await self._get({**kind, "metadata": {"name": source["claimName"], "namespace": namespace}})
            for source in sources
        ]
        return [claim for claim in claims if claim is not None]

    async def _with_endpoints(self, seen: readiness.Seen) -> readiness.Seen:
        metadata = {"name": kinds.name_of(seen.live), "namespace": kinds.namespace_of(seen.live)}
        endpoints = await self._get({"apiVersion": "v1", "kind": "Endpoints", "metadata": metadata})
        version = endpoints["metadata"]["resourceVersion"] if endpoints else None
        if version != self._endpoints_version:
            self._endpoints_version, self._endpoints_since = version, time.monotonic()
        unchanged = float("inf") if self._settled else time.monotonic() - self._endpoints_since
        return dataclasses.replace(
            seen,
            endpoints=endpoints if endpoints or not self._settled else {},
            endpoints_unchanged_seconds=unchanged,
        )


async def now_ready(client: api.Api, inputs: Manifest, live: Manifest) -> readiness.Verdict:
    """Looks once, for a refresh: whether an object of a kind that can tell is ready now."""
    decide = readiness.ON_WRITE.get(kinds.of(live))
    if decide is None or live.get("kind") not in readiness.ON_READ or kinds.annotation(inputs, "skipAwait") == "true":
        return readiness.Verdict(True, "")
    return decide(await Look(client, previous=live, settled=True).around(live))
