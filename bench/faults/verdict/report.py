"""Text of a schedule and of a verdict, for people. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from bench.faults.kinds import KINDS
from bench.faults.schedule import Fault, most_at_once, shared_seconds
from bench.faults.verdict.history import History
from bench.faults.verdict.judge import Violation, canaries_not_judged, told_after


def schedule(faults: Sequence[Fault]) -> list[str]:
    """Return a line for each fault of a schedule, and one about all."""
    rows = [
        f"{fault.start:5d} s to {fault.end:5d} s  lane {fault.lane + 1}  {fault.title}: {KINDS[fault.kind].what}"
        for fault in faults
    ]
    kinds = len({fault.kind for fault in faults})
    about = f"{len(faults)} faults of {kinds} kinds, {most_at_once(faults)} at one time for {shared_seconds(faults)} s"
    return [*rows, about]


def verdict(history: History, violations: Sequence[Violation]) -> list[str]:
    """Return a line for each fault, one for each violation, and the verdict."""
    began = min((fault.began for fault in history.faults.values()), default=history.finished)
    rows = []
    for fault in history.faults.values():
        told, kind = told_after(history, fault), KINDS[fault.kind]
        if fault.trouble:
            said = f"FAILED: {fault.trouble}"
        elif told is not None:
            said = f"told after {told[0]:.0f} s by {told[1]}"
        else:
            said = "need not be told" if kind.passed else "nobody tells"
        where = fault.target and f" ({fault.target})"
        lasted = f"{fault.began - began:5.0f} s to {(fault.over or history.finished) - began:5.0f} s"
        rows.append(f"{lasted}  #{fault.number} {fault.kind}{where}: {said}")
    broken = [
        f"VIOLATED at {violation.at - began:.0f} s ({_clock(violation.at)}): {violation.rule}: {violation.words}"
        for violation in violations
    ]
    broken += [
        f"not judged: {name}: SIGKILL to slurmctld came before what became of it was saved (docs/limits.md)"
        for name in canaries_not_judged(history)
    ]
    kinds, jobs = len({fault.kind for fault in history.faults.values()}), len(history.canaries)
    about = f"seed {history.seed}: {len(history.faults)} faults of {kinds} kinds, {jobs} canaries"
    return [*rows, *broken, f"{about}: {f'VIOLATED {len(violations)} times' if violations else 'all promises kept'}"]


def _clock(at: float) -> str:
    return f"{datetime.fromtimestamp(at).astimezone():%H:%M:%S}"
