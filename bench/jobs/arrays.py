"""Measures the plugin's cost for an array of 1,000 tasks: a node with it ÷ one without it, alternately."""

from __future__ import annotations

import random
import re
import time
from datetime import datetime
from typing import NamedTuple

from bench.jobs.steps import WITH, WITHOUT, log_since, without_plugin
from bench.measurement import Measurement, run
from devcluster.cli.up import Cluster

TASKS = 1000
ROUNDS = 2
ENOUGH = TASKS * 99 // 100
SUBMIT = "sbatch --wait --parsable --array=1-{tasks} -w {node} -D /tmp -o /dev/null --wrap true"
SECONDS = 1200
_TASK = re.compile(r"^\[(?P<moment>[^]]+)\] .*JobId=(?P<array>\d+)_\d+\(\d+\) (?P<ended>WEXITSTATUS 0)?", re.MULTILINE)


class Span(NamedTuple):
    """Duration of an array, and the number of its tasks' ends in the log."""

    seconds: float
    ends: int


def measure(cluster: Cluster) -> list[Measurement]:
    """Measure two arrays each way: in random order, then in reverse, so that no side gains by being later."""
    first = random.sample([WITH, WITHOUT], 2)
    taken: dict[str, list[Span]] = {WITH: [], WITHOUT: []}
    with without_plugin(cluster):
        for order in (first, first[::-1]) * (ROUNDS // 2):
            for node in order:
                taken[node].append(_run(cluster, node))
    with_plugin, without = (sum(span.seconds for span in taken[node]) / ROUNDS for node in (WITH, WITHOUT))
    detail = {"with, s": with_plugin, "without, s": without, "arrays each way": ROUNDS}
    name = f"an array of {TASKS:,} tasks with the plugin ÷ without"
    return [Measurement(name, with_plugin / without, 1.1, detail=detail)]


def _run(cluster: Cluster, node: str) -> Span:
    began = time.monotonic()
    submit = SUBMIT.format(tasks=TASKS, node=node)
    array = run(cluster.login.run_command([submit]), deadline_seconds=SECONDS).strip()
    span = array_span(log_since(cluster, began), array)
    if span.ends < ENOUGH:
        raise RuntimeError(f"slurmctld's log has the ends of {span.ends} of {TASKS} tasks of array {array} on {node}")
    return span


def array_span(log: str, array: str) -> Span:
    """Reads from slurmctld's log how long an array took.

    The time is from the first line about one of its tasks to the last end of one. slurmctld starts the first task while
    it accepts the array. It leaves a line out when nobody reads its log in time.
    """
    lines = [line for line in _TASK.finditer(log) if line["array"] == array]
    moments = [datetime.fromisoformat(line["moment"]) for line in lines]
    ends = [moment for moment, line in zip(moments, lines, strict=True) if line["ended"]]
    return Span((max(ends) - min(moments)).total_seconds() if ends else 0.0, len(ends))
