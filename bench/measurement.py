"""Results of measurements."""

from __future__ import annotations

import statistics
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path


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
