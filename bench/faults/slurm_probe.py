"""Looks at slurmctld again and again, from within its pod, and prints each look as a line of JSON.

It is handed to the pod's own Python as text, so that it uses the standard library alone.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from typing import Any

SECONDS = 4
"""For one command: slurmctld may be stopped."""
PAUSE = 1.5
JOBS = ["squeue", "-h", "-r", "-t", "all", "-o", "%i|%T|%N|%S|%e|%j"]
NODES = ["scontrol", "show", "nodes", "--json"]


def nodes(answer: str) -> dict[str, Any]:
    """Return the state, reason and author of each node, out of scontrol's JSON."""
    return {
        node["name"]: {
            "states": node["state"],
            "reason": node.get("reason") or "",
            "user": (node.get("reason_set_by_user") or "") if node.get("reason") else "",
        }
        for node in json.loads(answer)["nodes"]
    }


def jobs(answer: str, prefix: str) -> list[dict[str, Any]]:
    """Return the jobs of squeue's lines that have nodes, or a name with the prefix."""
    jobs = []
    for line in answer.splitlines():
        number, state, where, start, end, name = line.split("|", 5)
        if where or name.startswith(prefix):
            times = {"start": seconds(start), "end": seconds(end)}
            jobs.append({"id": number, "name": name, "state": state, "nodes": hosts(where), **times})
    return jobs


def seconds(word: str) -> float:
    """Return a time as seconds since the epoch; 0 where Slurm has none."""
    return float(word) if word.isdigit() else 0.0


def hosts(words: str) -> list[str]:
    """Return the names of a host list with one dimension, as `cpu-[0-2,5],gpu-0`."""
    names: list[str] = []
    for prefix, ranges, single in re.findall(r"([^,\[]+)\[([^\]]*)\]|([^,\[]+)", words):
        for part in ranges.split(",") if ranges else []:
            first, _, last = part.partition("-")
            numbers = range(int(first), int(last or first) + 1)
            names += [prefix + str(number).zfill(len(first)) for number in numbers]
        names += [single] if single else []
    return names


def look(prefix: str) -> dict[str, Any]:
    """Return one look. Its time is the moment after the nodes were read."""
    seen = nodes(_said(NODES))
    return {"at": time.time(), "nodes": seen, "jobs": jobs(_said(JOBS), prefix)}


def _said(command: list[str]) -> str:
    given = {**os.environ, "SLURM_TIME_FORMAT": "%s"}
    return subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=True, env=given).stdout


def main(prefix: str) -> None:
    """Look until nobody reads any more."""
    while True:
        try:
            row = look(prefix)
        except (OSError, subprocess.SubprocessError, ValueError, LookupError, TypeError) as error:
            row = {"at": time.time(), "error": repr(error)[:300]}
        print(json.dumps(row), flush=True)
        time.sleep(PAUSE)  # Slurm tells nobody when its state changes.


if __name__ == "__main__":
    main(sys.argv[1])
