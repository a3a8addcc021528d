"""The files of a run for the pod's entry and for the prolog."""

import fcntl
import json
import os
from dataclasses import replace
from pathlib import Path

import pytest
from node_health import __main__ as command
from node_health import node, report
from node_health.check import Context
from node_health.report import Report
from node_health.verdict import Action, Finding, Result, Verdict
from slurm_node.conditions.health_watch import FIRST_SECONDS, HealthWatch

PASSED = Result("memory", Finding(Verdict.PASS, "enough"))
WARNED = Result("cpus", Finding(Verdict.WARNING, "shared"))
UNKNOWN = Result("kernel log", Finding(Verdict.UNKNOWN, "no /dev/kmsg"))
FULL = Result("space", Finding(Verdict.FAIL, "/tmp is full"))
JAIL = Result("jail", Finding(Verdict.FAIL, "it is stale"))


def report_of(*results: Result, **skipped: str) -> Report:
    return Report(results, skipped, 12.5)


def test_only_what_is_known_speaks_for_or_against_the_node() -> None:
    causes = report.drain_causes(report_of(PASSED, WARNED, UNKNOWN, FULL))
    assert {cause: why for cause, why in causes.items() if why} == {"pulumi-slurm:health space": "/tmp is full"}
    assert causes["pulumi-slurm:health memory"] is causes["pulumi-slurm:health cpus"] is None
    assert "pulumi-slurm:health kernel log" not in causes


def test_a_run_lifts_the_drain_by_a_check_of_what_the_node_declares_no_more() -> None:
    assert report.drain_causes(report_of(PASSED))["pulumi-slurm:health infiniband state"] is None
    nothing_ran = Report((Result("first run", Finding(Verdict.UNKNOWN, "no run has ended")),))
    assert report.drain_causes(nothing_ran) == {}


def test_the_entry_drains_for_the_jail_by_itself() -> None:
    assert "pulumi-slurm:health jail" not in report.drain_causes(report_of(JAIL))


def test_results_survive_being_written_down() -> None:
    mended = Result("nvme", Finding(Verdict.FAIL, "nvme0 is dead"), "replace it", Action.RESTART_BM, 0.25)
    results = report_of(PASSED, UNKNOWN, FULL, mended, dns="switched off")
    text = report.as_json(results)
    assert report.from_json(text) == results
    assert json.loads(text)["verdict"] == "FAIL"


def test_the_prolog_refuses_while_a_check_fails_and_no_longer(tmp_path: Path) -> None:
    results, unfit = tmp_path / "results", tmp_path / "unfit"
    report.write(report_of(PASSED, FULL, JAIL), file=results, unfit=unfit)
    assert unfit.read_text() == "pulumi-slurm:health space: /tmp is full\n"
    assert not (tmp_path / "faulty").exists(), "a job may fill /tmp: it is not started elsewhere for that"
    report.write(report_of(PASSED, UNKNOWN, JAIL), file=results, unfit=unfit)
    assert not unfit.exists()


def test_the_epilog_fails_while_a_check_of_the_hardware_fails_and_no_longer(tmp_path: Path) -> None:
    lost = Result("gpus", Finding(Verdict.FAIL, "7 of 8"))
    report.write(report_of(FULL, lost), True, tmp_path / "results", tmp_path / "unfit")
    assert (tmp_path / "faulty").read_text() == "pulumi-slurm:health gpus: 7 of 8\n"
    unknown = replace(lost, finding=Finding(Verdict.UNKNOWN, "no answer"))
    report.write(report_of(unknown), True, tmp_path / "results", tmp_path / "unfit")
    assert not (tmp_path / "faulty").exists()
    assert (tmp_path / "unfit").exists()


def test_the_entry_forgets_the_results_of_a_container_before_and_reads_new_ones(tmp_path: Path) -> None:
    results, unfit = tmp_path / "results", tmp_path / "unfit"
    report.write(report_of(FULL), file=results, unfit=unfit)
    watch = HealthWatch(results, unfit)
    watch.tick(0)
    assert (watch.causes, watch.warnings) == ({}, None)
    assert not unfit.exists()
    report.write(report_of(FULL, WARNED), file=results, unfit=unfit)
    watch.tick(1)
    assert {cause: why for cause, why in watch.causes.items() if why} == {"pulumi-slurm:health space": "/tmp is full"}
    assert watch.causes["pulumi-slurm:health cpus"] is None
    assert watch.warnings == {"cpus": "shared"}


def test_the_entry_notes_what_did_not_pass_and_a_slow_run_for_an_hour(tmp_path: Path) -> None:
    results, unfit = tmp_path / "results", tmp_path / "unfit"
    watch = HealthWatch(results, unfit)

    def after(now: float, seconds: float, *found: Result) -> str:
        report.write(Report(found, {}, now, seconds), file=results, unfit=unfit)
        os.utime(results, (now, now))
        watch.tick(now)
        return watch.facts

    assert after(30, 0.2, PASSED) == ""
    assert after(60, 3.5, PASSED, replace(WARNED, seconds=3.4), UNKNOWN, JAIL) == (
        "pulumi-slurm:checks WARNING cpus, UNKNOWN kernel log, took 5 s (cpus)"
    )
    assert after(3600, 0.2, PASSED) == "pulumi-slurm:checks took 5 s (cpus)"
    assert after(3700, 0.2, PASSED) == ""
    watch.tick(3800, lambda: 60.0)
    assert watch.facts == "pulumi-slurm:checks UNKNOWN last run"


@pytest.fixture
def checked(monkeypatch: pytest.MonkeyPatch):
    def set_results(*results: Result) -> None:
        monkeypatch.setattr(command, "run", lambda context=None: report_of(*results))

    return set_results


@pytest.mark.parametrize(
    ("results", "code"), [([PASSED], 0), ([PASSED, WARNED], 0), ([UNKNOWN, WARNED], 3), ([UNKNOWN, FULL], 1)]
)
def test_the_exit_code_tells_the_verdict(checked, capsys, results: list[Result], code: int) -> None:
    checked(*results)
    assert command.main([]) == code
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(results)
    assert lines[0].startswith(results[0].finding.verdict)
    assert command.main(["--json"]) == code
    assert json.loads(capsys.readouterr().out)["checks"][0]["check"] == results[0].check


def test_for_slurm_the_command_says_nothing_and_leaves_the_verdict(
    checked, capsys, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("FOLDER", "LOCK", "RESULTS", "UNFIT", "HISTORY"):
        monkeypatch.setattr(node, name, tmp_path if name == "FOLDER" else tmp_path / name)
    node.write(node.Declared(), tmp_path / "declared")
    monkeypatch.setattr(node, "read", lambda: node.Declared(unknown_drains=True))
    written = []
    monkeypatch.setattr(report, "write", lambda *given: written.append(given))
    checked(FULL)
    assert command.main(["--record"]) == 0
    assert capsys.readouterr().out == ""
    assert written == [(report_of(FULL), True)]
    # A second one beside it would find the same.
    with node.LOCK.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert command.main(["--record"]) == 0
    assert len(written) == 1


@pytest.mark.parametrize("context", [Context.PERIODIC, Context.EPILOG])
def test_a_later_run_lifts_the_drain_by_a_check_that_only_the_start_makes(
    checked, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, context: Context
) -> None:
    for name in ("FOLDER", "LOCK", "RESULTS", "UNFIT", "HISTORY"):
        monkeypatch.setattr(node, name, tmp_path if name == "FOLDER" else tmp_path / name)
    monkeypatch.setattr(node, "read", lambda: node.Declared(unknown_drains=True))
    written: list[Report] = []
    monkeypatch.setattr(report, "write", lambda found, drains: written.append(found))
    silent = Result("controller", Finding(Verdict.UNKNOWN, "no answer within 3 s"))
    cause = "pulumi-slurm:health controller"
    for occasion, result in ((Context.START, silent), (context, PASSED)):
        checked(result)
        assert command.main(["--record", "--context", occasion]) == 0
    start, later = (report.drain_causes(found, unknown_drains=True) for found in written)
    assert start[cause] == "could not be checked: no answer within 3 s"
    assert later[cause] is None
    assert written[1].skipped["versions"] == command.AT_START


def test_declared_facts_survive_being_written_down(tmp_path: Path) -> None:
    declared = node.Declared(
        cpus=8, shares_cpus=True, memory_mib=100, gpus=2, mig=True, least_free_percent=3, submounts=("/a", "/b"),
        unknown_drains=True,
    )  # fmt: skip
    node.write(declared, tmp_path / "declared.json")
    assert node.read(tmp_path / "declared.json", tmp_path / "disabled") == declared


def test_a_check_is_switched_off_and_on_again_under_the_pod(tmp_path: Path) -> None:
    declared, disabled = tmp_path / "declared.json", tmp_path / "disabledChecks"
    node.write(node.Declared(), declared)
    disabled.write_text("clock\ngpu pcie\n")
    assert node.read(declared, disabled).disabled == ("clock", "gpu pcie")
    disabled.unlink()
    assert node.read(declared, disabled).disabled == ()


def test_policy_decides_whether_a_check_that_could_not_look_drains_or_is_noted() -> None:
    found = report_of(PASSED, WARNED, UNKNOWN, Result("jail", Finding(Verdict.UNKNOWN, "no probe yet")))
    told = "could not be checked: no /dev/kmsg"
    assert report.warnings(found) == {"cpus": "shared", "kernel log": told}
    assert report.warnings(found, unknown_drains=True) == {"cpus": "shared"}
    assert report.drain_causes(found, unknown_drains=True)["pulumi-slurm:health kernel log"] == told
    assert "pulumi-slurm:health kernel log" not in report.drain_causes(found)
    assert "pulumi-slurm:health jail" not in report.drain_causes(found, unknown_drains=True)


def test_a_check_that_is_switched_off_lifts_its_drain() -> None:
    assert report.drain_causes(report_of(nvme="switched off"))["pulumi-slurm:health nvme"] is None


def test_a_run_of_some_checks_keeps_what_is_known_of_the_others() -> None:
    before = report_of(WARNED, FULL, dns="no controller")
    mended = Result("space", Finding(Verdict.PASS, "room"))
    known = ("cpus", "space", "dns", "memory")
    after = report_of(mended, cpus="switched off").after(before, known)
    assert after.results == (mended,)
    assert after.skipped == {"dns": "no controller", "cpus": "switched off"}
    assert report_of(WARNED).after(report_of(FULL), known).results == (FULL, WARNED)
    assert report_of(WARNED).after(report_of(FULL), ()).results == (WARNED,), "nobody would look at it again"


def test_a_failure_stands_while_its_check_can_not_look() -> None:
    """A driver hangs after it lost a GPU."""
    hangs = Result("space", Finding(Verdict.UNKNOWN, "no answer within 8 s"), seconds=8.0)
    (upheld,) = report_of(hangs).upholding(report_of(FULL, UNKNOWN)).results
    assert upheld == replace(FULL, seconds=8.0)
    for before in (report_of(), report_of(replace(FULL, finding=Finding(Verdict.WARNING, "nearly full")))):
        assert report_of(hangs).upholding(before).results == (hangs,)
    mended = report_of(Result("space", Finding(Verdict.PASS, "room")), JAIL)
    assert mended.upholding(report_of(FULL)) == mended
    blind = Result("jail", Finding(Verdict.UNKNOWN, "no jail probe is done yet"))
    assert report_of(blind).upholding(report_of(JAIL)).results == (blind,), "the entry tells by itself"


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"checks": []}', '{"checks": [{}], "skipped": []}'])
def test_a_file_that_is_no_report_is_no_news_and_ends_no_entry(tmp_path: Path, text: str) -> None:
    """Somebody redirects a command's output there. If the entry ended, so would all jobs of its pod."""
    results, unfit = tmp_path / "results", tmp_path / "unfit"
    watch = HealthWatch(results, unfit)
    results.write_text(text)
    watch.tick(0)
    watch.tick(FIRST_SECONDS)
    assert watch.warnings == {"first run": "could not be checked: no run of node-health has ended yet"}
    report.write(report_of(FULL), file=results, unfit=unfit)
    os.utime(results, (1, 1))
    watch.tick(100)
    fails = watch.sentence
    assert fails == "pulumi-slurm:health space: /tmp is full"
    results.write_text(text)
    watch.tick(101)
    assert watch.sentence == fails


def test_the_entry_drains_and_notes_by_the_policy(tmp_path: Path) -> None:
    results = tmp_path / "results"
    for drains in (False, True):
        watch = HealthWatch(results, tmp_path / "unfit", unknown_drains=drains)
        report.write(report_of(UNKNOWN), drains, results, tmp_path / "unfit")
        watch.tick(0)
        assert any(watch.causes.values()) is drains
        assert bool(watch.warnings) is not drains
        assert (tmp_path / "unfit").exists() is drains


@pytest.mark.parametrize("drains", [False, True])
def test_a_node_of_which_no_run_ever_ended_is_not_taken_for_fit(tmp_path: Path, drains: bool) -> None:
    results, unfit = tmp_path / "results", tmp_path / "unfit"
    watch = HealthWatch(results, unfit, unknown_drains=drains)
    for now in (5, 5 + FIRST_SECONDS - 1):
        watch.tick(now)
        assert (watch.causes, watch.warnings) == ({}, None)
    watch.tick(5 + FIRST_SECONDS)
    told = watch.causes if drains else watch.warnings
    assert told
    assert [*told.values()] == ["could not be checked: no run of node-health has ended yet"]
    report.write(report_of(PASSED), drains, results, unfit)
    for now in (100, 101):
        watch.tick(now)
        assert set(watch.causes.values()) == {None}, "its drain is lifted"
        assert "pulumi-slurm:health first run" in watch.causes or not drains
        assert watch.warnings == {}


def test_what_could_not_be_looked_at_comes_first_in_the_note() -> None:
    assert [*report.warnings(report_of(WARNED, UNKNOWN))] == ["kernel log", "cpus"]
