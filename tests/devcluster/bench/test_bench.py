"""`make bench` finds all that it measures."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from bench import __main__ as bench
from bench import report
from bench.measurement import Measurement
from devcluster.cli import commands
from devcluster.machine.bootstrap import CHECKOUT


def test_an_unknown_measurement_is_answered_with_the_known_ones():
    command = [sys.executable, "-m", "bench", "no-such"]
    done = subprocess.run(
        command, cwd=CHECKOUT, env=commands.bench_environment(), capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 2
    assert "unknown: no-such" in done.stderr
    assert "many-nodes" in done.stderr


def test_a_part_alone_starts_no_cluster_that_it_does_not_need_and_leaves_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    row = Measurement("srun on cgroup v2 with the plugin ÷ without", 1.02, 1.05, detail={"with, ms": 300.0})
    monkeypatch.setattr(bench, "DOCS", tmp_path)
    monkeypatch.setitem(bench.MEASUREMENTS, "steps-v2", lambda _: [row])
    monkeypatch.setattr(bench.up, "up", lambda *_: pytest.fail("a dev cluster was started"))

    assert bench.main(["steps-v2"]) == 0

    assert (
        "| srun on cgroup v2 with the plugin ÷ without | 1.02 x | ≤ 1.05 x | with, ms 300 |" in capsys.readouterr().out
    )
    assert not [*tmp_path.iterdir()]


def test_one_of_the_longest_writes_its_own_part_of_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "DOCS", tmp_path)
    monkeypatch.setitem(bench.MEASUREMENTS, "deepest-queue", lambda _: [Measurement("deep", 1, 2)])

    assert bench.main(["deepest-queue"]) == 0

    assert [*report.read(tmp_path).alone] == ["deepest-queue"]


def test_a_bound_that_was_not_kept_is_an_exit_status(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "DOCS", tmp_path)
    monkeypatch.setitem(bench.MEASUREMENTS, "steps-v2", lambda _: [Measurement("slow", 2, 1.05)])
    assert bench.main(["steps-v2"]) == 1


def test_a_measurement_that_fails_leaves_the_others_their_turn_and_none_of_its_old_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(_: object) -> list[Measurement]:
        raise RuntimeError("no such node")

    before = report.Run("1 May 2026, commit a", {"steps-v2": [Measurement("old", 1, 2)]})
    report.write(report.Report(before, {}), tmp_path)
    monkeypatch.setattr(bench, "DOCS", tmp_path)
    monkeypatch.setattr(bench, "MEASUREMENTS", {"steps-v2": fails, "weights": lambda _: [Measurement("w", 1, 2)]})

    assert bench.main([]) == 1

    shown = report.read(tmp_path).whole
    assert [*shown.parts] == ["weights"]
    assert shown.missing == ("steps-v2",)
    told = capsys.readouterr().err
    assert "no such node" in told
    assert "failed: steps-v2" in told
