"""The report of `make bench` keeps, of each part, what was measured last."""

from pathlib import Path

from bench.measurement import Measurement, read_report, write_report


def test_a_part_that_is_measured_again_leaves_the_others_in_the_report(tmp_path: Path) -> None:
    slow = Measurement("srun ÷ none", 1.2, 1.05)
    fast = Measurement("srun ÷ none", 1.01, 1.05, detail={"with, ms": 66.0})
    other = Measurement("memory of slurmd", 28.0, None, "MiB")
    write_report({"steps": [slow], "memory": [other]}, tmp_path)
    write_report(read_report(tmp_path) | {"steps": [fast]}, tmp_path)
    assert read_report(tmp_path) == {"steps": [fast], "memory": [other]}
    page = (tmp_path / "benchmarks.md").read_text()
    assert "| srun ÷ none | 1.01 x | ≤ 1.05 x | with, ms 66 |" in page
    assert "| memory of slurmd | 28 MiB |" in page and "1.2" not in page
