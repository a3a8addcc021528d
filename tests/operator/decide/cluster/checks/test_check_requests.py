"""Promises about long checks on request: an annotation names nodes, each is tested once, and the verdict is told."""

from __future__ import annotations

import dataclasses
import datetime
import json
from collections.abc import Mapping
from typing import Any

import hypothesis
import jsonschema
import pytest
from hypothesis import strategies as st
from slurm_operator.decide.cluster.checks import changes, long_checks, requests
from slurm_operator.decide.cluster.checks import ledger as check_ledger
from slurm_operator.decide.cluster.checks.changes import Began, Counted, Requested, Submitted
from slurm_operator.decide.cluster.checks.ledger import CheckJob, Latest, Ledger, Request, Verdict
from slurm_operator.findings import Severity
from slurm_operator.parse.resources import parse_cluster
from slurm_operator.state.resources import LongCheck
from slurm_operator.state.slurm import SeenCheckJob, SlurmNode

from components.control.crds import long_checks as schema
from contract import names, reasons
from contract.conditions import Reason
from tests.operator.played.played_checks import PlayedChecks
from tests.operator.states.check_samples import CHECK, FAILED, NOW, ended, node, state
from tests.operator.states.sets import job

EARLIER = NOW - datetime.timedelta(minutes=20)
ALL = frozenset(f"cpu-{number}" for number in range(4))
TESTED = {("bandwidth", name): Latest(Verdict.PASS, EARLIER) for name in ALL}
"""Nodes that are not due."""


def decide(
    text: str | None = None,
    ledger: Ledger | None = None,
    *others: SlurmNode,
    check: LongCheck = CHECK,
    asked: Mapping[str, str] | None = None,
    seen: Mapping[int, SeenCheckJob | None] | None = None,
) -> long_checks.Decision:
    there, known = state(4, *others), ledger or Ledger(latest=TESTED)
    nodes = {name: node(name) for name in ALL} | {other.name: other for other in others}
    asked = ({"bandwidth": text} if text is not None else {}) if asked is None else asked
    return long_checks.decide([check], {"cpu": there}, known, known, seen or {}, NOW, nodes, (), asked)


def requested(decided: long_checks.Decision) -> list[Request]:
    return [change.request for change in decided.changes if isinstance(change, Requested)]


@pytest.mark.parametrize(
    ("text", "nodes"),
    [("cpu-1", {"cpu-1"}), ("cpu-1, cpu-3@15:04", {"cpu-1", "cpu-3"}), ("cpu", ALL), ("cpu,cpu-1@2", ALL)],
)
def test_a_request_names_nodes_or_node_sets_and_counts_once(text: str, nodes: set[str]) -> None:
    (request,) = requested(decide(text))
    assert request == Request("bandwidth", text, NOW, frozenset(nodes))
    known = changes.changed(Ledger(latest=TESTED), [Requested(request)])
    assert requested(decide(text, known)) == []
    assert requested(decide(f"{text}@again", known)) == [dataclasses.replace(request, text=f"{text}@again")]
    assert requested(decide(None, known)) == [Request("bandwidth", "", NOW)]
    assert changes.changed(known, [Requested(Request("bandwidth", "", NOW))]).requests == {}


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ({"bandwidth": "cpu-1,gpu-7,gpu-8"}, "check.pulumi-slurm.dev/bandwidth of the SlurmCluster: it tests no gpu-7, "
         "gpu-8; name nodes that the check tests, or NodeSets of them, with commas between"),
        ({"bandwidth": ""}, "it tests no nothing"),
        ({"bandwidth": "@now"}, "it tests no nothing"),
        ({"bandwidth": "cpu-1," * 700}, "it has 4200 characters, at most 4096 are possible"),
        ({"other": "cpu-1"}, "check.pulumi-slurm.dev/other of the SlurmCluster: no long check is called other; "
         "declared are: bandwidth"),
    ],
    ids=["unknown nodes", "empty", "a time alone", "too long", "no such check"],
)  # fmt: skip
def test_a_request_that_cannot_be_met_is_told_and_not_taken(asked: dict[str, str], told: str) -> None:
    decided = decide(asked=asked)
    assert (requested(decided), decided.submissions) == ([], [])
    (finding,) = decided.findings
    assert finding.reason is Reason.LONG_CHECK_REQUEST_REFUSED
    assert told in finding.message


def waiting(*nodes: str, **more: Any) -> Ledger:
    request = Request("bandwidth", "x", NOW - datetime.timedelta(minutes=5), frozenset(nodes))
    return dataclasses.replace(Ledger(latest=TESTED), requests={"bandwidth": request}, **more)


def test_requested_nodes_come_first_within_the_share_and_when_they_are_idle() -> None:
    half = dataclasses.replace(CHECK, share_percent=50)
    busy = node("cpu-2", "MIXED")
    decided = decide("x", waiting("cpu-1", "cpu-2", "cpu-3"), busy, check=half)
    assert [each.node for each in decided.submissions] == ["cpu-1", "cpu-3"]
    (told,) = decided.findings
    assert told.message == (
        "long check bandwidth on request: cpu-1 (waits for its turn), cpu-2 (not idle), cpu-3 (waits for its turn)"
    )
    assert (told.reason, told.severity) == (Reason.LONG_CHECK_REQUESTED, Severity.PROGRESSING)


def test_a_request_names_the_jobs_of_busy_nodes_and_when_they_end() -> None:
    busy = state(4, node("cpu-2", "MIXED"))
    jobs = (dataclasses.replace(job(8, "RUNNING", "cpu-2"), ends=NOW), job(9, "RUNNING", "cpu-3"))
    (told,) = requests.findings(CHECK, busy.members(), waiting("cpu-2"), jobs)
    assert told.message == "long check bandwidth on request: cpu-2 (not idle: job 8 (ends by 2026-01-01 00:00 UTC))"
    known = waiting("cpu-1", "cpu-2", jobs={7: CheckJob(7, "bandwidth", "cpu-1", NOW)})
    assert requests.untested(known) == {"cpu-2"}


@pytest.mark.parametrize(
    ("submitted", "verdict", "left"),
    [
        (NOW, Verdict.PASS, set()),
        (NOW, Verdict.FAIL, set()),
        (NOW, Verdict.UNKNOWN, set()),
        (NOW, Verdict.NONE, {"cpu-1"}),
        (EARLIER, Verdict.PASS, {"cpu-1"}),
    ],
    ids=["passes", "fails", "could not look", "cancelled", "of a job before"],
)
def test_a_verdict_of_a_later_job_answers_a_request(
    submitted: datetime.datetime, verdict: Verdict, left: set[str]
) -> None:
    known = waiting("cpu-1", jobs={7: CheckJob(7, "bandwidth", "cpu-1", submitted)})
    after = changes.changed(known, [Counted(7, verdict, NOW)] * 2)
    assert after.requests["bandwidth"].nodes == left


def test_the_answer_is_told() -> None:
    known = waiting("cpu-1", jobs={7: CheckJob(7, "bandwidth", "cpu-1", NOW)})
    passed = decide("x", known, seen={7: ended("COMPLETED", 0)})
    assert passed.answers == ["long check bandwidth on request: cpu-1: PASS"]
    unknown = decide("x", known, seen={7: ended(status=3)})
    assert unknown.answers == ["long check bandwidth on request: cpu-1: UNKNOWN (it could not look (exit status 3))"]
    assert decide("x", known, seen={7: ended("CANCELLED", 0)}).answers == []


def test_a_node_that_the_check_drained_is_tried_again_at_once_on_request_and_a_persons_is_left_alone() -> None:
    again = dataclasses.replace(CHECK, passes=2)
    drained = dataclasses.replace(node("cpu-1", "IDLE DRAIN", FAILED), reason_set=NOW)

    def tried(there: SlurmNode, ledger: Ledger | None = None) -> list[str]:
        decided = decide("x" if ledger else None, ledger, there, check=again)
        assert decided.actions == []
        return [change.retry.node for change in decided.changes if isinstance(change, Began)]

    assert tried(drained, waiting("cpu-1")) == ["cpu-1"]
    assert tried(drained) == []
    theirs = node("cpu-1", "IDLE DRAIN", "fan", "alice")
    assert tried(theirs, waiting("cpu-1")) == []
    told = [finding.message for finding in decide("x", waiting("cpu-1"), theirs).findings]
    assert told == ["long check bandwidth on request: cpu-1 (drained: fan)"]


def test_an_untested_node_is_tested_again_at_once_on_request() -> None:
    first = dataclasses.replace(CHECK, comes_first=True)
    untested = dataclasses.replace(node("cpu-1", "IDLE DRAIN", f"{reasons.UNTESTED}bandwidth"), reason_set=NOW)
    known = dataclasses.replace(waiting("cpu-1"), latest={("bandwidth", "cpu-1"): Latest(Verdict.UNKNOWN, NOW)})
    assert [change for change in decide("x", known, untested, check=first).changes if isinstance(change, Began)]


def test_the_ledger_reads_the_requests_that_it_wrote_and_forgets_nodes_that_are_gone() -> None:
    known = waiting("cpu-1", "cpu-9")
    rows = check_ledger.written(known, ["bandwidth"])
    jsonschema.validate(rows, schema.told())
    assert check_ledger.read(rows) == known
    (row,) = check_ledger.written(known, ["bandwidth"], ALL)
    assert row["requested"]["nodes"] == ["cpu-1"]


def test_annotations_of_a_slurmcluster_are_requests() -> None:
    spec = {"revision": "1", "rest": {"url": "u"}, "wantedConfig": "w", "activeConfig": "a", "controller": "c",
            "restDeployment": "r", "login": "l", "rehearsal": {"url": "d"}}  # fmt: skip
    annotations = {f"{names.CHECK_REQUEST_PREFIX}bandwidth": "cpu-1", names.ANNOTATION_STACK: "dev"}
    found = parse_cluster({"metadata": {"name": "c", "annotations": annotations}, "spec": spec})
    assert found.requested_checks == {"bandwidth": "cpu-1"}


@hypothesis.given(seed=st.integers(0, 2**32), nodes=st.integers(1, 2))
@hypothesis.settings(max_examples=40, deadline=None)
def test_each_requested_node_is_tested_once_more_or_again_after_a_restart(seed: int, nodes: int) -> None:
    check = LongCheck("net", "checks", ("cpu",), 86_400 * 365, 10, 50, drains=True, script="", nodes=nodes)
    played = PlayedChecks(seed, 6, check, set())
    for _ in range(100):
        played.step()
    assert {name for _, name in played.ledger.latest} == {*played.nodes}
    for text, wanted in (("cpu-1,cpu-4", {"cpu-1", "cpu-4"}), ("cpu@2", {*played.nodes})):
        before = len(played.jobs)
        played.asked = {"net": text}
        for _ in range(100):
            played.step()
        later = {name for number, job in played.jobs.items() if number > before for name in job.nodes}
        assert wanted <= later
        assert nodes == 2 or later == wanted
        assert played.ledger.requests["net"].nodes == set()
        assert not [change for change in played.changes if isinstance(change, Submitted | Requested)]
    before = len(played.jobs)
    for _ in range(50):
        played.step()
    assert len(played.jobs) == before, "it counts once"
    assert not played.drained


def test_the_ledger_of_thousands_of_nodes_is_smaller_than_etcd_takes_and_gives_no_node_a_later_time() -> None:
    moments = {f"h100-{n}": NOW - datetime.timedelta(seconds=17 * n) for n in range(5000)}
    known = Ledger(latest={("bandwidth", name): Latest(Verdict.PASS, at) for name, at in moments.items()})
    rows = check_ledger.written(known, ["bandwidth"])
    assert len(json.dumps(rows)) < 150_000
    latest = check_ledger.read(rows).latest
    assert latest.keys() == known.latest.keys()
    early = [moments[name] - said.at for (_, name), said in latest.items()]
    assert datetime.timedelta(0) <= min(early) <= max(early) < datetime.timedelta(minutes=5)
