"""docs/benchmarks.md: one whole run of `make bench`, and the measurements that run only by name."""

from __future__ import annotations

import datetime
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from bench import many_nodes, queues
from bench.curves import save, svg
from bench.measurement import Measurement, run

CURVES = (many_nodes.CURVES, queues.CURVES)
_TABLE = ["| what | measured | bound | detail |", "|---|---|---|---|"]
Parts = Mapping[str, Sequence[Measurement]]


@dataclass(frozen=True, slots=True)
class Run:
    """A run of measurements.

    Attributes:
        of: its date and commit.
        parts: the rows of each measurement, by its name.
        missing: the measurements that failed, or that the run did not come to.
    """

    of: str
    parts: Parts = field(default_factory=dict)
    missing: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Report:
    """The measurements that docs/ shows.

    Attributes:
        whole: the last run of all measurements but the longest.
        alone: the last run of each of the longest, by its name.
    """

    whole: Run
    alone: Mapping[str, Run]


def now(checkout: Path) -> str:
    """Return the date, and the commit that is measured."""
    commit = run(["git", "describe", "--always", "--dirty", "--exclude=*"], deadline_seconds=30, cwd=checkout).strip()
    return f"{datetime.datetime.now(datetime.UTC):%-d %B %Y}, commit {commit}"


def read(folder: Path) -> Report:
    """Return what docs/ shows; runs without rows if nothing was measured yet."""
    file = folder / "benchmarks.json"
    known = json.loads(file.read_text()) if file.exists() else {}
    return Report(_run(known.get("whole", {})), {name: _run(run) for name, run in known.get("alone", {}).items()})


def _run(known: Mapping[str, Any]) -> Run:
    parts = {name: [Measurement(**row) for row in rows] for name, rows in known.get("parts", {}).items()}
    return Run(known.get("of", ""), parts, tuple(known.get("missing", ())))


def write(report: Report, folder: Path) -> None:
    """Write the page with its plots, and the raw numbers beside them."""
    rows = _rows(report.whole.parts)
    alone = [row for run in report.alone.values() for row in _rows(run.parts)]
    lines = [
        "# Benchmarks",
        "",
        f"One whole run of `make bench` on 2 cores: {report.whole.of}.",
        "`python3 -m devcluster bench NAME` measures a part, prints it, and leaves this table as it is.",
        "Ratios compare two things measured alternately; seconds tell the order of magnitude.",
        "Steps and batch jobs have their bound of 1.05 on cgroup v1. On v2 it is 1.1: there they run in a guest,",
        "whose processes share two cores with its kernel.",
        "",
        *_TABLE,
        *(row.line() for row in rows),
        "",
    ]
    if report.whole.missing:
        lines += [f"Not measured in this run: {', '.join(report.whole.missing)}.", ""]
    if rows:
        _bars(rows, folder / "benchmarks.svg")
        lines += ["![ratios and times against their bounds](benchmarks.svg)", ""]
    if alone:
        lines += ["## Measurements of many minutes", "", "Each is a run of its own, by its name.", ""]
        for name, run in report.alone.items():
            about = f"`python3 -m devcluster bench {name}`, {run.of}:"
            lines += [about, "", *_TABLE, *(row.line() for row in _rows(run.parts)), ""]
    drawn = [line for curves in CURVES if curves.draw([*rows, *alone], folder) for line in (*curves.words, "")]
    both = "Points of the whole run, and those of the largest sizes, which are runs of their own."
    lines += ["## With more nodes and jobs", "", both, "", *drawn] if drawn else []
    (folder / "benchmarks.md").write_text("\n".join(lines))
    (folder / "benchmarks.json").write_text(json.dumps(asdict(report), indent=1) + "\n")


def _rows(parts: Parts) -> list[Measurement]:
    return [row for rows in parts.values() for row in rows]


def _bars(rows: Sequence[Measurement], file: Path) -> None:
    """Each bounded number as a share of its bound. Left of the line, the bound is kept."""
    pyplot = svg()
    bounded = [row for row in rows if row.bound]  # A bound of zero has no shares.
    figure, axes = pyplot.subplots(figsize=(8, 0.5 * len(bounded) + 1.2))
    shares = [row.value / row.bound for row in bounded if row.bound][::-1]
    colors = ["#2f6f4f" if share <= 1 else "#b03a2e" for share in shares]
    axes.barh([row.name for row in bounded][::-1], shares, color=colors)
    axes.axvline(1, color="black", linewidth=1)
    axes.set_xlabel("measured ÷ bound")
    save(figure, file)
