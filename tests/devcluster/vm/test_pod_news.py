"""Promises of what a long wait in the guest tells: enough to see why it lasts, before anything ends it."""

from __future__ import annotations

import json
import threading
from ipaddress import IPv4Network
from typing import Any

import pytest

from devcluster.apiserver.control_plane import SERVICE_NETWORK
from devcluster.node import links
from devcluster.node.plan.facts import POD_NETWORK
from tests.vm.kubelet import pod_news
from tests.vm.nfs.nfs_server import ADDRESS, NETWORK

NAME = "jail-r1-x"
POD = {"metadata": {"name": NAME}, "status": {"phase": "Pending"}}


def event(at: str, message: str, pod: str = NAME, reason: str = "FailedMount") -> dict[str, Any]:
    return {"involvedObject": {"name": pod}, "lastTimestamp": at, "reason": reason, "message": message}


EVENTS = [
    event("2026-11-25T13:00:05Z", "Connection refused"),
    event("2026-11-25T13:00:01Z", "bound", reason="Scheduled"),
    event("2026-11-25T13:00:09Z", "another's", pod="cpu-0"),
]


def kubectl(*words: str) -> str:
    """A cluster whose jail pod cannot mount its volume."""
    if words[0] == "get":
        return json.dumps({"items": [POD] if words[1] == "pods" else EVENTS})
    return "copied 3 of 165 MiB\n" if words[0] == "logs" else f"all of {NAME}\n"


def test_a_waiting_pods_phase_newest_event_and_last_log_line_are_told() -> None:
    assert pod_news.look(kubectl) == f"{NAME}: Pending; FailedMount: Connection refused; log: copied 3 of 165 MiB"


def test_a_cluster_without_the_pod_or_that_does_not_answer_is_told_too() -> None:
    assert pod_news.look(lambda *_: '{"items": []}') == "the jail's pod is not there"
    assert pod_news.look(lambda *_: "no such host\n") == "no news of the jail's pod: no such host"


def test_news_come_while_the_wait_lasts_and_a_failure_shows_all(capsys: pytest.CaptureFixture[str]) -> None:
    looked = threading.Event()

    def seen(*words: str) -> str:
        if words[0] == "logs":
            looked.set()
        return kubectl(*words)

    with pytest.raises(RuntimeError), pod_news.told(seen, seconds=0.01):
        assert looked.wait(10)
        raise RuntimeError
    said = capsys.readouterr().err
    assert "FailedMount: Connection refused" in said
    assert f"all of {NAME}" in said


@pytest.mark.parametrize("own", [POD_NETWORK, SERVICE_NETWORK, str(links.POOL)])
def test_a_node_does_not_take_the_nfs_servers_address_for_one_of_its_own(own: str) -> None:
    assert not NETWORK.overlaps(IPv4Network(own))
    assert ADDRESS in map(str, NETWORK)
