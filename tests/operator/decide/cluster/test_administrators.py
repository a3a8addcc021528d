"""Promises about Slurm's administrators: the stack's config names some, and leaves those of others alone."""

from __future__ import annotations

import pytest
from slurm_operator.decide.cluster.administrators import changes

from tests.operator.worlds.world import World, stateful_set, until

ADMIN, OPERATOR, NOBODY = "Administrator", "Operator", "None"


@pytest.mark.parametrize(
    ("wanted", "given", "known", "changed"),
    [
        ({"boss": ADMIN}, {}, {}, {"boss": ADMIN}),
        ({"boss": ADMIN}, {}, {"boss": OPERATOR}, {"boss": ADMIN}),
        ({"boss": ADMIN}, {"boss": ADMIN}, {"boss": ADMIN}, {}),
        ({"boss": ADMIN}, {"boss": ADMIN}, {}, {"boss": ADMIN}),
        ({}, {"boss": ADMIN}, {"boss": ADMIN, "root": ADMIN}, {"boss": NOBODY}),
        ({}, {}, {"boss": ADMIN, "root": ADMIN}, {}),
        ({}, {"boss": OPERATOR}, {"boss": ADMIN}, {}),
        ({"boss": OPERATOR}, {"boss": ADMIN}, {"boss": ADMIN}, {"boss": OPERATOR}),
    ],
    ids=[
        "new", "raised", "as wanted", "taken by hand", "no more", "somebody else's", "changed by hand since", "lowered",
    ],
)  # fmt: skip
def test_whose_level_changes(
    wanted: dict[str, str], given: dict[str, str], known: dict[str, str], changed: dict[str, str]
) -> None:
    assert changes(wanted, given, known) == changed


@pytest.mark.apiserver
def test_who_is_named_is_appointed_and_who_is_named_no_more_is_an_ordinary_user_again(running_operator: World) -> None:
    world = running_operator
    world.wait("Available", "True")
    world.create("statefulsets", stateful_set("slurm-accounting", "accounting"))
    people: dict[str, str | None] = {"boss": ADMIN, "helper": OPERATOR}
    world.patch("slurmclusters", "test", {"spec": {"accounting": "slurm-accounting", "administrators": people}})
    until(lambda: world.slurm.levels == {"root": ADMIN, "boss": ADMIN, "helper": OPERATOR}, "both are appointed")
    said = (
        "set the AdminLevel in slurmdbd, as login.users of the stack's config says: boss Administrator, helper Operator"
    )
    until(lambda: ("Appoint", said) in world.events(), "it is told")
    world.slurm.levels["friend"] = ADMIN
    world.patch("slurmclusters", "test", {"spec": {"administrators": {"boss": None}}})
    after = {"root": ADMIN, "boss": NOBODY, "helper": OPERATOR, "friend": ADMIN}
    until(lambda: world.slurm.levels == after, "who is named no more has no level; another's stays")
