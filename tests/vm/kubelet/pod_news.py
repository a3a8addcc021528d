"""Tells what pods do while a test waits for them: each one's phase, its newest event and the last line of its log."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

EVERY_SECONDS = 15.0
NAMESPACE = "slurm"
JAIL = "app.kubernetes.io/component=jail"
"""The populate Job's pods."""
Kubectl = Callable[..., str]
"""Runs kubectl with some words and returns what it printed, an error's text included."""


def sentence(pod: Mapping[str, Any], events: Sequence[Mapping[str, Any]], log: str) -> str:
    """Return a line that says what a pod does."""
    name = pod["metadata"]["name"]
    of_pod = [event for event in events if event["involvedObject"].get("name") == name]
    newest = max(of_pod, key=_when, default=None)
    lines = log.strip().splitlines()
    parts = [
        pod["status"].get("phase", "no phase yet"),
        f"{newest['reason']}: {newest['message']}" if newest else "no event",
        f"log: {lines[-1]}" if lines else "no log",
    ]
    return f"{name}: {'; '.join(parts)}"


def _when(event: Mapping[str, Any]) -> str:
    """Time of its last occurrence. Kubernetes writes all of them alike, so that text sorts them."""
    return str(event.get("lastTimestamp") or event.get("eventTime") or event["metadata"]["creationTimestamp"])


def look(kubectl: Kubectl) -> str:
    """Return a line for each pod of the populate Job, which says what it does now."""
    try:
        pods, events = (_items(kubectl(*words)) for words in (("get", "pods", "-l", JAIL), ("get", "events")))
    except ValueError as unreadable:
        return f"no news of the jail's pod: {unreadable}"
    said = (
        sentence(pod, events, kubectl("logs", pod["metadata"]["name"], "--all-containers", "--tail=1")) for pod in pods
    )
    return "\n".join(said) or "the jail's pod is not there"


def _items(said: str) -> list[dict[str, Any]]:
    if not said.startswith("{"):
        raise ValueError(said.strip())
    items: list[dict[str, Any]] = json.loads(said)["items"]
    return items


@contextmanager
def told(kubectl: Kubectl, seconds: float = EVERY_SECONDS) -> Iterator[None]:
    """Tells the news until the end of the context, and after a failure all that Kubernetes says of the pods."""
    ended = threading.Event()

    def tell() -> None:
        while not ended.wait(seconds):
            print(look(kubectl), file=sys.stderr, flush=True)

    teller = threading.Thread(target=tell)
    teller.start()
    try:
        yield
    except BaseException:
        print(kubectl("describe", "pods", "-l", JAIL), file=sys.stderr, flush=True)
        raise
    finally:
        ended.set()
        teller.join()
