"""The real nvidia-smi answers node-health's question as the fake does, and node-health understands it."""

from __future__ import annotations

import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest
from node_health.check import Machine
from node_health.sources import nvidia_smi as source
from node_health.verdict import Verdict

FAKE = Path(__file__).parents[2] / "devcluster/fakes/nvidia_smi"
ROW = re.compile(r"(?P<index>\d+), (?P<uuid>GPU-[\w-]+), (?P<errors>\d+|\[N/A\])")
"""Properties that the fake must share with the real one."""
LISTED = re.compile(r"GPU (?P<index>\d+): (?P<product>.+) \(UUID: (?P<uuid>GPU-[\w-]+)\)")
"""The same of -L, by which long checks know the product."""
RECORDED = {
    "node-health.csv": [f"--query-gpu={','.join(source.FIELDS)}", "--format=csv,noheader,nounits"],
    "list.txt": ["-L"],
    "query.txt": ["-q"],
}
SECONDS = 60


def test_node_health_understands_the_answer(nvidia_smi: Path) -> None:
    asked = source.ask(Machine(), str(nvidia_smi))
    assert asked.code == 0, asked
    rows = asked.printed.splitlines()
    assert all(ROW.fullmatch(row) for row in rows), rows
    assert source.judge(asked, len(rows)).verdict in (Verdict.PASS, Verdict.FAIL)
    more = source.judge(asked, len(rows) + 1)
    assert more.evidence == f"{len(rows)} of {len(rows) + 1} GPUs answer"


def test_long_checks_understand_the_list(nvidia_smi: Path) -> None:
    listed = subprocess.run([str(nvidia_smi), "-L"], capture_output=True, text=True, timeout=SECONDS, check=True)
    rows = [row for row in listed.stdout.splitlines() if not row.startswith("  MIG ")]
    assert rows
    assert all(LISTED.fullmatch(row) for row in rows), rows


def test_the_fake_answers_in_the_same_shape(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, shape in {"node-health.csv": ROW, "list.txt": LISTED}.items():
        monkeypatch.setattr(sys, "argv", [str(FAKE), *RECORDED[name]])
        monkeypatch.setattr(Path, "glob", lambda *_: [Path("/dev/fakegpu1"), Path("/dev/fakegpu0")])
        runpy.run_path(str(FAKE), run_name="__main__")
        rows = capsys.readouterr().out.splitlines()
        assert [found["index"] for row in rows if (found := shape.fullmatch(row))] == ["0", "1"], rows


@pytest.mark.parametrize("name", RECORDED)
def test_its_answers_are_recorded(nvidia_smi: Path, record: Path, name: str) -> None:
    asked = [str(nvidia_smi), *RECORDED[name]]
    done = subprocess.run(asked, capture_output=True, text=True, timeout=SECONDS, check=False)
    assert done.returncode == 0, done
    assert done.stdout, asked
    (record / name).write_text(done.stdout)
