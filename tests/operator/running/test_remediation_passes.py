"""Promises of the running operator about unfit nodes, against a real API server."""

from __future__ import annotations

from typing import Any

import pytest

from components.config.nodes.reactions import Reactions
from tests.operator.worlds.healed_world import half_an_hour_passes
from tests.operator.worlds.template_changes import change_template, images
from tests.operator.worlds.world import World, metrics, until

pytestmark = pytest.mark.apiserver

REASON = "pulumi-slurm:health gpus: 3 of 4 GPUs answer"


def react(world: World, **policy: Any) -> None:
    """The policy of the stack's config, by its keys, without patience unless it is asked for."""
    spec = Reactions.model_validate({"restart": True, "after": "1s", "breakerPercent": 100, **policy}).policy
    world.patch("nodesets", "cpu", {"spec": {"reactions": spec}})


def restarts(world: World) -> list[str]:
    """Nodes whose restarts the NodeSet's status remembers."""
    return [each["node"] for each in world.get("nodesets", "cpu")["status"].get("restarts", [])]


def events(world: World) -> list[str]:
    return [note for reason, note in world.events() if reason == "RestartUnfit"]


def test_an_unfit_node_starts_anew_when_its_job_has_ended_and_is_not_undrained(running_operator: World) -> None:
    world = running_operator
    world.wait("Available", "True")
    before = {name: world.uid("pods", name) for name in ("cpu-0", "cpu-1")}
    job = world.slurm.run_job("cpu-1")
    react(world)
    world.slurm.drain("cpu-1", REASON, "root")
    world.slurm.drain("cpu-0", "a fan is broken", "alice")
    world.wait("Degraded", "True", "NodesDrained")
    world.wait("Progressing", "True", "RepairWaits")
    until(lambda: f"job {job} (no known end)" in world.condition("Progressing")["message"], "what is waited for")
    assert restarts(world) == []
    world.slurm.end_job(job)
    until(lambda: events(world), "the idle pod is deleted")
    assert events(world) == [f"deleted the idle pod cpu-1, to start anew: {REASON}"]
    until(lambda: world.uid("pods", "cpu-1") != before["cpu-1"], "a new pod")
    assert restarts(world) == ["cpu-1"]
    assert world.uid("pods", "cpu-0") == before["cpu-0"]
    until(lambda: world.slurm.nodes["cpu-1"]["reason"] == "", "its new pod is ready, and takes jobs")
    until(lambda: "drained cpu-1: repair health gpus: 3 of 4 GPUs answer" in notes(world), "the drain is told")
    # Between two looks the new pod may be there and not ready: then it is tried like any new one.
    lifted = {"undrained cpu-1: its pod is ready again", "drained cpu-1: it stays, and is to be seen to work"}
    until(lambda: notes(world) & lifted, "its end is told")


def notes(world: World) -> set[str]:
    return {note for _, note in world.events()}


def test_a_budget_that_is_spent_is_told_by_condition_event_and_metric(running_operator: World, port: int) -> None:
    world = running_operator
    world.wait("Available", "True")
    react(world, perHour=1, atOnce=2, attempts=1)
    world.slurm.drain("cpu-0", REASON, "root")
    until(lambda: events(world), "the first repair")
    world.slurm.drain("cpu-1", REASON, "root")

    def told() -> list[str]:
        return [note for reason, note in world.events() if reason == "BudgetSpent"]

    until(told, "that the second one waits")
    assert "cpu-1; node set cpu has reactions.perHour 1, and the next repair may be at" in told()[0]
    until(lambda: told()[0] in world.condition("Degraded", "nodesets", "cpu")["message"], "the condition")
    counted = 'pulumi_slurm_repairs_held{node_set="cpu",reason="BudgetSpent"} 1.0'
    until(lambda: counted in metrics(port), "the metric")
    assert restarts(world) == ["cpu-0"]
    assert len(told()) == 1, "once, not with each look"


def events_of_the_set(world: World) -> set[tuple[str, str]]:
    """Reasons and types of what was told about the NodeSet."""
    items = world.admin.call("GET", world.path("events"))["items"]
    return {(each["reason"], each["type"]) for each in items if each["regarding"]["kind"] == "NodeSet"}


def test_with_an_approval_mode_nothing_starts_anew_before_the_word(running_operator: World, port: int) -> None:
    world = running_operator
    world.wait("Available", "True")
    react(world, approval=True)
    world.slurm.drain("cpu-1", REASON, "root")
    asked = until(
        lambda: next(
            (each for each in world.get("nodesets", "cpu")["status"]["conditions"] if "approve=" in each["message"]),
            None,
        ),
        "the question",
    )
    word = asked["message"].partition("pulumi-slurm.dev/approve=")[2].split()[0].rstrip(";")
    assert asked["reason"] == "AwaitsApproval", "what is asked of somebody comes first"
    loud = {("AwaitsApproval", "Warning"), ("DegradedTrue", "Warning")}
    until(lambda: events_of_the_set(world) >= loud, "each has its Event")
    gauge = 'pulumi_slurm_repairs_held{node_set="cpu",reason="AwaitsApproval"}'
    until(lambda: f"{gauge} 1.0" in metrics(port), "alerts can hang on it")
    assert events(world) == []
    world.patch("nodesets", "cpu", {"metadata": {"annotations": {"pulumi-slurm.dev/approve": word}}})
    until(lambda: events(world), "the restart")
    assert restarts(world) == ["cpu-1"]
    until(lambda: f"{gauge} 0.0" in metrics(port), "nothing is asked any more")
    until(lambda: ("AwaitsApproval", "Normal") in events_of_the_set(world), "its Event warns no more")
    assert ("AwaitsApproval", "Warning") not in events_of_the_set(world)


def test_half_an_hour_after_an_up_that_died_unfit_nodes_are_repaired_and_templates_stay(
    running_operator: World,
) -> None:
    world = running_operator
    world.wait("Available", "True")
    react(world)
    world.ledger("r2")
    world.wait("Healing", "False", "UpdateInProgress")
    before = world.uid("pods", "cpu-1")
    world.slurm.drain("cpu-1", REASON, "root")
    world.wait("Degraded", "True", "NodesDrained")
    half_an_hour_passes(world)
    until(lambda: events(world), "the repair")
    until(lambda: world.uid("pods", "cpu-1") not in ("", before), "a new pod")
    change_template(world, "newer")
    held = until(
        lambda: next(
            (each for each in [world.condition("Progressing", "nodesets", "cpu")] if "wait:" in each["message"]), None
        ),
        "what the update waits for",
    )
    assert "until you run pulumi up --refresh" in held["message"]
    assert images(world) == ["none", "none"]
