"""docs/benchmarks.md shows one whole run, and beside it each of the longest measurements with its own date."""

import re
from pathlib import Path

from bench import report
from bench.measurement import Measurement, run
from bench.queues import BOUNDS, CURVES
from bench.report import Report, Run

SLOW, FAST = (Measurement("srun ÷ none", value, 1.05, detail={"with, ms": 66.0}) for value in (1.2, 1.01))
OTHER = Measurement("memory of slurmd", 28.0, None, "MiB")


def test_a_new_run_leaves_nothing_of_the_one_before(tmp_path: Path) -> None:
    report.write(Report(Run("1 May 2026, commit a", {"steps": [SLOW], "memory": [OTHER]}), {}), tmp_path)
    report.write(Report(Run("2 May 2026, commit b", {"steps": [FAST]}, ("memory",)), {}), tmp_path)
    page = (tmp_path / "benchmarks.md").read_text()
    assert "| srun ÷ none | 1.01 x | ≤ 1.05 x | with, ms 66 |" in page
    assert "2 May 2026, commit b" in page
    assert "Not measured in this run: memory." in page
    assert not any(old in page for old in ("memory of slurmd", "1.2 x", "1 May 2026"))
    assert OTHER.name not in (tmp_path / "benchmarks.json").read_text()


def test_the_longest_stand_apart_with_their_own_date_and_join_the_plot(tmp_path: Path) -> None:
    def row(jobs: int) -> Measurement:
        return Measurement(f"{CURVES.title(jobs)}: {next(iter(BOUNDS))}", jobs / 1e6, 3, "s")

    whole = Run("2 May 2026, commit b", {"queues": [row(0), row(10_000)]})
    written = Report(whole, {"deepest-queue": Run("1 May 2026, commit a", {"deepest-queue": [row(100_000)]})})
    report.write(written, tmp_path)
    first, _, apart = (tmp_path / "benchmarks.md").read_text().partition("## Measurements of many minutes")
    assert "1 May" not in first
    assert "100,000 jobs wait" not in first
    assert "deepest-queue`, 1 May 2026, commit a:" in apart
    assert "operator, 100,000 jobs wait: longest pass | 0.1 s" in apart
    assert f"({CURVES.file})" in apart
    assert (tmp_path / CURVES.file).exists()
    assert not (tmp_path / "benchmarks-nodes.svg").exists(), "nobody has measured it yet"
    assert report.read(tmp_path) == written


def test_a_run_tells_its_commit_and_that_files_were_changed(tmp_path: Path) -> None:
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b.invalid"]
    (tmp_path / "file").write_text("a")
    for arguments in (["init", "-q"], ["add", "file"], ["commit", "-qm", "one"]):
        run([*git, *arguments], deadline_seconds=30, cwd=tmp_path)
    assert re.fullmatch(r"\d+ \w+ \d{4}, commit [0-9a-f]{7,}", report.now(tmp_path))
    (tmp_path / "file").write_text("b")
    assert report.now(tmp_path).endswith("-dirty")
