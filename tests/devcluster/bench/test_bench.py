"""`make bench` finds all that it measures."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from bench import __main__ as bench
from bench.measurement import Measurement, read_report
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


def test_what_needs_no_cluster_starts_none_and_its_row_joins_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = {
        "warm-up": [{"name": "warm make up", "value": 5, "bound": 120}],
        "weights": [{"name": "w", "value": 1, "bound": 2}],
    }
    (tmp_path / "benchmarks.json").write_text(json.dumps(before))
    row = Measurement("srun on cgroup v2 with the plugin ÷ without", 1.02, 1.05, detail={"with, ms": 300.0})
    monkeypatch.setattr(bench, "DOCS", tmp_path)
    monkeypatch.setitem(bench.MEASUREMENTS, "steps-v2", lambda _: [row])
    monkeypatch.setattr(bench.up, "up", lambda *_: pytest.fail("a dev cluster was started"))

    assert bench.main(["steps-v2"]) == 0

    rows = [line for line in (tmp_path / "benchmarks.md").read_text().splitlines() if line.startswith("| ")]
    assert rows[1:] == [
        "| warm make up | 5 x | ≤ 120 x |  |",
        "| srun on cgroup v2 with the plugin ÷ without | 1.02 x | ≤ 1.05 x | with, ms 300 |",
        "| w | 1 x | ≤ 2 x |  |",
    ]
    assert list(read_report(tmp_path)) == ["warm-up", "steps-v2", "weights"]
    assert row.name in (tmp_path / "benchmarks.svg").read_text()
    assert "benchmarks-queues.svg" not in (tmp_path / "benchmarks.md").read_text(), "nobody has drawn it yet"


def test_a_bound_that_was_not_kept_is_an_exit_status(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "DOCS", tmp_path)
    monkeypatch.setitem(bench.MEASUREMENTS, "steps-v2", lambda _: [Measurement("slow", 2, 1.05)])
    assert bench.main(["steps-v2"]) == 1


def test_a_measurement_that_fails_leaves_the_others_their_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(_: object) -> list[Measurement]:
        raise RuntimeError("no such node")

    monkeypatch.setattr(bench, "DOCS", tmp_path)
    monkeypatch.setitem(bench.MEASUREMENTS, "steps-v2", fails)
    monkeypatch.setitem(bench.MEASUREMENTS, "weights", lambda _: [Measurement("w", 1, 2)])

    assert bench.main(["steps-v2", "weights"]) == 1

    assert list(read_report(tmp_path)) == ["weights"]
    told = capsys.readouterr().err
    assert "no such node" in told
    assert "failed: steps-v2" in told
