"""`python3 -m bench.faults`: faults by schedule on a dev cluster. Standard library only, until it runs in .venv."""

from __future__ import annotations

import argparse
import sys
from importlib import import_module
from pathlib import Path

from devcluster.machine import bootstrap
from devcluster.machine.progress import reported_failures

EXAMPLES = """examples:
  python3 -m bench.faults --seed 7 --minutes 10       faults for ten minutes, then the verdict
  python3 -m bench.faults --seed 7 --minutes 10 --plan   the schedule alone; nothing is done
  python3 -m bench.faults --nightly                   the ten seeds of every night, one after the other
  python3 -m bench.faults --judge build/faults/seed-7-20260101-020000.jsonl   the verdict over that run again

It ends with 0 if all promises were kept, 1 if one was broken, 3 if there was nothing to run on.
The dev cluster must be up ('make up'), and nobody else should use it meanwhile."""
NOT_SET_UP = 3


def parser() -> argparse.ArgumentParser:
    """Return the command line's grammar."""
    top = argparse.ArgumentParser(
        prog="python3 -m bench.faults",
        description="Faults by a seeded schedule, two at a time, on a running dev cluster; then a verdict.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    top.add_argument("--seed", type=int, default=1, help="of the schedule (default: 1)")
    top.add_argument("--minutes", type=int, default=10, help="until the last fault is over (default: 10)")
    top.add_argument("--name", help="instance of the dev cluster (default: this checkout's own)")
    top.add_argument("--out", type=Path, metavar="PATH", help="the run's file; with --nightly a folder")
    what = top.add_mutually_exclusive_group()
    what.add_argument("--plan", action="store_true", help="print the schedule, and do nothing")
    what.add_argument("--judge", type=Path, metavar="FILE", help="print the verdict over an earlier run")
    what.add_argument("--nightly", action="store_true", help="run the ten seeds of every night")
    return top


def main(arguments: list[str]) -> int:
    """Run one command and return its exit status."""
    options = parser().parse_args(arguments)
    with reported_failures():
        if not bootstrap.venv_is_ready():
            bootstrap.explain_missing_venv()
            return NOT_SET_UP
        bootstrap.continue_in_venv(arguments, "bench.faults")
        if not (options.plan or options.judge):
            bootstrap.require_root()
        status: int = import_module("bench.faults.command").main(options)
        return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
