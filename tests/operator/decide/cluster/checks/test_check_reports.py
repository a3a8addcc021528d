"""Promises about what a long check's job reports in its Comment: it adds evidence, and overrules no end."""

from __future__ import annotations

import dataclasses
import datetime
import json
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st
from slurm_operator.actions import Drain
from slurm_operator.decide.cluster.checks import changes, ledger, long_checks, reports
from slurm_operator.decide.cluster.checks.changes import Counted
from slurm_operator.decide.cluster.checks.ledger import Latest, Ledger, Verdict

from contract import check_reports, reasons
from tests.operator.states.check_samples import CHECK, NOW, ended, state
from tests.operator.states.long_check_steps import OPEN, decide, ledger_of

SLOW = '{"verdict": "FAIL", "measured": 215, "least": 400, "unit": "GB/s", "evidence": "the slowest of 8 GPUs"}'
WORDS = "215 GB/s of at least 400; the slowest of 8 GPUs"
FAST = '{"verdict": "PASS", "measured": 482.05, "least": 400, "unit": "GB/s"}'
KEY = "a3f1" * 8


@pytest.mark.parametrize(
    ("end", "status", "comment", "verdict", "why"),
    [
        ("COMPLETED", 0, FAST, Verdict.PASS, "482.05 GB/s of at least 400"),
        ("COMPLETED", 0, '{"verdict": "WARNING", "evidence": "one link is down"}', Verdict.PASS,
         "WARNING: one link is down"),
        ("COMPLETED", 0, "what a site notes", Verdict.PASS, ""),
        ("COMPLETED", 0, "{", Verdict.PASS, "its report counts for nothing: it is no JSON"),
        ("COMPLETED", 0, SLOW, Verdict.UNKNOWN, f"it exited with 0, though it reported FAIL: {WORDS}"),
        ("COMPLETED", 0, '{"verdict": "UNKNOWN"}', Verdict.UNKNOWN, "it exited with 0, though it reported UNKNOWN"),
        ("COMPLETED", 0, '{"verdict": "PASS", "measured": 1, "least": 2}', Verdict.UNKNOWN,
         "it exited with 0, though it reported PASS: 1 of at least 2"),
        ("FAILED", 63, SLOW, Verdict.FAIL, f"job 7 FAILED, exit status 63: {WORDS}"),
        ("FAILED", 63, "", Verdict.FAIL, "job 7 FAILED, exit status 63 (it reached 53 % of 400 GB/s)"),
        ("FAILED", 63, "{}", Verdict.FAIL, "job 7 FAILED, exit status 63 (it reached 53 % of 400 GB/s); "
         "its report counts for nothing: a field is not as the schema says"),
        ("FAILED", 1, FAST, Verdict.FAIL,
         "job 7 FAILED, exit status 1, though it reported PASS: 482.05 GB/s of at least 400"),
        ("FAILED", 3, '{"verdict": "UNKNOWN", "evidence": "no host engine"}', Verdict.UNKNOWN,
         "it could not look (exit status 3): no host engine"),
        ("FAILED", 3, FAST, Verdict.UNKNOWN,
         "it could not look (exit status 3), though it reported PASS: 482.05 GB/s of at least 400"),
        ("TIMEOUT", 0, FAST, Verdict.FAIL, "job 7 TIMEOUT, though it reported PASS: 482.05 GB/s of at least 400"),
        ("CANCELLED", 0, SLOW, Verdict.NONE, "CANCELLED"),
    ],
)  # fmt: skip
def test_a_report_adds_evidence_to_a_jobs_end(end: str, status: int, comment: str, verdict: Verdict, why: str) -> None:
    assert long_checks.judge(OPEN, ended(end, status, comment=comment), "400 GB/s") == (verdict, why)


def test_only_the_report_of_the_ledgers_job_is_read() -> None:
    forgotten = (Verdict.UNKNOWN, "slurmctld does not know it any more")
    assert long_checks.judge(OPEN, ended("COMPLETED", 0, user_id=1000, comment=FAST)) == forgotten


@given(
    st.sampled_from(["FAILED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY", "BOOT_FAIL", "CANCELLED", "PREEMPTED"]),
    st.sampled_from([1, 3, 63, 127]),
    st.one_of(st.text(), st.sampled_from([SLOW, FAST, '{"verdict": "PASS"}'])),
)
def test_no_comment_changes_the_verdict_of_a_job_that_did_not_complete(end: str, status: int, comment: str) -> None:
    plain, said = (long_checks.judge(OPEN, ended(end, status, comment=text)) for text in ("", comment))
    assert plain
    assert said
    assert plain[0] is said[0] is not Verdict.PASS
    assert said[1].isprintable()


@pytest.mark.parametrize(
    ("changed", "fits"),
    [
        ({}, True),
        ({"measured": 0, "least": 0.5, "unit": "%", "evidence": "GPU-5e2b1b1c-8b0e-4c1d-9f5b-0d7a5f4c3b2a"}, True),
        ({"evidence": "see /sys/class/infiniband/mlx5_0/ports/1/state"}, True),
        ({"evidence": "12 tokens per second: too few, as the token rate says"}, True),
        ({"verdict": "GOOD"}, False),
        ({"verdict": None}, False),
        ({"more": "a field"}, False),
        ({"measured": -1}, False),
        ({"measured": 2e9}, False),
        ({"measured": True}, False),
        ({"measured": None}, False),
        ({"measured": "215"}, False),
        ({"unit": "GB s"}, False),
        ({"unit": "G" * 17}, False),
        ({"evidence": ""}, False),
        ({"evidence": "x " * 101}, False),
        ({"evidence": "two\nlines"}, False),
        ({"evidence": "a line\n"}, False),
        ({"evidence": "a bell \a"}, False),
        ({"evidence": "set by [root@now]"}, False),
        ({"evidence": 'a "quote"'}, False),
        ({"evidence": f"key {KEY}"}, False),
        ({"evidence": "password: hunter2"}, False),
        ({"evidence": "Bearer abc"}, False),
    ],
)  # fmt: skip
def test_the_operator_takes_what_the_published_schema_takes(changed: dict[str, Any], fits: bool) -> None:
    report = {"verdict": "FAIL", **changed}
    validator = jsonschema.Draft202012Validator(check_reports.SCHEMA)
    assert validator.is_valid(report) is fits
    read = reports.read(json.dumps(report))
    assert isinstance(read, reports.Report) is fits
    if not fits:
        field = next(iter(changed))
        assert read == f"{field if field != 'more' else 'a field'} is not as the schema says", "and quotes nothing"


@pytest.mark.parametrize(
    ("comment", "why"),
    [
        (json.dumps({"verdict": "FAIL"}) + " " * 1024, "it has more than 1024 bytes"),
        ('{"verdict": "FAIL"', "it is no JSON"),
        ('{"verdict": "FAIL"} and more', "it is no JSON"),
        ('{"verdict": "\ud800"}', "it is no JSON"),
        ('{"verdict": "FAIL", "measured": NaN}', "it is no JSON"),
        ('{"a": ' * 160, "a field is not as the schema says"),
    ],
    ids=["long", "broken", "more", "no text", "no number", "deep"],
)
def test_a_broken_report_is_refused(comment: str, why: str) -> None:
    assert reports.read(comment) == why


def test_the_drains_reason_has_the_evidence() -> None:
    (drain,) = decide(state(), ledger_of(OPEN), {7: ended(status=63, comment=SLOW)}).drains
    assert drain == Drain("cpu-1", f"{reasons.LONG_CHECK}bandwidth: job 7 FAILED, exit status 63: {WORDS}")


def test_without_a_drain_status_and_condition_have_it() -> None:
    check = dataclasses.replace(CHECK, drains=False)
    why = f"job 7 FAILED, exit status 63: {WORDS}"
    counted = decide(state(), ledger_of(OPEN), {7: ended(status=63, comment=SLOW)}, check).changes
    known = changes.changed(ledger_of(OPEN), counted)
    assert known.latest["bandwidth", "cpu-1"] == Latest(Verdict.FAIL, NOW, why)
    (row,) = ledger.written(known, ["bandwidth"])
    assert row["checked"] == [{"at": "2026-01-01T00:00:00Z", "verdict": "FAIL", "nodes": ["cpu-1"], "why": why}]
    assert ledger.read([row]).latest == known.latest
    told = [finding.message for finding in decide(state(), known, check=check).findings]
    assert told == [f"long check bandwidth failed: cpu-1 ({why})"]


def test_a_warning_counts_as_a_pass_and_is_told_by_an_event() -> None:
    warned = ended("COMPLETED", 0, comment='{"verdict": "WARNING", "measured": 390, "least": 400, "unit": "GB/s"}')
    decided = decide(state(), ledger_of(OPEN), {7: warned})
    words = "WARNING: 390 GB/s of at least 400"
    assert decided.changes == [Counted(7, Verdict.PASS, NOW, words)]
    assert decided.answers == [f"long check bandwidth: cpu-1: {words}"]
    assert decide(state(), ledger_of(OPEN), {7: ended("COMPLETED", 0, comment=FAST)}).answers == []


def test_the_status_has_a_bounded_number_of_texts_and_those_of_bad_nodes_first() -> None:
    at = NOW + datetime.timedelta(hours=1)
    good = {("bandwidth", f"good-{n}"): Latest(Verdict.PASS, at, f"{n} GB/s") for n in range(200)}
    bad = {("bandwidth", f"bad-{n}"): Latest(Verdict.FAIL, NOW, f"job {n}") for n in range(30)}
    lacking = {("bandwidth", f"none-{n}"): Latest(Verdict.UNKNOWN, NOW, "the jail lacks it") for n in range(300)}
    (row,) = ledger.written(Ledger(latest=good | bad | lacking), ["bandwidth"])
    whys = {node: group["why"] for group in row["checked"] for node in group["nodes"] if "why" in group}
    assert len({*whys.values()}) == ledger.MOST_WHYS
    assert {name for _, name in (*bad, *lacking)} < whys.keys()
    assert sum(len(group["nodes"]) for group in row["checked"]) == 530, "no verdict is lost"
