"""The files of a run for the pod's entry and for the prolog."""

import fcntl
import json
from pathlib import Path

import pytest
from node_health import __main__ as command
from node_health import node, report
from node_health.verdict import Finding, Result, Verdict
from slurm_node.conditions.health_watch import HealthWatch

PASSED = Result("memory", Finding(Verdict.PASS, "enough"))
WARNED = Result("cpus", Finding(Verdict.WARNING, "shared"))
UNKNOWN = Result("kernel log", Finding(Verdict.UNKNOWN, "no /dev/kmsg"))
FULL = Result("space", Finding(Verdict.FAIL, "/tmp is full"))
JAIL = Result("jail", Finding(Verdict.FAIL, "it is stale"))


def test_only_what_is_known_speaks_for_or_against_the_node() -> None:
    assert report.drain_causes([PASSED, WARNED, UNKNOWN, FULL]) == {
        "pulumi-slurm:health memory": None,
        "pulumi-slurm:health cpus": None,
        "pulumi-slurm:health space": "/tmp is full",
    }


def test_the_entry_drains_for_the_jail_by_itself() -> None:
    assert report.drain_causes([JAIL]) == {}


def test_results_survive_being_written_down() -> None:
    results = [PASSED, UNKNOWN, FULL]
    text = report.as_json(results)
    assert report.from_json(text) == results
    assert json.loads(text)["verdict"] == "FAIL"


def test_the_prolog_refuses_while_a_check_fails_and_no_longer(tmp_path: Path) -> None:
    results, unfit = tmp_path / "results", tmp_path / "unfit"
    report.write([PASSED, FULL, JAIL], results, unfit)
    assert unfit.read_text() == "pulumi-slurm:health space: /tmp is full\n"
    report.write([PASSED, UNKNOWN, JAIL], results, unfit)
    assert not unfit.exists()


def test_the_entry_forgets_the_results_of_a_container_before_and_reads_new_ones(tmp_path: Path) -> None:
    results, unfit = tmp_path / "results", tmp_path / "unfit"
    report.write([FULL], results, unfit)
    watch = HealthWatch(results, unfit)
    watch.tick()
    assert (watch.causes, watch.warnings) == ({}, None)
    assert not unfit.exists()
    report.write([FULL, WARNED], results, unfit)
    watch.tick()
    assert watch.causes == {"pulumi-slurm:health space": "/tmp is full", "pulumi-slurm:health cpus": None}
    assert watch.warnings == {"cpus": "shared"}


@pytest.fixture
def checked(monkeypatch: pytest.MonkeyPatch):
    def set_results(*results: Result) -> None:
        monkeypatch.setattr(command, "run", lambda: list(results))

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
    for name in ("FOLDER", "LOCK", "RESULTS", "UNFIT"):
        monkeypatch.setattr(node, name, tmp_path if name == "FOLDER" else tmp_path / name)
    written = []
    monkeypatch.setattr(report, "write", written.append)
    checked(FULL)
    assert command.main(["--record"]) == 0
    assert capsys.readouterr().out == ""
    assert written == [[FULL]]
    # A second one beside it would find the same.
    with node.LOCK.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert command.main(["--record"]) == 0
    assert len(written) == 1


def test_declared_facts_survive_being_written_down(tmp_path: Path) -> None:
    declared = node.Declared(cpus=8, shares_cpus=True, memory_mib=100, gpus=2, least_free_percent=3)
    node.write(declared, tmp_path / "declared.json")
    assert node.read(tmp_path / "declared.json") == declared
