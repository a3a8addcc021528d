"""The command node-health: `node-health [--json] [--context CONTEXT] [--record]`, `node-health explain [NODE]`."""

import fcntl
import sys
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

from node_health import catalogue, history, node, report
from node_health.check import Context, Machine
from node_health.report import Report
from node_health.verdict import Verdict

EXIT = {Verdict.PASS: 0, Verdict.WARNING: 0, Verdict.FAIL: 1, Verdict.UNKNOWN: 3}

AT_START = "made when the node starts"

EXAMPLES = """
Exit status: 0 fit, also with a WARNING; 1 a check failed; 3 a check could not be made, which is never taken for fit.

  kubectl -n slurm exec cpu-0 -- node-health
  kubectl -n slurm exec cpu-0 -- node-health --json
  kubectl -n slurm exec cpu-0 -- node-health explain    what ran, what is wrong since when, what drains the node
"""


def run(context: Context | None = None) -> Report:
    """Runs the checks of this node."""
    from node_health.run import run as run_checks

    declared = node.read()
    return run_checks(Machine(declared), catalogue.of_node(declared, context))


def record(context: Context | None) -> int:
    """Runs checks for Slurm, one run at a time, since two would report the same."""
    node.FOLDER.mkdir(parents=True, exist_ok=True)
    with node.LOCK.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return 0
        declared = node.read()
        before = report.read(node.RESULTS) or Report()
        latest = run(context).upholding(before)
        # Without room for its history the verdict counts all the same.
        with suppress(OSError):
            history.write(history.followed(history.read(node.HISTORY), latest), node.HISTORY)
        if context:
            refreshed = {check.name for check in catalogue.of_node(declared, Context.PERIODIC)}
            latest = latest.after(before, refreshed)
            if context is not Context.START:
                latest = replace(latest, skipped={**_made_once(declared, refreshed), **latest.skipped})
        report.write(latest, declared.unknown_drains)
    return 0


def _made_once(declared: node.Declared, refreshed: Collection[str]) -> Mapping[str, str]:
    """Returns the checks that only a node's start makes: no later run could lift a drain that names one."""
    return {check.name: AT_START for check in catalogue.of_node(declared) if check.name not in refreshed}


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command. Exit codes: 0 fit, 1 a check failed, 2 wrong arguments, 3 a check could not be made."""
    given = sys.argv[1:] if arguments is None else [*arguments]
    match given:
        case ["--record", "--context", context] if context in [*Context]:
            return record(Context(context))  # As Slurm starts it: argparse would take longer to load than most checks.
        case ["explain", *named] if len(named) < 2 and not any(name.startswith("-") for name in named):
            from node_health import explain

            return explain.main(*named)
    import argparse

    parser = argparse.ArgumentParser(
        prog="node-health",
        usage="node-health [-h] [--json] [--context CONTEXT] [--record]\n       node-health explain [NODE]",
        description="Is this node fit for jobs? Without options: make all checks, and print a line for each.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of a line for each check")
    parser.add_argument("--context", type=Context, choices=[*Context], help="make only the checks of this occasion")
    parser.add_argument(
        "--record", action="store_true", help="print nothing, and leave the verdict to the pod's entry, which drains"
    )
    wanted = parser.parse_args(given)
    if wanted.record:
        return record(wanted.context)
    latest = run(wanted.context)
    if wanted.json:
        print(report.as_json(latest))
    else:
        print("\n".join(result.line for result in latest.results))
    return EXIT[latest.verdict]


if __name__ == "__main__":
    sys.exit(main())
