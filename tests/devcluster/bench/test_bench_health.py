"""The bench of health checks counts what a run leaves behind, and refuses a node that is unfit."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from bench import health
from bench.measurement import Measurement

# The child of a child outlives it, and is the one that uses the CPU and the memory.
CHECK = f"""#!{sys.executable}
import json, os, sys, time
if "--json" in sys.argv:
    print(json.dumps({{"checks": [{{"check": "dns", "verdict": "PASS"}}]}}))
elif os.fork() == 0:
    if os.fork() == 0:
        held = bytearray(50_000_000)
        while time.process_time() < 0.3:
            pass
else:
    os.wait()
"""
PROLOG = """#!/bin/sh
echo "$SLURM_JOB_SLUID" >"{folder}/prologs/$SLURM_JOB_ID"
"""


def told(folder: Path, check: str = CHECK, **more: Any) -> dict[str, Any]:
    """Return what the runner tells of a node with these programs."""
    (folder / "prologs").mkdir()
    programs = {"check": check, "program": check, "prolog": PROLOG.format(folder=folder)}
    for name, text in programs.items():
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    few = {"runs": 1, "sampled": 1, "prologs": 2, "prologs_of": str(folder / "prologs")}
    asked = {**health.ASKED, **{name: str(folder / name) for name in programs}, **few, **more}
    command = [sys.executable, "-I", "-", json.dumps(asked)]
    done = subprocess.run(command, input=health.RUNNER, capture_output=True, text=True, timeout=60, check=True)
    said: dict[str, Any] = json.loads(done.stdout)
    return said


def test_a_run_counts_with_the_processes_that_it_leaves_behind_and_no_file_of_a_job_stays(tmp_path: Path) -> None:
    said = told(tmp_path)
    (cpu,), (held,) = said["cpu"], said["bytes"]
    assert cpu >= 0.3
    assert held >= 50_000_000
    assert said["statuses"] == [0]
    assert [*(tmp_path / "prologs").iterdir()] == []
    rows = {row.name: row for row in health.of_runs(said)}
    assert rows["node-health at the default interval: share of a core"].value == pytest.approx(100 * cpu / 30)
    assert len([row for row in rows.values() if row.bound]) == 4


@pytest.mark.parametrize(
    ("verdict", "refuses", "why"), [("FAIL", False, "failed: dns"), ("PASS", True, "refuses: .*unfit")]
)
def test_a_node_that_fails_or_refuses_jobs_is_not_measured(
    tmp_path: Path, verdict: str, refuses: bool, why: str
) -> None:
    if refuses:
        (tmp_path / "unfit").touch()
    said = told(tmp_path, CHECK.replace("PASS", verdict), refusals=[str(tmp_path / "unfit")])
    with pytest.raises(RuntimeError, match=why):
        health.of_runs(said)


def summary(*pods: tuple[str, str, float, str]) -> dict[str, Any]:
    return {
        "pods": [
            {
                "podRef": {"name": name, "namespace": namespace},
                "cpu": {"time": f"2026-11-26T10:{time}Z", "usageCoreNanoSeconds": int(seconds * 1e9)},
            }
            for name, namespace, seconds, time in pods
        ]
    }


def test_an_idle_clusters_pods_count_by_the_moments_of_their_own_measurements() -> None:
    elsewhere = ("other", "kube-system", 1.0, "00:00")
    before = health.used_by_pods(summary(("cpu-0", "slurm", 5, "00:00"), ("ctld", "slurm", 7, "00:10"), elsewhere))
    after = health.used_by_pods(summary(("cpu-0", "slurm", 8, "01:00"), ("ctld", "slurm", 10, "02:10"), elsewhere))
    found = health.of_idle(before, after)
    assert (found.value, found.detail) == (pytest.approx(0.075), {"cpu-0": 0.05, "ctld": 0.025})
    with pytest.raises(RuntimeError, match="pods changed: \\['ctld'\\]"):
        health.of_idle(before, {"cpu-0": after["cpu-0"]})
    with pytest.raises(RuntimeError, match="no time of"):
        health.of_idle(before, before)


def test_a_share_above_its_bound_is_not_kept() -> None:
    said = {"failed": [], "refuses": [], "statuses": [0], "wall": [0.2], "cpu": [0.16], "bytes": [1], "prolog": [0.01]}
    rows = health.of_runs({**said, "true": [0.001]})
    assert [row.name for row in rows if not row.kept] == ["node-health at the default interval: share of a core"]
    assert isinstance(rows[0], Measurement)
