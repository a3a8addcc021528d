"""Explains why an object is not ready, by messages of pods, containers and events, as the official provider does."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any, Final

from devcluster.standin import api
from devcluster.standin.decisions import kinds
from devcluster.standin.decisions.kinds import Kind, Manifest

_DEADLINE_SECONDS: Final = 10.0
_PODS_SHOWN: Final = 3
_EVENTS_SHOWN: Final = 5
_POD: Final = Kind("", "v1", "Pod")
_EVENT: Final = Kind("", "v1", "Event")


def pod_problems(pod: Manifest) -> list[str]:
    """Return why one pod is not ready, in the words of the scheduler and the kubelet."""
    status = pod.get("status") or {}
    if status.get("phase") == "Succeeded":
        return []
    name = f"[Pod {kinds.resource_id(pod)}]"
    problems = [
        f"{name}: {condition['message']}"
        for condition in status.get("conditions") or []
        if condition.get("status") == "False" and condition.get("message")
    ]
    containers = [*(status.get("initContainerStatuses") or []), *(status.get("containerStatuses") or [])]
    return problems + [f"{name}: {text}" for container in containers for text in _container_problems(container)]


def _container_problems(container: dict[str, Any]) -> list[str]:
    if container.get("ready"):
        return []
    name, problems = container.get("name"), []
    state = container.get("state") or {}
    waiting, ended = state.get("waiting"), state.get("terminated")
    if waiting and waiting.get("reason") not in (None, "ContainerCreating", "PodInitializing"):
        problems.append(f"container {name!r}: [{waiting['reason']}] {waiting.get('message', '')}".rstrip())
    last = (container.get("lastState") or {}).get("terminated")
    for end in filter(None, (ended, last)):
        if end.get("exitCode") != 0:
            told = f": {end['message'].strip()}" if end.get("message") else ""
            problems.append(f"container {name!r} ended with exit code {end.get('exitCode')}{told}")
    return problems


def warnings(events: Iterable[Manifest], uids: set[str]) -> list[str]:
    """Return the newest warnings about some objects, each once."""
    about = [
        event
        for event in events
        if event.get("type") == "Warning" and (event.get("involvedObject") or {}).get("uid") in uids
    ]
    about.sort(key=lambda event: str(event.get("lastTimestamp") or event.get("eventTime") or ""))
    lines = dict.fromkeys(
        f"[{event['involvedObject'].get('kind')} {event['involvedObject'].get('name')}] "
        f"{event.get('reason')}: {event.get('message')}"
        for event in about
    )
    return list(lines)[-_EVENTS_SHOWN:]


def owned(objects: Iterable[Manifest], owners: set[str]) -> list[Manifest]:
    """Return the objects that belong to one of the owners, by uid."""
    return [
        item
        for item in objects
        if any(reference.get("uid") in owners for reference in item["metadata"].get("ownerReferences") or [])
    ]


async def pods_of(client: api.Api, live: Manifest) -> list[Manifest]:
    """Return the pods that belong to a workload, through its ReplicaSets where it has them."""
    if live.get("kind") == "Pod":
        return [live]
    selector = ((live.get("spec") or {}).get("selector") or {}).get("matchLabels")
    if not selector:
        return []
    namespace, owners = kinds.namespace_of(live), {live["metadata"]["uid"]}
    query = {"labelSelector": ",".join(f"{key}={value}" for key, value in selector.items())}
    if live.get("kind") == "Deployment":
        sets = await client.items(Kind("apps", "v1", "ReplicaSet"), namespace, query)
        owners |= {item["metadata"]["uid"] for item in owned(sets, owners)}
    return owned(await client.items(_POD, namespace, query), owners)


async def gather(client: api.Api, live: Manifest) -> list[str]:
    """Return all messages about an object that is not ready, as far as the API server answers within ten seconds."""
    lines: list[str] = []
    try:
        async with asyncio.timeout(_DEADLINE_SECONDS):
            pods = await pods_of(client, live)
            troubled = [pod for pod in pods if pod_problems(pod)][:_PODS_SHOWN]
            for pod in troubled:
                lines += pod_problems(pod)
            if kinds.namespace_of(live):
                lines += warnings(await client.items(_EVENT, kinds.namespace_of(live)), {live["metadata"]["uid"]})
    except (api.ApiError, api.KindMissing, api.Unreachable, TimeoutError) as error:
        lines.append(f"(the rest of the reason could not be read: {error or 'no answer in time'})")
    return list(dict.fromkeys(lines))
