"""Promises about Events, against a real API server: Pulumi shows each Warning of what it waits for until it expires."""

from __future__ import annotations

import functools

import pytest
from slurm_operator import report
from slurm_operator.findings import Condition

from contract.conditions import Reason
from tests.operator.worlds.world import World, until

pytestmark = pytest.mark.apiserver


def conditions(**said: str) -> dict[str, Condition]:
    """Conditions by their type, as in `Available="False LedgerMismatch"`; what is not named is well."""
    rows = {"Available": "True Ready", "Progressing": "False Steady", "Degraded": "False AsWanted"} | said
    split = {kind: words.partition(" ") for kind, words in rows.items()}
    return {kind: Condition(kind, status, Reason(reason), "") for kind, (status, _, reason) in split.items()}


@pytest.mark.parametrize(
    ("kind", "said", "warning"),
    [
        ("Available", {}, False),
        ("Available", {"Available": "False LedgerMismatch", "Progressing": "True LedgerMismatch"}, False),
        ("Available", {"Available": "False ConfigurationMissing"}, True),
        ("Available", {"Available": "Unknown RestUnreachable"}, True),
        ("Progressing", {"Progressing": "True Scaling"}, False),
        ("Degraded", {}, False),
        ("Degraded", {"Degraded": "True NodesDown", "Progressing": "True Scaling"}, True),
        ("Healing", {"Healing": "True Held"}, False),
        ("Healing", {"Healing": "False UpdateInProgress"}, False),
        ("Healing", {"Healing": "False UpdateFailed"}, True),
        ("NodesWatched", {"NodesWatched": "False NodesUnreadable"}, True),
        ("ScaledOutsidePulumi", {"ScaledOutsidePulumi": "True ReplicasDiffer"}, False),
    ],
)
def test_only_a_fault_is_a_warning(kind: str, said: dict[str, str], warning: bool) -> None:
    assert report.warns(kind, conditions(**said)) == warning


def test_an_update_under_way_is_no_warning(running_operator: World) -> None:
    world = running_operator
    world.wait("Available", "True")
    world.ledger("r2")
    message = world.wait("Available", "False", "LedgerMismatch")["message"]
    until(lambda: world.told("Available") == [("Normal", "AvailableFalse", message)], "one Event, which is Normal")
    assert not [each for each in world.told("Available") + world.told("Progressing") if each[0] == "Warning"]


def test_a_fault_has_one_event_that_follows_it_and_is_no_warning_when_it_is_over(running_operator: World) -> None:
    world = running_operator
    world.wait("Available", "True")
    for reason in ("first fault", "second fault"):
        world.slurm.drain("cpu-1", reason, "slurm")  # A person's drain is no fault.
        until(functools.partial(degraded_names, world, reason), f"the {reason} is told")
        message = world.condition("Degraded")["message"]
        until(functools.partial(only_event_is, world, "Warning", message), "in the only Event about it")
    world.slurm.undrain("cpu-1")
    message = world.wait("Degraded", "False")["message"]
    until(functools.partial(only_event_is, world, "Normal", message), "it is no Warning any more")


def degraded_names(world: World, reason: str) -> bool:
    return reason in world.condition("Degraded")["message"]


def only_event_is(world: World, kind: str, message: str) -> bool:
    """Return whether there is one Event about Degraded, of that type and message."""
    return [(each[0], each[2]) for each in world.told("Degraded")] == [(kind, message)]
