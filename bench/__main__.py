"""`make bench`: measurements on this checkout's dev cluster, written as a table and a plot into docs/."""

from __future__ import annotations

import signal
import sys
import traceback
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from bench import choosing, health, logins, long_checks, many_nodes, most_nodes_memory, program, queues, report
from bench.jobs import arrays, door, entering, steps, steps_v2
from bench.measurement import Measurement
from bench.storage import populate, small_files
from devcluster.cli import up
from devcluster.machine.bootstrap import CHECKOUT
from devcluster.machine.progress import Step

MEASUREMENTS: dict[str, Callable[[Any], list[Measurement]]] = {
    "warm-up": program.warm_up,
    "health": health.measure,
    "steps": steps.measure,
    "arrays": arrays.measure,
    "door": door.measure,
    "steps-v2": steps_v2.measure,
    "entering": entering.measure,
    "memory": program.memory,
    "previews": program.previews,
    "populate": populate.measure,
    "populate-again": populate.measure_again,
    "logins": logins.measure,
    "many-nodes": many_nodes.measure,
    "most-nodes": many_nodes.most,
    "most-nodes-memory": most_nodes_memory.measure,
    "long-checks": long_checks.measure,
    "queues": queues.measure,
    "deepest-queue": queues.deepest,
    "weights": choosing.weights,
    "tree": choosing.tree,
    "small-files": small_files.measure,
    "from-nothing": program.stack_from_nothing,
}

ONLY_BY_NAME = frozenset({"deepest-queue", "most-nodes"})
"""Measurements that take many minutes: they run only by name."""
WITHOUT_CLUSTER = frozenset(
    {
        "steps-v2",
        "entering",
        "long-checks",
        "many-nodes",
        "most-nodes",
        "most-nodes-memory",
        "queues",
        "deepest-queue",
        "weights",
        "tree",
    }
)
"""Measurements without the dev cluster, which would take their CPU time. They get None in its place."""
DOCS = CHECKOUT / "docs"


def main(names: list[str]) -> int:
    """Run the named measurements and print them; without names all but the longest.

    docs/ shows one whole run, and the last run of each of the longest: a mix would compare what no machine was.
    A measurement that fails ends alone: its traceback is printed, the page names it, and the others follow.

    Returns:
        0 only if each measurement ended and each bound was kept.
    """
    unknown = sorted(set(names) - set(MEASUREMENTS))
    if unknown:
        print(f"unknown: {', '.join(unknown)}; there are {', '.join(MEASUREMENTS)}", file=sys.stderr)
        return 2
    usual = [name for name in MEASUREMENTS if name not in ONLY_BY_NAME]
    of = report.now(CHECKOUT)
    cluster = None if WITHOUT_CLUSTER.issuperset(names or usual) else up.up(up.default_instance())
    measured: dict[str, list[Measurement]] = {}
    failed: list[str] = []
    for name in names or usual:
        try:
            with Step(f"measuring {name}"):
                rows = MEASUREMENTS[name](cluster)
        except Exception:  # Whatever it meets says nothing about the next one, and a run takes most of an hour.
            traceback.print_exc()
            failed.append(name)
            continue
        for measurement in rows:
            print(measurement.line(), flush=True)
        measured[name] = rows
        shown = report.read(DOCS)
        if not names:
            missing = [other for other in usual if other not in measured]
            report.write(replace(shown, whole=report.Run(of, measured, missing)), DOCS)
        elif name in ONLY_BY_NAME:
            report.write(replace(shown, alone={**shown.alone, name: report.Run(of, {name: rows})}), DOCS)
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    return 0 if not failed and all(measurement.kept for rows in measured.values() for measurement in rows) else 1


if __name__ == "__main__":
    # A measurement that is ended puts back what it changed on the cluster, such as a node without the plugin.
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    sys.exit(main(sys.argv[1:]))
