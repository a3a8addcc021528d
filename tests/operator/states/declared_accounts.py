"""Declared accounts, and the steps that bring slurmdbd to them."""

from __future__ import annotations

from hypothesis import strategies as st
from slurm_operator.accounts import Declared, Entity, Ledger, Records
from slurm_operator.decide.cluster.accounts import Change, Decision, decide

from tests.operator.played.played_database import ACCOUNT, QOS, USER, PlayedDatabase


def bring(database: PlayedDatabase, declared: Declared, ledger: Ledger) -> tuple[Ledger, Decision]:
    """Decide and do, until nothing is left."""
    for _ in range(3):
        decision = decide(declared, ledger, database.found())
        ledger = decision.ledger
        if not decision.steps:
            return ledger, decision
        for step in decision.steps:
            database.apply(step)
            if isinstance(step, Change) and step.makes:
                ledger = Ledger(ledger.given, ledger.made | {step.entity})
    raise AssertionError(f"never at rest: {[str(step) for step in decision.steps]}")


_NAMES = st.sampled_from(["a", "b", "c"])
_VALUES = st.dictionaries(st.sampled_from(["MaxJobs", "GrpJobs", "Fairshare"]), st.sampled_from(["2", "3"]))


@st.composite
def declarations(draw: st.DrawFn) -> Records:
    """Accounts below each other, their users, and QOS that they may have."""
    names = draw(st.lists(_NAMES, unique=True))
    tree = {name: draw(st.sampled_from(["root", *names[:index]])) for index, name in enumerate(names)}
    qos = draw(st.lists(st.sampled_from(["low", "high"]), unique=True))
    made: dict[Entity, dict[str, str]] = {Entity(QOS, name): {"Priority": draw(st.sampled_from("12"))} for name in qos}
    for name, parent in tree.items():
        made[Entity(ACCOUNT, name)] = {"Parent": parent, **draw(_VALUES)}
        for user in draw(st.lists(st.sampled_from(["al", "bo"]), unique=True)):
            made[Entity(USER, f"{name}/{user}")] = draw(_VALUES)
    return made
