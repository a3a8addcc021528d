"""A live copy of Kubernetes collections for the dev cluster's own controllers: list, then watch, then list again."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import datetime
import json
import ssl
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import httpx

WATCH_SECONDS = 30
"""Each collection is listed anew as often, so that no news which a watch lost is missing for longer."""
LATE_SECONDS = 10
"""Server and network get these too, to end a watch. Then it is left."""
SLOW_SECONDS = 5.0
"""A change that takes effect later is told of: pods may be refused or have no address meanwhile."""
RETRY_SECONDS = 1.0
SETTLE_SECONDS = 0.05
"""Changes come in bunches. One reconcile handles those within this time."""
RECHECK_SECONDS = 30.0

Resource = dict[str, Any]


class TryAgainError(Exception):
    """A pass did not come to its end, and the next one may: on a machine short of cores, say."""


def client(kubeconfig: Path) -> httpx.AsyncClient:
    """Return an HTTP client for the API server of a kubeconfig that devcluster/apiserver/kubeconfigs.py wrote."""
    config = json.loads(kubeconfig.read_text())
    cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
    context = ssl.create_default_context(cadata=base64.b64decode(cluster["certificate-authority-data"]).decode())
    with tempfile.NamedTemporaryFile() as pair:
        # ssl reads certificates from files only.
        pair.write(base64.b64decode(user["client-certificate-data"]) + base64.b64decode(user["client-key-data"]))
        pair.flush()
        context.load_cert_chain(pair.name)
    return httpx.AsyncClient(base_url=cluster["server"], verify=context, timeout=20)


async def warn(api: httpx.AsyncClient, version: str, kind: str, about: Resource, reporter: str, message: str) -> None:
    """Log a warning about an object and record it as an Event.

    Args:
        api: As from `client`.
        version: The object's apiVersion, which lists leave out.
        kind: Its kind, the same.
        about: The object.
        reporter: Who says it.
        message: What.
    """
    metadata = about["metadata"]
    print(f"error: {kind} {metadata['namespace']}/{metadata['name']}: {message}", flush=True)
    now = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    identity = {key: metadata[key] for key in ("namespace", "name", "uid")}
    event = {
        "metadata": {"generateName": f"{metadata['name']}.", "namespace": metadata["namespace"]},
        "involvedObject": {"apiVersion": version, "kind": kind, **identity},
        "type": "Warning",
        "reason": "Unsupported",
        "message": message,
        "source": {"component": reporter},
        "firstTimestamp": now,
        "lastTimestamp": now,
        "count": 1,
    }
    answer = await api.post(f"/api/v1/namespaces/{metadata['namespace']}/events", json=event)
    answer.raise_for_status()


class Informer:
    """Copies of collections, by their API path, kept up to date by watches.

    Attributes:
        changed: Set whenever a copy changed.
    """

    def __init__(self, api: httpx.AsyncClient, paths: Sequence[str]) -> None:
        self._api = api
        self._copies: dict[str, dict[str, Resource]] = {path: {} for path in paths}
        self._listed: set[str] = set()
        self._changed_at = 0.0
        self.changed = asyncio.Event()

    def objects(self, path: str) -> list[Resource]:
        """Return all objects of a collection, as last seen."""
        return list(self._copies[path].values())

    async def follow(self, reconcile: Callable[[], Awaitable[None]]) -> None:
        """Call `reconcile` once every collection is listed, after each change, and now and then. Never returns."""
        async with asyncio.TaskGroup() as tasks:
            for path in self._copies:
                tasks.create_task(self._keep(path))
            while True:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self.changed.wait(), RECHECK_SECONDS)
                await asyncio.sleep(SETTLE_SECONDS)
                since = self._changed_at if self.changed.is_set() else time.monotonic()
                self.changed.clear()
                if len(self._listed) < len(self._copies):
                    continue
                try:
                    await reconcile()
                    tell_if_slow(time.monotonic() - since)
                except (httpx.HTTPError, TryAgainError) as error:
                    print(f"error: {type(error).__name__} {error}", flush=True)
                    await asyncio.sleep(RETRY_SECONDS)  # A server that fails would fail again at once.
                    self.changed.set()

    async def _keep(self, path: str) -> None:
        while True:
            try:
                version = await self._list(path)
                async with asyncio.timeout(WATCH_SECONDS + LATE_SECONDS):
                    await self._watch(path, version)
            except TimeoutError:
                print(f"error: the watch of {path} did not end: listing it", flush=True)
            except httpx.HTTPError as error:
                print(f"watching {path}: {type(error).__name__} {error}", flush=True)
                await asyncio.sleep(RETRY_SECONDS)  # The same.

    async def _list(self, path: str) -> str:
        answer = await self._api.get(path)
        answer.raise_for_status()
        content = answer.json()
        self._copies[path] = {item["metadata"]["uid"]: item for item in content["items"]}
        self._listed.add(path)
        self._note_change()
        version: str = content["metadata"]["resourceVersion"]
        return version

    async def _watch(self, path: str, version: str) -> None:
        query = {"watch": "true", "resourceVersion": version, "timeoutSeconds": str(WATCH_SECONDS)}
        timeout = httpx.Timeout(20, read=None)  # `_keep` bounds the whole watch.
        async with self._api.stream("GET", path, params=query, timeout=timeout) as answer:
            answer.raise_for_status()
            async for line in answer.aiter_lines():
                event = json.loads(line)
                if event["type"] == "ERROR":
                    return  # the version is too old: list again
                self._take(path, event)

    def _take(self, path: str, event: dict[str, Any]) -> None:
        item = event["object"]
        if event["type"] == "DELETED":
            self._copies[path].pop(item["metadata"]["uid"], None)
        else:
            self._copies[path][item["metadata"]["uid"]] = item
        self._note_change()

    def _note_change(self) -> None:
        if not self.changed.is_set():
            self._changed_at = time.monotonic()
        self.changed.set()


def tell_if_slow(seconds: float) -> None:
    """Log when a pass ended so long after the first change that it handled."""
    if seconds > SLOW_SECONDS:
        now = time.strftime("%H:%M:%S")
        print(f"error: {now} late: what changed {seconds:.0f} s ago takes effect now", flush=True)
