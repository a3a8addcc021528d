"""Promises of previews about jobs: each edit that concerns them is told with numbers, and nothing else is."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Mapping
from typing import Any

import pulumi
import pytest

from components.config import Config, parse
from components.kubernetes.kubernetes_reader import UnreachableError
from components.preflight import counted_jobs, job_checks
from components.preflight.counted_jobs import CountedJobs
from components.preflight.job_checks import RunningCluster
from components.preflight.job_effects import Line, effects
from tests.unit.samples import GPU_SET, SMALL, changed

DAY = 24 * 60
NOW = datetime.datetime(2026, 12, 1, 12, tzinfo=datetime.UTC)
STATUS: dict[str, Any] = {
    "jobs": {
        "countedAt": "2026-12-01T11:59:00Z",
        "partitions": [
            {
                "name": "gpu",
                "running": {
                    "jobs": 5,
                    "limits": {"60": 2, str(2 * DAY): 2, "UNLIMITED": 1},
                    "nodeSets": {"cpu": 1, "h100": 4},
                },
                "waiting": {
                    "jobs": 9,
                    "limits": {"60": 4, str(2 * DAY): 1, str(7 * DAY): 4},
                    "nodes": {"1": 7, "4": 2},
                    "cpus": {"1": 5, "64": 4},
                    "memory": {"1024": 6, "500000": 3},
                    "accounts": {"bio": 4, "physics": 3, "*": 2},
                    "qos": {"long": 1, "normal": 8},
                },
            }
        ],
        "nodeSets": [
            {"name": "cpu", "replicas": 2, "cpus": 1, "memory": 768},
            {
                "name": "h100",
                "replicas": 8,
                "cpus": 120,
                "memory": 1535744,
                "nodes": [
                    {"first": 0, "last": 0, "jobs": 2, "until": "2026-12-09T00:00:00Z"},
                    {"first": 5, "last": 5, "jobs": 1, "until": "2026-12-02T06:00:00Z"},
                    {"first": 6, "last": 7, "jobs": 3, "until": "2026-12-01T18:00:00Z"},
                ],
            },
        ],
    }
}
GPU = {"name": "gpu", "nodeSets": ["h100", "cpu"], "maxTime": "7-0"}
SIDE = {"name": "side", "nodeSets": ["cpu"]}
ACCOUNTING = {"mode": "mariadb", "enforce": ["associations"], "qos": [{"name": "long"}, {"name": "other"}]}
SETS = changed("nodeSets", [SMALL["nodeSets"][0], GPU_SET], changed("accounting", ACCOUNTING))
RUNS = changed("partitions", [GPU, SIDE], SETS)
BEFORE = job_checks.declared(parse(RUNS)).partitions
JOBS = counted_jobs.read(STATUS)


def told(path: str, value: Any, jobs: CountedJobs = JOBS, before: Mapping[str, Line] = BEFORE) -> list[str]:
    """Sentences about an edit of what runs."""
    return effects(before, job_checks.declared(parse(changed(path, value, RUNS))), jobs)


def gpu(**keys: Any) -> list[dict[str, Any]]:
    return [{**GPU, **keys}, SIDE]


@pytest.mark.parametrize(
    ("path", "value", "sentence"),
    [
        (
            "partitions",
            gpu(maxTime="1-0"),
            "partition gpu: maxTime 7-0 → 1-0; 3 running jobs are longer, and keep their limit; 1 to 5 waiting jobs "
            "ask for more, and would not start (PartitionTimeLimit)",
        ),
        ("partitions", gpu(maxTime="3-0"), "7-0 → 3-0; 1 running job is longer, and keeps its limit; up to 4 waiting"),
        (
            "partitions",
            gpu(maxNodes=2),
            "partition gpu: maxNodes UNLIMITED → 2; 2 waiting jobs ask for more, and would not start "
            "(PartitionNodeLimit)",
        ),
        (
            "partitions",
            gpu(state="DOWN"),
            "partition gpu: state UP → DOWN; 9 waiting jobs would not start (PartitionDown); running ones go on",
        ),
        ("partitions", gpu(state="INACTIVE"), "9 waiting jobs would not start (PartitionInactive); running ones go on"),
        (
            "partitions",
            gpu(state="DRAIN"),
            "partition gpu: state UP → DRAIN; 14 jobs of it go on as before, and it takes no new ones",
        ),
        (
            "partitions",
            gpu(nodeSets=["h100"]),
            "partition gpu: nodeSets h100, cpu → h100; 1 running job has nodes of cpu, and keeps them; 9 waiting jobs "
            "get no nodes of cpu",
        ),
        (
            "partitions",
            gpu(nodeSets=["cpu"]),
            "partition gpu: its largest node has 120 → 1 CPUs for jobs; 4 waiting jobs need more of a node",
        ),
        (
            "nodeSets.1.resources.memory",
            "64Gi",
            "partition gpu: its largest node has 1535744 → 65280 MiB for jobs; 3 waiting jobs need more of a node",
        ),
        (
            "partitions",
            gpu(allowAccounts=["bio"]),
            "partition gpu: allowAccounts none → bio; 3 to 5 waiting jobs of physics would not start, unless an "
            "account above is allowed",
        ),
        ("partitions", gpu(denyAccounts=["bio"]), "none → bio; 4 to 6 waiting jobs of bio would not start"),
        ("partitions", gpu(allowQos=["normal"]), "allowQos none → normal; 1 waiting job of long would not start"),
        ("partitions", gpu(denyQos=["normal"]), "denyQos none → normal; 8 waiting jobs of normal would not start"),
        (
            "partitions",
            [SIDE],
            "partition gpu is removed; 5 of its jobs run and 9 wait: it takes no more, and the new configuration "
            "waits until they have ended",
        ),
        (
            "nodeSets.1.replicas",
            4,
            "node set h100: replicas 8 → 4; 4 jobs run on nodes that go, until 2026-12-02 06:00 UTC at most; these "
            "nodes stay until their jobs have ended",
        ),
        ("nodeSets.1.replicas", 7, "replicas 8 → 7; up to 3 jobs run on nodes that go, until 2026-12-01 18:00 UTC"),
        (
            "nodeSets.1",
            {**GPU_SET, "replicas": 0, "removal": {"jobs": "deadline", "deadline": "24h"}},
            "6 jobs run on nodes that go, until 2026-12-09 00:00 UTC at most; these nodes wait for 24h at most",
        ),
    ],
)
def test_an_edit_is_told_with_the_jobs_that_it_concerns(path: str, value: Any, sentence: str) -> None:
    sentences = told(path, value)
    assert any(sentence in each for each in sentences), sentences


def test_a_removed_node_set_is_told_with_its_jobs() -> None:
    only_cpu = changed("partitions", [{**GPU, "nodeSets": ["cpu"]}, SIDE])
    sentences = effects(BEFORE, job_checks.declared(parse(only_cpu)), JOBS)
    words = "node set h100 is removed; 6 jobs run on nodes that go, until 2026-12-09 00:00 UTC at most; its removal"
    assert any(words in each for each in sentences), sentences


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("partitions", gpu()),
        ("partitions", gpu(maxTime="UNLIMITED")),
        ("partitions", gpu(maxNodes=4)),
        ("partitions", gpu(allowQos=["long", "normal"])),
        ("partitions", gpu(denyQos=["other"])),
        ("partitions", [GPU, {**SIDE, "maxTime": "1", "state": "DOWN"}]),
        ("partitions", [*gpu(), {"name": "third", "nodeSets": ["cpu"], "maxTime": "1"}]),
        ("partitions", [GPU]),
        ("nodeSets.1.replicas", 9),
        ("nodeSets.1.replicas", None),
        ("nodeSets.0.replicas", 0),
        ("nodeSets.1.resources.cpu", 64),
    ],
)
def test_what_concerns_no_job_is_not_told(path: str, value: Any) -> None:
    assert told(path, value) == []


def test_accounts_below_an_allowed_one_may_be_concerned() -> None:
    """physics waits, so an account above it was allowed."""
    before = {name: {**line, "AllowAccounts": "science"} for name, line in BEFORE.items()}
    (sentence,) = told("partitions", gpu(allowAccounts=["bio"]), before=before)[:1]
    assert "allowAccounts science → bio; 3 to 5 waiting jobs of physics would not start, unless" in sentence
    assert told("partitions", gpu(allowAccounts=["bio", "science"]), before={**before, "side": BEFORE["side"]}) == []


def test_a_waiting_job_that_did_not_fit_before_is_no_effect_of_the_edit() -> None:
    small = changed("nodeSets.1.resources.cpu", 32, RUNS)
    sets = [{"name": "h100", "cpus": 48, "memory": 1535744}]
    jobs = counted_jobs.read({"jobs": {**STATUS["jobs"], "nodeSets": sets}})
    before = {"gpu": {**BEFORE["gpu"], "Nodes": "ns_h100"}}
    assert effects(before, job_checks.declared(parse(small)), jobs) == []


def test_edits_are_told_without_numbers_where_jobs_are_not_counted() -> None:
    why = "the queue is not listed, for it has more than 10,000 jobs"
    unknown = dataclasses.replace(JOBS, partitions={}, unknown=why)
    assert told("partitions", gpu(maxTime="1-0", state="DOWN"), unknown) == [
        "partition gpu: maxTime 7-0 → 1-0; partition gpu: state UP → DOWN; what that means for jobs is not known, as "
        f"they are not counted: {why}"
    ]
    assert told("partitions", gpu(), unknown) == []


def test_nodes_that_go_are_told_with_their_jobs_however_deep_the_queue_is() -> None:
    busy = {**STATUS["jobs"]["nodeSets"][1], "busy": {"0-3": 4, "5": 1, "7": 1}}
    deep = counted_jobs.read({"jobs": {"countedAt": "2026-12-01T11:59:00Z", "unknown": "deep", "nodeSets": [busy]}})
    assert told("nodeSets.1.replicas", 4, deep) == [
        "node set h100: replicas 8 → 4; 2 nodes that go have jobs; these nodes stay until their jobs have ended"
    ]
    assert told("nodeSets.1.replicas", 8, deep) == []


def test_jobs_that_are_not_counted_yet_are_told_where_there_is_an_edit() -> None:
    some = dataclasses.replace(JOBS, unread=50)
    assert told("partitions", gpu(maxTime="1-0"), some)[-1] == "50 jobs are not counted yet, so more may be concerned"
    assert told("partitions", gpu(), some) == []


def test_partitions_beyond_those_that_are_counted_are_unknown() -> None:
    some = dataclasses.replace(JOBS, left_out=1)
    (sentence,) = told("partitions", [GPU, {**SIDE, "maxTime": "1"}], some)
    assert "the operator counts those of 1 partitions" in sentence


def asking(**checks: Any) -> Config:
    return parse(changed("checks", checks, changed("partitions", gpu(maxTime="1-0"), RUNS)))


@pytest.fixture
def warned(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Warnings of a preview."""
    told: list[str] = []
    monkeypatch.setattr(pulumi.log, "warn", told.append)
    monkeypatch.setattr(pulumi.runtime, "is_dry_run", lambda: True)
    return told


def test_a_preview_warns_of_what_an_edit_means_for_jobs(warned: list[str]) -> None:
    job_checks.run(asking(jobs=True), lambda _: RunningCluster(BEFORE, JOBS))
    assert warned[0].startswith("partition gpu: maxTime 7-0 → 1-0; 3 running jobs are longer")


@pytest.mark.parametrize(
    ("checks", "asks"), [({}, False), ({"cluster": True}, True), ({"cluster": True, "jobs": False}, False)]
)
def test_a_preview_asks_where_the_configuration_lets_it(warned: list[str], checks: dict[str, bool], asks: bool) -> None:
    asked: list[Config] = []
    job_checks.run(asking(**checks), asked.append)
    assert (len(asked) == 1, warned) == (asks, [])


def test_an_update_asks_for_no_jobs(warned: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pulumi.runtime, "is_dry_run", lambda: False)
    job_checks.run(asking(jobs=True), lambda _: RunningCluster(BEFORE, JOBS))
    assert warned == []


def test_a_cluster_that_cannot_be_asked_is_one_warning(warned: list[str]) -> None:
    def unreachable(_: Config) -> RunningCluster:
        raise UnreachableError("no answer in 5 s")

    job_checks.run(asking(jobs=True), unreachable)
    assert warned == ["checks.jobs: what the plan means for jobs is not known: no answer in 5 s"]


def test_old_counts_are_told_as_such() -> None:
    running = RunningCluster(BEFORE, JOBS)
    assert "ago" not in " ".join(job_checks.sentences(asking(jobs=True), running, NOW))
    later = NOW + datetime.timedelta(hours=2)
    assert job_checks.sentences(asking(jobs=True), running, later)[-1] == (
        "jobs were counted 121 minutes ago: the operator, or Slurm, does not answer"
    )


def test_an_operator_that_has_not_counted_is_told_where_there_is_an_edit() -> None:
    running = RunningCluster(BEFORE, counted_jobs.read({}))
    (sentence,) = job_checks.sentences(asking(jobs=True), running, NOW)
    assert "not counted: the operator has not counted them yet" in sentence


def test_the_lines_of_partitions_are_read_as_they_were_written() -> None:
    text = 'Other=1\nPartitionName=a Nodes=ns_big_mem MaxTime=1-0 X="b c"\n'
    assert job_checks.partitions(text) == {
        "a": {"PartitionName": "a", "Nodes": "ns_big_mem", "MaxTime": "1-0", "X": '"b c"'}
    }
