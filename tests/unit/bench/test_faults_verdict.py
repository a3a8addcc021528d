"""The verdict over a run in words and as an exit status, and files that are none of a run's."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from bench.faults import command
from bench.faults.verdict import history, judge, report
from tests.unit.bench.faults_history import Row, canary_fails, clean, drain_is_lifted


def test_the_verdict_names_each_fault_each_violation_and_all_of_it() -> None:
    found = history.parse(map(json.dumps, drain_is_lifted(clean())))
    told = report.verdict(found, judge.judge(found))
    assert re.search(r"#1 person-drained \(cpu-0\): told after \d+ s by the operator", told[0])
    assert "a person's drain changes: cpu-0 is IDLE, 'bad-fan-1' by admin" in told[1]
    assert told[-1] == "seed 7: 1 faults of 1 kinds, 1 canaries: VIOLATED 1 times"
    assert len(told) == 3


@pytest.mark.parametrize(("spoil", "status"), [(list, command.KEPT), (canary_fails, command.VIOLATED)])
def test_the_exit_status_is_the_verdict(
    spoil: Callable[[list[Row]], list[Row]], status: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "run.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in spoil(clean())))
    assert command.judged(file) == status
    assert ("VIOLATED" in capsys.readouterr().out) == bool(status)


@pytest.mark.parametrize("content", ["", "nonsense\n", '{"record": "slurm"}\n', '{"record": "tea"}\n', "[]\n"])
def test_a_file_of_somebody_else_is_refused_in_a_sentence(content: str, tmp_path: Path) -> None:
    file = tmp_path / "other.jsonl"
    file.write_text(content)
    with pytest.raises(ValueError, match=re.escape(str(file))):
        history.read(file)
