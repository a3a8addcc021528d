"""slurmctld's plugin refuses jobs that slurmctld can't keep (native/plugins/job_submit_jail.c)."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

HERE, NATIVE = Path(__file__).parent, Path("native")
KIB = 1024
Submit = Callable[..., str]


@pytest.fixture(scope="module")
def submit(tmp_path_factory: pytest.TempPathFactory) -> Submit:
    """Has the plugin judge a job, and gives its sentence."""
    probe = tmp_path_factory.mktemp("submit") / "probe"
    sources = (HERE / "job_submit_probe.c", NATIVE / "plugins" / "job_submit_jail.c")
    command = ["gcc", "-D_GNU_SOURCE", "-g", "-fsanitize=address,undefined", "-o", probe, *sources]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr

    def submitted(line: int | str = 9, arguments: str = "9", spank: str = "9") -> str:
        command = [probe, str(line), arguments, spank]
        environ = {"ASAN_OPTIONS": "detect_leaks=0"}
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env=environ)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return submitted


def test_an_ordinary_job_is_taken(submit: Submit) -> None:
    assert submit() == submit(line="-", arguments="0") == "taken\n"
    assert submit(400 * KIB, f"{400 * KIB},{50 * KIB}", f"{60 * KIB},9") == "taken\n"


def test_a_job_whose_prologs_could_not_start_is_refused(submit: Submit) -> None:
    """Slurm would drain its nodes."""
    assert submit(spank=f"{40 * KIB},{40 * KIB}") == "the variables for prologs are longer than 64 KiB\n"


@pytest.mark.parametrize(
    ("line", "arguments"),
    [(1025 * KIB, "9"), (9, f"{600 * KIB},{500 * KIB}"), (500 * KIB, f"{600 * KIB}"), (f"c{1025 * KIB}", "9")],
)
def test_a_job_that_would_fill_slurmctlds_memory_is_refused(submit: Submit, line: int | str, arguments: str) -> None:
    assert submit(line, arguments).endswith("longer than 1 MiB: write them to a file\n")
