"""The command line of `python3 -m bench.faults`, under the virtual environment's Python."""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from pathlib import Path

from bench.faults.cluster import Cluster
from bench.faults.run import run, two_operators
from bench.faults.schedule import NIGHTLY_MINUTES, NIGHTLY_SEEDS, SHORTEST_MINUTES, plan
from bench.faults.verdict import history, judge, report
from devcluster.cli import up
from devcluster.machine.bootstrap import CHECKOUT
from devcluster.machine.progress import StepFailed, say
from devcluster.node.instance import Instance, InvalidNameError
from devcluster.suite.testing import clean_up_when_killed

KEPT, VIOLATED, NOT_RUN = 0, 1, 3
INTERRUPTED = 130


def main(options: argparse.Namespace) -> int:
    """Do what is asked, and return the exit status."""
    try:
        if options.judge:
            return judged(options.judge)
        if options.minutes < SHORTEST_MINUTES:
            raise StepFailed(f"a schedule takes {SHORTEST_MINUTES} minutes at least")
        seeds, minutes = (NIGHTLY_SEEDS, NIGHTLY_MINUTES) if options.nightly else ([options.seed], options.minutes)
        if options.plan:
            for seed in seeds:
                print("\n".join(report.schedule(plan(seed, minutes))))
            return KEPT
        return _run(options, seeds, minutes)
    except (StepFailed, InvalidNameError) as failure:
        say(f"error: {failure}")
        return NOT_RUN
    except KeyboardInterrupt:
        return INTERRUPTED


def _run(options: argparse.Namespace, seeds: Sequence[int], minutes: int) -> int:
    """Run schedules one after the other, and judge each."""
    clean_up_when_killed()
    cluster = Cluster(Instance.named(options.name) if options.name else up.default_instance())
    cluster.wake()
    status, began = KEPT, time.strftime("%Y%m%d-%H%M%S")
    with two_operators(cluster):
        for seed in seeds:
            file = options.out if options.out and len(seeds) == 1 else _file(options.out, seed, began)
            run(cluster, seed, minutes, file)
            status = max(status, judged(file))
    return status


def _file(folder: Path | None, seed: int, began: str) -> Path:
    return (folder or CHECKOUT / "build" / "faults") / f"seed-{seed}-{began}.jsonl"


def judged(file: Path) -> int:
    """Print the verdict over a run."""
    try:
        events = history.read(file)
    except (OSError, ValueError) as error:
        raise StepFailed(str(error)) from None
    violations = judge.judge(events)
    print("\n".join(report.verdict(events, violations)))
    say(f"the same verdict again: python3 -m bench.faults --judge {file}")
    return VIOLATED if violations else KEPT
