"""Runs of node-health that stop are noted, and drain nothing."""

from pathlib import Path

import pytest
from node_health import history, report
from node_health.report import Report
from node_health.verdict import Finding, Result, Verdict
from slurm_node.conditions.health_watch import LAST, HealthWatch
from slurm_node.slurm.health_runs import longest_silence

PASSED = Result("memory", Finding(Verdict.PASS, "enough"))
FULL = Result("space", Finding(Verdict.FAIL, "/tmp is full"))


@pytest.mark.parametrize(
    ("slurm_conf", "seconds"),
    [
        ("HealthCheckInterval=30\nHealthCheckNodeState=ANY,CYCLE\n", 600.0),
        ("HealthCheckInterval=300\n", 3000.0),
        ("healthcheckinterval = 300 # seconds\nhealthchecknodestate=any\n", 3000.0),
        ("HealthCheckInterval=30\nHealthCheckNodeState=IDLE,CYCLE\n", None),
        ("HealthCheckInterval=0\n", None),
        ("", None),
    ],
)
def test_how_long_no_run_may_end_follows_from_the_configuration(slurm_conf: str, seconds: float | None) -> None:
    assert longest_silence(slurm_conf) == seconds


def write(folder: Path, at: float, *results: Result) -> None:
    told = history.followed(history.read(folder / "history"), Report(results, {}, at))
    history.write(told, folder / "history")
    report.write(Report(results, {}, at), False, folder / "results", folder / "unfit")


def watch(folder: Path, *, unknown_drains: bool = False) -> HealthWatch:
    return HealthWatch(folder / "results", folder / "unfit", unknown_drains, folder / "history")


@pytest.mark.parametrize("unknown_drains", [False, True])
def test_results_that_grow_old_are_noted_and_drain_nothing_whatever_the_policy(
    tmp_path: Path, unknown_drains: bool
) -> None:
    watched = watch(tmp_path, unknown_drains=unknown_drains)
    write(tmp_path, 1_795_694_400.0, PASSED)
    watched.tick(1000.0, lambda: 600.0)
    watched.tick(1599.0, lambda: 600.0)
    assert watched.warnings == {}
    watched.tick(1600.0, lambda: 600.0)
    why = "could not be checked: no run of node-health has ended since 2026-11-26T12:00:00Z"
    assert watched.warnings == {LAST: why}
    assert watched.causes["pulumi-slurm:health memory"] is None
    assert not any(watched.causes.values())
    write(tmp_path, 1_795_695_400.0, PASSED)
    watched.tick(1700.0, lambda: 600.0)
    assert watched.warnings == {}


def test_where_a_state_decides_whether_a_node_is_checked_old_results_are_no_news(tmp_path: Path) -> None:
    watched = watch(tmp_path)
    write(tmp_path, 0.0, PASSED)
    watched.tick(0.0, lambda: None)
    watched.tick(1e9, lambda: None)
    assert watched.warnings == {}


@pytest.mark.parametrize(("longest", "seconds"), [(600.0, 600.0), (3000.0, 3000.0), (None, 600.0)])
def test_an_old_note_of_a_quiet_job_goes_since_the_job_may_work_again(
    tmp_path: Path, longest: float | None, seconds: float
) -> None:
    watched = watch(tmp_path)
    write(tmp_path, 0.0, Result("quiet jobs", Finding(Verdict.WARNING, "7 since 2026-11-26T12:00:00Z")))
    watched.tick(0.0, lambda: longest)
    watched.tick(seconds - 1, lambda: longest)
    assert watched.quiet == {7}
    assert watched.facts.startswith("pulumi-slurm:quiet 7 since 2026-11-26T12:00:00Z")
    watched.tick(seconds, lambda: longest)
    assert watched.quiet == frozenset()
    assert "quiet 7" not in watched.facts


def test_the_note_of_a_failure_has_the_run_before_and_the_first_run_that_found_it(tmp_path: Path) -> None:
    watched = watch(tmp_path)
    mended = Result("space", Finding(Verdict.PASS, "room"))
    write(tmp_path, 1_795_694_400.0, mended)
    watched.tick(0.0)
    assert watched.facts == ""
    for at in (1_795_694_430.0, 1_795_694_460.0):
        write(tmp_path, at, FULL)
        watched.tick(at)
        assert watched.facts == (
            "pulumi-slurm:failed space, well at 2026-11-26T12:00:00Z, found at 2026-11-26T12:00:30Z; "
            "pulumi-slurm:checks FAIL space"
        )
    write(tmp_path, 1_795_694_490.0, mended)
    watched.tick(90.0)
    assert watched.facts == ""
