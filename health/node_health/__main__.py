"""The command node-health: `node-health [--json] [--record]`."""

import argparse
import fcntl
import sys
from collections.abc import Sequence
from functools import partial

from node_health import node, report, time_box
from node_health.checks import CHECKS
from node_health.verdict import Result, Verdict, worst

SECONDS = 8.0
"""Time for all checks together. The rest of 10 s is for the start and the output."""
EXIT = {Verdict.PASS: 0, Verdict.WARNING: 0, Verdict.FAIL: 1, Verdict.UNKNOWN: 3}

EXAMPLES = """
Exit status: 0 fit, also with a WARNING; 1 a check failed; 3 a check could not be made, which is never taken for fit.

  kubectl -n slurm exec cpu-0 -- node-health
  kubectl -n slurm exec cpu-0 -- node-health --json
"""


def run() -> list[Result]:
    """Runs all checks."""
    declared = node.read()
    findings = time_box.ask({name: partial(check, declared) for name, check in CHECKS.items()}, SECONDS)
    return [Result(name, finding) for name, finding in findings.items()]


def record() -> int:
    """Runs all checks for Slurm, one run at a time, since two would report the same."""
    node.FOLDER.mkdir(parents=True, exist_ok=True)
    with node.LOCK.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return 0
        report.write(run())
    return 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command. Exit codes: 0 fit, 1 a check failed, 2 wrong arguments, 3 a check could not be made."""
    parser = argparse.ArgumentParser(
        prog="node-health",
        description="Is this node fit for jobs?",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of a line for each check")
    parser.add_argument(
        "--record", action="store_true", help="print nothing, and leave the verdict to the pod's entry, which drains"
    )
    wanted = parser.parse_args(arguments)
    if wanted.record:
        return record()
    results = run()
    if wanted.json:
        print(report.as_json(results))
    else:
        print("\n".join(result.line for result in results))
    return EXIT[worst(result.finding.verdict for result in results)]


if __name__ == "__main__":
    sys.exit(main())
