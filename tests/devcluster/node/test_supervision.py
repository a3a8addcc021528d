from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from devcluster.node import cgroups
from devcluster.node.plan.files import resolver
from devcluster.node.readiness import missing
from devcluster.node.supervision import (
    LAST_BACKOFF_SECONDS,
    STABLE_SECONDS,
    Component,
    NodePlan,
    Probe,
    backoff_seconds,
    changed,
    failures_after,
    last_error_line,
)


def test_the_back_off_doubles_to_a_bound() -> None:
    waits = [backoff_seconds(failures) for failures in range(1, 50)]

    assert waits[:3] == [0.5, 1.0, 2.0]
    assert waits == sorted(waits)
    assert waits[-1] == LAST_BACKOFF_SECONDS


def test_a_component_that_was_stable_starts_at_once_again() -> None:
    assert failures_after(7, lived_seconds=1) == 8
    assert failures_after(7, lived_seconds=STABLE_SECONDS) == 1


@pytest.mark.parametrize(
    ("log", "line"),
    [
        ("I1121 12:00:00 fine\nE1121 12:00:01 bad thing\nI1121 12:00:02 fine\n", "E1121 12:00:01 bad thing"),
        ("F1121 12:00:01 fatal\n", "F1121 12:00:01 fatal"),
        ('time="x" level=error msg="no"\ntime="x" level=info msg="ok"\n', 'time="x" level=error msg="no"'),
        ("Everything is well\n", ""),
        ("", ""),
    ],
)
def test_the_last_error_line_of_a_log_is_found(tmp_path: Path, log: str, line: str) -> None:
    (tmp_path / "x.log").write_text(log)

    assert last_error_line(tmp_path / "x.log") == line


def test_a_component_without_a_log_has_no_error(tmp_path: Path) -> None:
    assert last_error_line(tmp_path / "none.log") == ""


def test_a_plan_survives_being_written_down() -> None:
    components = [
        Component("a", ("/bin/a", "-x"), {"K": "v"}, Probe(("127.0.0.1", 1), "ca", "crt", "key")),
        Component("b", ("/bin/b",)),
    ]
    plan = NodePlan("n", "10.0.0.2/30", "10.0.0.1", [("/s", "/t")], "/log", "/status", components)

    assert NodePlan.from_json(plan.to_json()) == plan


def test_a_new_plan_touches_only_what_it_changes_adds_or_drops() -> None:
    kept, old, new = Component("kept", ("/k",)), Component("edited", ("/e",)), Component("edited", ("/e", "-x"))
    added, dropped = Component("added", ("/a",)), Component("dropped", ("/d",))

    former = {each.name: each for each in (kept, old, dropped)}
    now = {each.name: each for each in (kept, new, added)}

    assert changed(former, now) == ["edited", "added", "dropped"]


def test_cgroup_hierarchies_are_found_on_v1_v2_and_mixed_machines() -> None:
    mixed = (
        "cgroup /sys/fs/cgroup/cpu cgroup rw,cpu 0 0\n"
        "cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\nproc /proc proc rw 0 0\n"
    )

    assert cgroups.hierarchies(mixed) == [Path("/sys/fs/cgroup/cpu"), Path("/sys/fs/cgroup/unified")]
    assert cgroups.hierarchies("cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n") == [Path("/sys/fs/cgroup")]


def test_pods_ask_name_servers_that_are_not_the_hosts_own_loopback() -> None:
    stub, real = "nameserver 127.0.0.53\n", "search x\nnameserver 192.0.2.53\n"

    assert resolver([stub, real]) == "nameserver 192.0.2.53\n"
    assert resolver([stub]) == ""


def node(ready: str, heartbeat: str) -> dict[str, Any]:
    return {"status": {"conditions": [{"type": "Ready", "status": ready, "lastHeartbeatTime": heartbeat}]}}


def dns(ready: bool, started: str) -> dict[str, Any]:
    return {"status": {"containerStatuses": [{"ready": ready, "state": {"running": {"startedAt": started}}}]}}


EARLY, START, LATE = "1970-01-01T00:00:09Z", 10.5, "1970-01-01T00:00:10Z"


@pytest.mark.parametrize(
    ("nodes", "pods", "word"),
    [
        ([], [], "node"),
        ([node("False", LATE)], [dns(True, LATE)], "node"),
        ([node("True", EARLY)], [dns(True, LATE)], "node"),
        ([node("True", LATE)], [], "DNS"),
        ([node("True", LATE)], [dns(False, LATE)], "DNS"),
        ([node("True", LATE)], [dns(True, EARLY)], "DNS"),
        ([node("True", LATE)], [{"status": {"containerStatuses": [{"ready": True, "state": {"waiting": {}}}]}}], "DNS"),
    ],
)
def test_what_was_ready_before_a_restart_does_not_count(
    nodes: list[dict[str, Any]], pods: list[dict[str, Any]], word: str
) -> None:
    assert word in (missing(nodes, pods, START) or "")


def test_a_node_that_reports_ready_and_resolves_names_is_ready() -> None:
    assert missing([node("True", LATE)], [dns(False, EARLY), dns(True, LATE)], START) is None
