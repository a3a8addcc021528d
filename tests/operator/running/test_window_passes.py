"""Promises of the running operator about windows and reboots, against a real API server."""

from __future__ import annotations

import datetime
import time
from typing import Any

import pytest

from contract import names, policies
from tests.operator.worlds.template_changes import change_template, images, status
from tests.operator.worlds.world import World, knows, passes, until

pytestmark = pytest.mark.apiserver

NAME = f"{names.RESERVATION_PREFIX}cpu"


def set_window(world: World, opens_in: datetime.timedelta | None, hours: int = 1) -> None:
    """A window that opens each week, and next after so long, which the operator knows before other changes."""
    found = None
    if opens_in is not None:
        at = datetime.datetime.now(datetime.UTC) + opens_in
        found = {"start": f"{policies.WEEKDAYS[at.weekday()]} {at:%H:%M}", "durationSeconds": hours * 3600}
    world.patch("nodesets", "cpu", {"spec": {"update": {"window": found}}})
    knows(world, "nodesets", "cpu")


def reboot(world: World, node: str) -> None:
    """Ask for a reboot after the second in which the pod was made: Kubernetes' times have no parts of one."""
    made = datetime.datetime.fromisoformat(world.get("pods", node)["metadata"]["creationTimestamp"])
    next_second = made + datetime.timedelta(seconds=1)
    until(lambda: datetime.datetime.now(datetime.UTC) >= next_second, "the pod's second is over")
    world.slurm.reboot(node)


def reserved(world: World) -> dict[str, Any]:
    with world.slurm.lock:
        return dict(world.slurm.reservations.get(NAME, {}))


def test_an_update_waits_for_its_window_under_a_reservation_that_goes_with_it(running_operator: World) -> None:
    world = running_operator
    world.wait("Available", "True")
    world.slurm.reservations.reserve("class", "cpu-0", 100_000, users="alice")
    set_window(world, datetime.timedelta(hours=2))
    passes(world, 3)
    assert not reserved(world), "nothing waits"
    change_template(world, "newer")
    told = world.wait("Progressing", "True", "UpdateWaitsForWindow")["message"]
    assert "the others wait for the window" in told
    found = until(lambda: reserved(world), "the nodes are reserved")
    assert (found["node_list"], found["users"]) == ("cpu-0,cpu-1", names.RESERVATION_USER)
    assert {*names.RESERVATION_FLAGS} <= {*found["flags"]}
    assert found["start_time"]["number"] > time.time() + 3600
    world.wait("Available", "True")
    passes(world, 3)
    assert images(world) == ["none", "none"]
    assert not [node for node in world.slurm.nodes.values() if "DRAIN" in node["state"]]

    # Open since an hour ago: nodes move under the reservation, and leave it.
    set_window(world, -datetime.timedelta(hours=1), hours=3)
    until(lambda: images(world) == ["newer", "newer"], "both are updated")
    until(lambda: status(world)["updated"] == 2, "and it is told")
    until(lambda: not reserved(world), "nothing waits any more")
    assert [*world.slurm.reservations] == ["class"], "another's reservation stays"
    deleted = f"deleted reservation {NAME}: no node waits for its window"
    until(lambda: deleted in {note for _, note in world.events()}, "its end is told")
    assert any(note.endswith(f"({NAME})") for _, note in world.events())


def test_without_the_window_or_the_node_set_the_reservation_goes(running_operator: World) -> None:
    world = running_operator
    world.wait("Available", "True")
    orphan = f"{names.RESERVATION_PREFIX}gone"
    world.slurm.reservations.reserve(
        orphan, "cpu-0", users=names.RESERVATION_USER, flags=" ".join(names.RESERVATION_FLAGS)
    )
    jobs = [world.slurm.run_job(name) for name in ("cpu-0", "cpu-1")]
    set_window(world, datetime.timedelta(hours=2))
    change_template(world, "newer")
    until(lambda: reserved(world), "the nodes are reserved")
    until(lambda: orphan not in world.slurm.reservations, "that of a node set that is gone goes")
    world.scale(1)
    until(lambda: reserved(world)["node_list"] == "cpu-0", "a node that leaves is no longer reserved")
    set_window(world, None)
    until(lambda: not reserved(world), "without a window nothing is reserved")
    for job in jobs:
        world.slurm.end_job(job)
    until(lambda: images(world)[0] == "newer", "and updates begin at any time")


def test_a_reservation_of_a_person_with_that_name_is_told_and_stays(running_operator: World) -> None:
    world = running_operator
    world.wait("Available", "True")
    world.slurm.reservations.reserve(NAME, "cpu-1", users="alice")
    before = reserved(world)
    set_window(world, datetime.timedelta(hours=2))
    change_template(world, "newer")
    assert "alice" in world.wait("Degraded", "True", "ReservationOfAnother")["message"]
    set_window(world, None)
    until(lambda: images(world) == ["newer", "newer"], "the update goes on")
    assert reserved(world) == before


def test_scontrol_reboot_restarts_the_pod_once_and_the_node_serves_again(running_operator: World) -> None:
    world = running_operator
    world.wait("Available", "True")
    other, before = world.uid("pods", "cpu-0"), world.uid("pods", "cpu-1")
    reboot(world, "cpu-1")
    until(lambda: world.uid("pods", "cpu-1") not in ("", before), "the pod is another one")
    after = world.uid("pods", "cpu-1")
    until(lambda: "REBOOT_ISSUED" not in world.slurm.nodes["cpu-1"]["state"], "the new slurmd registers")
    world.wait("Progressing", "False")
    assert (world.uid("pods", "cpu-0"), world.uid("pods", "cpu-1")) == (other, after)
    assert world.slurm.nodes["cpu-1"]["state"][0] == "IDLE"
    told = ("RebootNode", "deleted the idle pod cpu-1, to start anew: as scontrol reboot asked")
    until(lambda: told in world.events(), "it is told")


def test_a_rebooted_node_that_a_person_drained_stays_drained(running_operator: World) -> None:
    world = running_operator
    world.wait("Available", "True")
    before = world.uid("pods", "cpu-1")
    world.slurm.drain("cpu-1", "bad fan", "alice")
    reboot(world, "cpu-1")
    until(lambda: world.uid("pods", "cpu-1") not in ("", before), "the pod is another one")
    until(lambda: "REBOOT_ISSUED" not in world.slurm.nodes["cpu-1"]["state"], "the new slurmd registers")
    passes(world, 3)
    assert "DRAIN" in world.slurm.nodes["cpu-1"]["state"]
    assert world.slurm.nodes["cpu-1"]["reason"].startswith("bad fan")
