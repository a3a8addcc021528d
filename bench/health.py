"""Measures what health checks cost: a run of node-health, its prolog, and the pods of an idle cluster.

It needs a dev cluster that nobody uses, since an idle cluster is a part of what is measured.
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Mapping
from datetime import datetime
from pathlib import PurePosixPath
from typing import Any

from bench.jobs.steps import WITH, in_slurm
from bench.measurement import Measurement, middle_milliseconds, run
from components.config.nodes.health import Health
from contract import paths
from devcluster.cli.up import Cluster

RUNS, SAMPLED_RUNS, PROLOGS = 20, 5, 100
SETTLE_SECONDS, IDLE_SECONDS = 60, 180
_NODE_HEALTH = str(PurePosixPath(paths.HEALTH_PROGRAM).with_name("node-health"))
_REFUSALS = [f"{paths.NODE_RUN}/{name}" for name in ("broken", "unfit", "plugin-refused")]
"""Files with which the prolog refuses jobs."""
_JOB = "bench"
"""Stands for a job's id, so that no file of a job is touched."""

# Runs in a node's pod. A run may leave processes behind: they become children of this process, and count.
RUNNER = """
import ctypes, json, os, resource, subprocess, sys, time
from pathlib import Path
asked = json.loads(sys.argv[1])
ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER
quiet = dict(stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

def spent():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime

def reap():
    try:
        while True:
            os.waitpid(-1, 0)
    except ChildProcessError:
        pass

def timed(command, **more):
    before, began = spent(), time.perf_counter()
    status = subprocess.run(command, timeout=60, **quiet, **more).returncode
    wall = time.perf_counter() - began
    reap()
    return wall, spent() - before, status

def below(process):
    try:
        children = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    except OSError:
        return []
    return [*children, *(further for child in children for further in below(child))]

def held(process):
    try:
        lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:")), 0)

def most_memory(command):
    child, most = subprocess.Popen(command, **quiet), 0
    try:
        while True:
            most = max(most, sum(map(held, below(os.getpid()))))
            os.waitpid(-1, os.WNOHANG)
    except ChildProcessError:
        child.returncode = 0
        return most

said = subprocess.run([asked["check"], "--json"], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
job = {**os.environ, "SLURM_JOB_ID": asked["job"], "SLURM_JOB_SLUID": "0"}
try:
    told = {
        "failed": [row["check"] for row in json.loads(said.stdout)["checks"] if row["verdict"] == "FAIL"],
        "refuses": [file for file in asked["refusals"] if os.path.exists(file)],
    }
    if not any(told.values()):
        told["wall"] = [timed([asked["check"]])[0] for _ in range(asked["runs"])]
        told["cpu"] = [timed([asked["program"]])[1] for _ in range(asked["runs"])]
        told["bytes"] = [most_memory([asked["check"]]) for _ in range(asked["sampled"])]
        pairs = [(timed([asked["prolog"]], env=job), timed(["/bin/true"], env=job)) for _ in range(asked["prologs"])]
        told["prolog"], told["true"] = ([pair[which][0] for pair in pairs] for which in (0, 1))
        told["statuses"] = sorted({pair[0][2] for pair in pairs})
finally:
    Path(asked["prologs_of"], asked["job"]).unlink(missing_ok=True)
print(json.dumps(told))
"""
ASKED: Mapping[str, Any] = {
    "check": _NODE_HEALTH,
    "program": paths.HEALTH_PROGRAM,
    "prolog": paths.HEALTH_PROLOG,
    "prologs_of": f"{paths.NODE_RUN}/prologs",
    "refusals": _REFUSALS,
    "job": _JOB,
    "runs": RUNS,
    "sampled": SAMPLED_RUNS,
    "prologs": PROLOGS,
}


def measure(cluster: Cluster) -> list[Measurement]:
    """Measure the idle cluster for three minutes, then 20 runs of node-health in a node's pod, and 100 prologs."""
    idle = _idle(in_slurm(cluster))
    command = [*in_slurm(cluster), "exec", "-i", WITH, "--", "python3", "-I", "-", json.dumps(dict(ASKED))]
    told = json.loads(run(command, deadline_seconds=600, given=RUNNER))
    return [*of_runs(told), idle]


def of_runs(told: Mapping[str, Any]) -> list[Measurement]:
    """Return the rows about what the runner told.

    Raises:
        RuntimeError: The node is not healthy, or its prolog failed: the numbers would tell of something else.
    """
    for problem in ("failed", "refuses"):
        if told[problem]:
            raise RuntimeError(f"{WITH} is no healthy node: {problem}: {', '.join(told[problem])}")
    if told["statuses"] != [0]:
        raise RuntimeError(f"the prolog ended with {told['statuses']}")
    interval = Health().interval_seconds
    cpu = statistics.median(told["cpu"])
    prolog, true = (middle_milliseconds(told[name]) / 1000 for name in ("prolog", "true"))
    wall, count = told["wall"], {"n": len(told["wall"])}
    return [
        Measurement(
            "node-health on a healthy node", statistics.median(wall), 1, "s", {"slowest, s": max(wall), **count}
        ),
        Measurement("node-health on a healthy node: memory of all its processes", max(told["bytes"]) / 1e6, 60, "MB"),
        # Slurm starts it once in an interval, so an hour has the same share.
        Measurement(
            "node-health at the default interval: share of a core",
            100 * cpu / interval,
            0.5,
            "%",
            {"CPU time of a run, s": cpu, "interval, s": interval},
        ),
        Measurement(
            "what node-health adds to a prolog",
            prolog - true,
            0.05,
            "s",
            {"prolog, ms": prolog * 1000, "true, ms": true * 1000},
        ),
    ]


def _idle(kubectl: list[str]) -> Measurement:
    jobs = run([*kubectl, "exec", "slurm-controller-0", "--", "squeue", "-h"], deadline_seconds=60)
    if jobs.strip():
        raise RuntimeError(f"the cluster is not idle: {jobs.strip()}")
    time.sleep(SETTLE_SECONDS)  # What `up` began ends meanwhile.
    before = _used(kubectl)
    time.sleep(IDLE_SECONDS)  # An idle cluster is measured over a time, not until something happens.
    return of_idle(before, _used(kubectl))


Used = Mapping[str, tuple[float, float]]
"""Pod → its CPU seconds until now, and the moment, in seconds since the epoch, for which its kubelet says so."""


def _used(kubectl: list[str]) -> Used:
    nodes = run([*kubectl, "get", "nodes", "-o", "jsonpath={.items[*].metadata.name}"], deadline_seconds=30).split()
    asked = [[*kubectl, "get", "--raw", f"/api/v1/nodes/{node}/proxy/stats/summary"] for node in nodes]
    summaries = [json.loads(run(command, deadline_seconds=30)) for command in asked]
    return {name: used for summary in summaries for name, used in used_by_pods(summary).items()}


def used_by_pods(summary: Mapping[str, Any]) -> Used:
    """Read a kubelet's summary (Kubernetes, Node metrics data: stats/summary)."""
    return {
        pod["podRef"]["name"]: (
            pod["cpu"]["usageCoreNanoSeconds"] / 1e9,
            datetime.fromisoformat(pod["cpu"]["time"]).timestamp(),
        )
        for pod in summary["pods"]
        if pod["podRef"]["namespace"] == "slurm" and "usageCoreNanoSeconds" in pod.get("cpu", {})
    }


def of_idle(before: Used, after: Used) -> Measurement:
    """Return the row about pods between two looks.

    Raises:
        RuntimeError: Pods came, went or were not looked at: the cluster is not idle.
    """
    if not before or before.keys() != after.keys():
        raise RuntimeError(f"pods changed: {sorted(before.keys() ^ after.keys()) or 'none is known'}")
    cores = {
        pod: (after[pod][0] - used) / (after[pod][1] - moment)
        for pod, (used, moment) in sorted(before.items())
        if after[pod][1] > moment
    }
    if cores.keys() != before.keys():
        raise RuntimeError(f"the kubelet measured no time of {sorted(before.keys() - cores.keys())}")
    name = "an idle dev cluster: all pods together"
    return Measurement(name, sum(cores.values()), 0.2, "cores", cores)
