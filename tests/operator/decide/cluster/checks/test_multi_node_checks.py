"""Promises about long checks of several nodes: they find the bad node, and drain no other."""

from __future__ import annotations

import datetime

import hypothesis
import pytest
from hypothesis import strategies as st
from slurm_operator.actions import Drain
from slurm_operator.decide.cluster.checks import changes, long_checks, selection
from slurm_operator.decide.cluster.checks.changes import Counted, Failed
from slurm_operator.decide.cluster.checks.ledger import Aim, CheckJob, Latest, Ledger, Verdict
from slurm_operator.reconcile.health.long_checks import job
from slurm_operator.state.resources import LongCheck
from slurm_operator.state.slurm import SeenCheckJob, SlurmNode

from contract import names
from contract.conditions import Reason
from tests.operator.played.played_checks import START, PlayedChecks
from tests.operator.states.check_samples import IDLE, NOW, state

PAIRS = LongCheck("net", "checks", ("cpu",), 86_400, 10, 100, drains=True, script="#!/bin/sh\n", nodes=2)
GOOD, SUSPECT = Latest(Verdict.PASS, NOW - datetime.timedelta(hours=1)), Latest(Verdict.SUSPECT, NOW)
LATER = NOW + selection.SUSPECT_AFTER


def chosen(size: int, latest: dict[str, Latest], check: LongCheck = PAIRS) -> list[tuple[tuple[str, ...], Aim]]:
    ledger = Ledger(latest={("net", name): said for name, said in latest.items()})
    members = state(size).members()
    return [(each.nodes, each.aim) for each in selection.submissions(check, members, ledger, set(), LATER)]


@pytest.mark.parametrize(
    ("size", "latest", "expected"),
    [
        (4, {}, [(("cpu-0", "cpu-1"), Aim.TESTS), (("cpu-2", "cpu-3"), Aim.TESTS)]),
        # The last one that is due has a partner that is not.
        (3, {"cpu-0": GOOD, "cpu-1": GOOD}, [(("cpu-2", "cpu-0"), Aim.TESTS)]),
        (1, {}, []),
        (4, dict.fromkeys(("cpu-0", "cpu-1", "cpu-2", "cpu-3"), GOOD), []),
        # Each suspect has a good partner of its own.
        (
            4,
            {"cpu-0": SUSPECT, "cpu-1": SUSPECT, "cpu-2": GOOD, "cpu-3": GOOD},
            [(("cpu-0", "cpu-2"), Aim.ACCUSES), (("cpu-1", "cpu-3"), Aim.ACCUSES)],
        ),
        # One that passed is a better partner than one that nobody tested.
        (4, {"cpu-0": SUSPECT, "cpu-3": GOOD}, [(("cpu-0", "cpu-3"), Aim.ACCUSES), (("cpu-1", "cpu-2"), Aim.TESTS)]),
        # Nobody is accused beside a node that may be bad.
        (3, {"cpu-0": SUSPECT, "cpu-1": SUSPECT}, [(("cpu-0", "cpu-2"), Aim.TESTS)]),
        # A node that a person undrained after its failure is a suspect.
        (2, {"cpu-0": Latest(Verdict.FAIL, NOW), "cpu-1": GOOD}, [(("cpu-0", "cpu-1"), Aim.ACCUSES)]),
        # Two suspects alone: nobody can say which, and they are not tested all the time.
        (2, {"cpu-0": SUSPECT, "cpu-1": SUSPECT}, []),
    ],
    ids=[
        "all",
        "filled up",
        "too few",
        "not due",
        "suspects",
        "better partner",
        "unknown partner",
        "undrained",
        "suspects alone",
    ],
)
def test_which_nodes_are_tested_together(
    size: int, latest: dict[str, Latest], expected: list[tuple[tuple[str, ...], Aim]]
) -> None:
    assert chosen(size, latest) == expected


def test_suspects_without_good_partners_are_tested_in_other_groups_after_a_while() -> None:
    old = Latest(Verdict.SUSPECT, NOW - datetime.timedelta(hours=2))
    groups = chosen(4, {f"cpu-{number}": old for number in range(4)})
    assert sorted(node for nodes, _ in groups for node in nodes) == ["cpu-0", "cpu-1", "cpu-2", "cpu-3"]
    assert {aim for _, aim in groups} == {Aim.TESTS}


GROUP = CheckJob(7, "net", "cpu-0", NOW, others=("cpu-1",))
ACCUSING = CheckJob(7, "net", "cpu-0", NOW, others=("cpu-1",), aim=Aim.ACCUSES)


@pytest.mark.parametrize(
    ("job", "verdict", "before", "after"),
    [
        (GROUP, Verdict.FAIL, {"cpu-1": GOOD}, {"cpu-0": Verdict.SUSPECT, "cpu-1": Verdict.SUSPECT}),
        (GROUP, Verdict.PASS, {"cpu-0": SUSPECT}, {"cpu-0": Verdict.PASS, "cpu-1": Verdict.PASS}),
        (GROUP, Verdict.NONE, {}, {"cpu-0": Verdict.NONE, "cpu-1": Verdict.NONE}),
        (ACCUSING, Verdict.FAIL, {"cpu-0": SUSPECT, "cpu-1": GOOD}, {"cpu-0": Verdict.FAIL, "cpu-1": Verdict.PASS}),
        # A partner whose verdict was lost meanwhile may be the bad one.
        (ACCUSING, Verdict.FAIL, {"cpu-0": SUSPECT}, {"cpu-0": Verdict.FAIL, "cpu-1": Verdict.SUSPECT}),
        (ACCUSING, Verdict.PASS, {"cpu-0": SUSPECT, "cpu-1": GOOD}, {"cpu-0": Verdict.PASS, "cpu-1": Verdict.PASS}),
        (ACCUSING, Verdict.NONE, {"cpu-0": SUSPECT, "cpu-1": GOOD}, {"cpu-0": Verdict.SUSPECT, "cpu-1": Verdict.PASS}),
        (ACCUSING, Verdict.UNKNOWN, {"cpu-0": SUSPECT}, {"cpu-0": Verdict.SUSPECT, "cpu-1": Verdict.UNKNOWN}),
    ],
)
def test_what_a_verdict_says_about_each_node(
    job: CheckJob, verdict: Verdict, before: dict[str, Latest], after: dict[str, Verdict]
) -> None:
    ledger = Ledger({7: job}, {("net", name): said for name, said in before.items()})
    counted = changes.changed(ledger, [Counted(7, verdict, NOW), Counted(7, verdict, NOW)])
    assert {name: said.verdict for (_, name), said in counted.latest.items()} == after
    assert counted.counts == {("net", verdict): 1}


def ended(*nodes: str) -> SeenCheckJob:
    name = f"{names.LONG_CHECK_PREFIX}net"
    return SeenCheckJob(name, names.LONG_CHECK_USER_ID, frozenset(nodes), frozenset({"FAILED"}), 1)


def decide(job: CheckJob, seen: SeenCheckJob) -> long_checks.Decision:
    nodes = {f"cpu-{number}": SlurmNode(f"cpu-{number}", IDLE) for number in range(4)}
    ledger = Ledger({7: job})
    return long_checks.decide([PAIRS], {"cpu": state(4)}, ledger, ledger, {7: seen}, NOW, nodes, ())


def test_a_group_that_fails_drains_nobody_and_a_suspect_that_fails_is_drained() -> None:
    group = decide(GROUP, ended("cpu-0", "cpu-1"))
    assert (group.drains, group.changes) == (
        [],
        [Counted(7, Verdict.FAIL, NOW, "job 7 FAILED, exit status 1 beside cpu-1")],
    )
    why = "job 7 FAILED, exit status 1 beside cpu-1"
    accused = decide(ACCUSING, ended("cpu-0", "cpu-1"))
    assert accused.changes == [Failed(7, why)]
    assert accused.drains == [Drain("cpu-0", f"pulumi-slurm:health long net: {why}")]


def test_a_job_on_other_nodes_is_not_the_checks() -> None:
    forgotten = Counted(7, Verdict.UNKNOWN, NOW, "slurmctld does not know it any more")
    assert decide(GROUP, ended("cpu-0", "cpu-3")).changes == [forgotten]


def test_suspects_are_told_of_and_whether_they_can_be_told_apart() -> None:
    latest = {("net", "cpu-0"): SUSPECT, ("net", "cpu-1"): SUSPECT}
    told = [
        [each for each in long_checks.decide([PAIRS], {"cpu": state(size)}, Ledger(latest=latest), Ledger(), {}, NOW,
                                             {}, ()).findings if each.reason is Reason.LONG_CHECK_FAILED]
        for size in (4, 2)
    ]  # fmt: skip
    assert [each.message for (each,) in told] == [
        "long check net failed on some of: cpu-0, cpu-1; each is tested beside others",
        "long check net failed on some of: cpu-0, cpu-1; too few other nodes take jobs to find the bad one",
    ]


def test_a_job_of_several_nodes_asks_for_all_of_them() -> None:
    asked = job(selection.Submission(PAIRS, "cpu-3", NOW, ("cpu-1",)))
    assert (asked["required_nodes"], asked["minimum_nodes"], asked["maximum_nodes"]) == (["cpu-3", "cpu-1"], 2, 2)
    assert "reservation" not in asked
    assert "HOME=/tmp" in asked["environment"], "Open MPI needs one, and nobody has none"


@hypothesis.given(seed=st.integers(0, 2**32))
@hypothesis.settings(max_examples=10, deadline=None)
def test_a_check_that_fails_everywhere_drains_nobody(seed: int) -> None:
    played = PlayedChecks(seed, 8, PAIRS, {f"cpu-{number}" for number in range(8)})
    for _ in range(150):
        played.step()
    assert played.drained == []
    assert len([job for job in played.jobs.values() if job.states == {"FAILED"}]) > 8


@hypothesis.given(seed=st.integers(0, 2**32), size=st.integers(3, 12), nodes=st.integers(2, 4), bad=st.integers(0, 11))
@hypothesis.settings(max_examples=60, deadline=None)
def test_the_one_bad_node_is_drained_and_no_other_one_ever(seed: int, size: int, nodes: int, bad: int) -> None:
    """In any order of ends, with restarts and verdicts that are told twice; each cancelled job may cost an hour."""
    hypothesis.assume(size >= 2 * nodes - 1)
    check = LongCheck("net", "checks", ("cpu",), 86_400, 10, 100, drains=True, script="", nodes=nodes)
    name = f"cpu-{bad % size}"
    played = PlayedChecks(seed, size, check, {name})
    while not played.drained and played.now < START + datetime.timedelta(hours=24):
        played.step()
    for _ in range(100):
        played.step()
    assert played.drained == [name]
    others = {node: said.verdict for (_, node), said in played.ledger.latest.items() if node != name}
    assert not {node for node, verdict in others.items() if verdict is Verdict.SUSPECT}
