"""Promises about slurm-check-report, with which the job of a long check says what it found."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from contract import check_reports
from devcluster.fakes import gpu_scenario
from devcluster.machine.bootstrap import CHECKOUT
from tests.unit.long_checks.check_scripts import status

COMMAND = CHECKOUT / "images/slurm/rootfs/opt/slurm/bin/slurm-check-report"


def ran(folder: Path, *arguments: str, job: str = "7") -> subprocess.CompletedProcess[str]:
    """Run the command beside a fake of scontrol that prints its arguments."""
    scontrol = folder / "scontrol"
    scontrol.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    scontrol.chmod(0o755)
    environment = {"PATH": f"{folder}:{os.environ['PATH']}", "SLURM_JOB_ID": job}
    return subprocess.run([COMMAND, *arguments], env=environment, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["PASS"], {"verdict": "PASS"}),
        (["UNKNOWN", "no license server; ask 'it'"],
         {"verdict": "UNKNOWN", "evidence": "no license server; ask 'it'"}),
        (["FAIL", "--measured", "215.4", "--least", "400", "--unit", "GB/s", "the slowest of 8 GPUs: GPU 3 (50%)!"],
         {"verdict": "FAIL", "measured": 215.4, "least": 400, "unit": "GB/s",
          "evidence": "the slowest of 8 GPUs: GPU 3 (50%)!"}),
        (["WARNING", "--measured", "0.05", "x" * 20 + " y" * 90],
         {"verdict": "WARNING", "measured": 0.05, "evidence": "x" * 20 + " y" * 90}),
    ],
)  # fmt: skip
def test_it_writes_a_report_by_the_published_schema(
    tmp_path: Path, arguments: list[str], expected: dict[str, Any]
) -> None:
    update, job, comment = ran(tmp_path, *arguments).stdout.splitlines()
    assert (update, job) == ("update", "jobid=7")
    report = json.loads(comment.removeprefix("comment="))
    assert report == expected
    jsonschema.validate(report, check_reports.SCHEMA)


@pytest.mark.parametrize(
    ("arguments", "wrong"),
    [
        ([], "usage: "),
        (["GOOD"], "usage: "),
        (["FAIL", "--more", "1"], "usage: "),
        (["FAIL", "--measured", "1e3"], "--measured wants a number"),
        (["FAIL", "--measured", "007"], "--measured wants a number"),
        (["FAIL", "--least"], "--least wants a number"),
        (["FAIL", "--unit", "GB s"], "--unit wants"),
        (["FAIL", 'a "quote"'], "printable ASCII"),
        (["FAIL", "two\nlines"], "printable ASCII"),
        (["FAIL", "größer"], "printable ASCII"),
        (["FAIL", "[brackets]"], "printable ASCII"),
        (["FAIL", "back\\slash"], "printable ASCII"),
        (["FAIL", "x" * 201], "200 characters"),
        (["FAIL", "several", "words"], "one argument"),
    ],
)
def test_bad_arguments_are_refused_with_what_is_right(tmp_path: Path, arguments: list[str], wrong: str) -> None:
    said = ran(tmp_path, *arguments)
    assert (said.returncode, said.stdout) == (2, "")
    assert wrong in said.stderr


def test_outside_of_a_job_it_says_so(tmp_path: Path) -> None:
    assert "runs in a job of Slurm" in ran(tmp_path, "PASS", job="").stderr


@pytest.mark.parametrize(
    ("builtin", "tool", "answer", "end", "expected"),
    [
        ("all-reduce", "all_reduce_perf", "214.967", 63,
         {"verdict": "FAIL", "measured": 214.96, "least": 400, "unit": "GB/s"}),
        ("all-reduce", "all_reduce_perf", "482.05", 0,
         {"verdict": "PASS", "measured": 482.05, "least": 400, "unit": "GB/s"}),
        ("gpu-burn", "gpu_burn", "faulty", 1, {"verdict": "FAIL", "measured": 7, "least": 8, "unit": "GPUs"}),
    ],
)  # fmt: skip
def test_a_builtin_reports_what_it_measured(
    tmp_path: Path, builtin: str, tool: str, answer: str, end: int, expected: dict[str, Any]
) -> None:
    told = tmp_path / "told"
    tools = {tool: None, "slurm-check-report": COMMAND.read_text(), "scontrol": f'printf %s "$3" >{told}'}
    scenario = gpu_scenario.text(gpus=8, tools={tool: answer})
    least = {"least": 400} if builtin == "all-reduce" else {}
    job = {"#!/bin/sh\n": "#!/bin/sh\nexport SLURM_JOB_ID=7\n"}
    assert status(tmp_path, tools, scenario, job, builtin=builtin, **least) == end
    report = json.loads(told.read_text().removeprefix("comment="))
    jsonschema.validate(report, check_reports.SCHEMA)
    assert expected.items() <= report.items()
