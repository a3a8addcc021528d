"""Results of measurements, and the page that shows them."""

from __future__ import annotations

import json
import statistics
import subprocess
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

PLOTS = {
    "benchmarks-nodes.svg": (
        "The operator with more nodes: a real API server with as many pods and Kubernetes nodes, a real slurmctld.",
        "No slurmd and no kubelet runs:",
        "",
        "![time, memory, calls and latencies of the operator over 10, 100 and 1,000 nodes](benchmarks-nodes.svg)",
    ),
    "benchmarks-queues.svg": (
        "The operator, slurmctld and slurmrestd with ten nodes and more waiting jobs. Only",
        "`python3 -m devcluster bench deepest-queue` measures the deepest queue:",
        "",
        "![times and memory over the number of waiting jobs](benchmarks-queues.svg)",
    ),
}
"""Text of the page about plots that measurements draw themselves, each if its file exists."""


@dataclass(frozen=True, slots=True)
class Measurement:
    """One measured number beside its bound.

    Args:
        name: What was measured.
        value: A ratio, or seconds where `unit` says so.
        bound: The value that must not be exceeded; None for a number without a bound.
        unit: "x" for a ratio, "s" for seconds, "MiB".
        detail: Medians behind a ratio and other explanations.
    """

    name: str
    value: float
    bound: float | None
    unit: str = "x"
    detail: Mapping[str, float] = field(default_factory=dict)

    @property
    def kept(self) -> bool:
        """Return whether the bound holds."""
        return self.bound is None or self.value <= self.bound

    def line(self) -> str:
        """Return the row of the report's table."""
        bound = "" if self.bound is None else f"≤ {self.bound:g} {self.unit}"
        detail = ", ".join(f"{key} {value:.4g}" for key, value in self.detail.items())
        return f"| {self.name} | {self.value:.3g} {self.unit} | {bound} | {detail} |"


def middle_milliseconds(seconds: list[float]) -> float:
    """Return the mean of the middle half of durations, in milliseconds.

    Outliers count no more than in a median. Slurm's logs give whole milliseconds, and a median of 60 of them would be
    1.6 % off by the next one.
    """
    ordered, quarter = sorted(seconds), len(seconds) // 4
    return statistics.fmean(ordered[quarter : len(ordered) - quarter]) * 1000


def run(
    command: list[str],
    *,
    deadline_seconds: float,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    given: str = "",
) -> str:
    """Run a command that must succeed, with input, and return its output."""
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=deadline_seconds, check=False, env=env, cwd=cwd, input=given
    )
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command[:4])} … ended with {done.returncode}: {done.stderr[-1000:]}")
    return done.stdout


def read_report(folder: Path) -> dict[str, list[Measurement]]:
    """Return the measurements so far, by the name of their part."""
    file = folder / "benchmarks.json"
    parts = json.loads(file.read_text()) if file.exists() else {}
    return {name: [Measurement(**row) for row in rows] for name, rows in parts.items()}


def write_report(parts: Mapping[str, list[Measurement]], folder: Path) -> None:
    """The table and the plot in docs, and the raw numbers beside them."""
    measurements = [measurement for rows_of in parts.values() for measurement in rows_of]
    table = ["| what | measured | bound | detail |", "|---|---|---|---|", *(m.line() for m in measurements)]
    page = "\n".join(
        [
            "# Benchmarks",
            "",
            "Made on 2 cores, all of it by `make bench`, a part of it by `python3 -m devcluster bench NAME`.",
            "Ratios compare two things measured alternately in one run; seconds are of one run and tell the order of",
            "magnitude. Steps and batch jobs have their bound of 1.05 on cgroup v1. On v2 it is 1.1: there they run in",
            "a guest, whose processes share two cores with its kernel.",
            "",
            *table,
            "",
            "![ratios and times against their bounds](benchmarks.svg)",
            "",
            *(line for name, text in PLOTS.items() if (folder / name).exists() for line in (*text, "")),
        ]
    )
    (folder / "benchmarks.md").write_text(page)
    rows = {name: [asdict(measurement) for measurement in rows_of] for name, rows_of in parts.items()}
    (folder / "benchmarks.json").write_text(json.dumps(rows, indent=1) + "\n")
    plot(measurements, folder / "benchmarks.svg")


def plot(measurements: list[Measurement], file: Path) -> None:
    """Each bounded number as a share of its bound. Left of the line, the bound is kept."""
    import matplotlib as mpl

    mpl.use("svg")
    from matplotlib import pyplot

    mpl.rcParams["svg.hashsalt"] = "pulumi-slurm"
    bounded = [m for m in measurements if m.bound]  # A bound of zero has no shares.
    figure, axes = pyplot.subplots(figsize=(8, 0.5 * len(bounded) + 1.2))
    names = [m.name for m in bounded][::-1]
    shares = [m.value / m.bound for m in bounded if m.bound][::-1]
    axes.barh(names, shares, color=["#2f6f4f" if share <= 1 else "#b03a2e" for share in shares])
    axes.axvline(1, color="black", linewidth=1)
    axes.set_xlabel("measured ÷ bound")
    figure.tight_layout()
    figure.savefig(file, metadata={"Date": None})
    pyplot.close(figure)
