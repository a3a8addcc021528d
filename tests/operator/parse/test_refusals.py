"""Promises about Events of pods that Kubernetes refuses: the API server's words are read, and its time."""

from __future__ import annotations

import datetime

import pytest
from slurm_operator.decide.nodes.refused_pods import Refusal
from slurm_operator.parse.refusals import parse_refusal

QUOTA = 'pods "cpu-1" is forbidden: exceeded quota: small, requested: pods=1, used: pods=1, limited: pods=1'
MESSAGE = f"create Pod cpu-1 in StatefulSet cpu failed error: {QUOTA}"
AT = "2026-11-27T09:30:00Z"
EARLIER = "2026-11-27T08:00:00Z"


@pytest.mark.parametrize(
    ("message", "pod", "words"),
    [
        (MESSAGE, "cpu-1", QUOTA),
        (f"(combined from similar events): {MESSAGE}", "cpu-1", QUOTA),
        ("create Claim a-cpu-1 for Pod cpu-1 in StatefulSet cpu failed error: no claims", "cpu-1", "no claims"),
        ("other words", "", "other words"),
        (None, "", ""),
    ],
    ids=["pod", "combined", "claim", "other words", "no message"],
)
def test_an_event_tells_pod_and_words(message: str | None, pod: str, words: str) -> None:
    event = {"metadata": {"name": "x"}, "involvedObject": {"name": "cpu"}, "message": message, "lastTimestamp": AT}
    assert parse_refusal(event) == Refusal("cpu", pod, words, datetime.datetime.fromisoformat(AT))


@pytest.mark.parametrize(
    ("last", "only", "created"),
    [(AT, None, EARLIER), (None, AT, EARLIER), (None, None, AT)],
    ids=["again and again", "once", "without a time of its own"],
)
def test_an_event_tells_when_it_was_last_seen(last: str | None, only: str | None, created: str) -> None:
    metadata = {"name": "x", "creationTimestamp": created}
    times = {"lastTimestamp": last, "eventTime": only}
    event = {"metadata": metadata, "involvedObject": {"name": "cpu"}, "message": MESSAGE, **times}
    assert parse_refusal(event).at == datetime.datetime.fromisoformat(AT)
