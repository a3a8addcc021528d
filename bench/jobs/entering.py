"""Measures the cost of submounts: a job's namespaces, a step in them, a login; with 5 submounts and with 200.

It runs without Slurm and Kubernetes: the library's own code on a tree of mounts in memory. For jobs,
tests/native/job/job_probe.c calls it, for logins a login node's own jail probe (native/programs/jail_probe.c).
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import tempfile
from pathlib import Path

from bench.measurement import Measurement
from devcluster.machine.bootstrap import CHECKOUT

FEW, MANY = 5, 200
LOGIN_SECONDS = 0.005
"""Bound for a login, which takes sshd and the client some 150 ms."""
ROUNDS, REPETITIONS, STEPS, LOGINS = 12, 2, 50, 10

TREE = """
set -e
mkdir "$JAIL"
mount -t tmpfs -o size=64m jail "$JAIL"
for folder in run dev proc sys bin usr lib lib64 etc tmp var/spool/slurmd; do mkdir -p "$JAIL/$folder"; done
for folder in bin usr lib lib64 etc; do [ ! -d /$folder ] || mount --rbind /$folder "$JAIL/$folder"; done
mount -t tmpfs run "$JAIL/run"
mkdir -p "$JAIL/run/slurm/door/conf" "$JAIL/run/slurm/conf"
mount --bind "$JAIL/run/slurm" "$JAIL/run/slurm"
for folder in tmp var/spool/slurmd; do mount --bind "$JAIL/$folder" "$JAIL/$folder"; done
for folder in dev proc sys; do mount --rbind /$folder "$JAIL/$folder"; done
for number in $(seq "$SUBMOUNTS"); do
    mkdir -p "$JAIL/mnt/$number"
    mount -t tmpfs submount "$JAIL/mnt/$number"
    echo "/mnt/$number"
done > "$JAIL/run/.jail-ready"
exec python3 -c "$TIMER" "$JOB_PROBE" "$JAIL_PROBE" "$JAIL"
"""

TIMER = f"""
import json, subprocess, sys, time
job_probe, jail_probe, jail = sys.argv[1:]
def timed(expected, *command):
    began = time.perf_counter()
    done = subprocess.run(command, check=True, timeout=120, capture_output=True, text=True)
    assert done.stdout == expected, done.stdout
    return time.perf_counter() - began
def job(*steps):
    return timed("-> 0\\n" * len(steps), job_probe, jail, *steps)
job("true")
jobs, steps, logins = [], [], []
for _ in range({REPETITIONS}):
    jobs.append(job())
    steps.append((job(*["true"] * {STEPS}) - jobs[-1]) / {STEPS})
    logins += [timed("", jail_probe, jail, "login") for _ in range({LOGINS})]
print(json.dumps([jobs, steps, logins]))
"""


def measure(_cluster: None) -> list[Measurement]:
    """Measure alternately medians of 24 jobs with each tree, of 50 steps in each job, and of 240 logins."""
    jobs: dict[int, list[float]] = {FEW: [], MANY: []}
    steps: dict[int, list[float]] = {FEW: [], MANY: []}
    logins: dict[int, list[float]] = {FEW: [], MANY: []}
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        programs = [str(folder / name) for name in ("job_probe", "jail_probe_tested")]
        made = ["make", "-s", "-C", str(CHECKOUT / "native"), f"OUT={folder}", "SANITIZERS=", *programs]
        subprocess.run(made, check=True, timeout=120)
        for _ in range(ROUNDS):
            for count in (FEW, MANY):
                for kept, taken in zip((jobs, steps, logins), _run(folder, count), strict=True):
                    kept[count] += taken
    return [
        _compared("entering a job with 200 submounts ÷ 5", steps, 1.1),
        # Linux copies the table of mounts for a new namespace, once for a job or a login.
        _compared("making a job's namespaces with 200 submounts ÷ 5", jobs, None),
        _added("what 200 submounts add to a login with 5", logins, LOGIN_SECONDS),
    ]


def _run(folder: Path, count: int) -> list[list[float]]:
    programs = {"JOB_PROBE": str(folder / "job_probe"), "JAIL_PROBE": str(folder / "jail_probe_tested"), "TIMER": TIMER}
    with tempfile.TemporaryDirectory(dir=folder) as own:
        ours = {**programs, "JAIL": f"{own}/jail", "SUBMOUNTS": str(count)}
        done = subprocess.run(
            ["unshare", "--mount", "--propagation", "private", "sh", "-c", TREE],
            env={**os.environ, **ours}, capture_output=True, text=True, check=False, timeout=600,
        )  # fmt: skip
    if done.returncode != 0:
        raise RuntimeError(f"a tree with {count} submounts: {done.stderr[-1000:]}")
    taken: list[list[float]] = json.loads(done.stdout)
    return taken


def _compared(name: str, seconds: dict[int, list[float]], bound: float | None) -> Measurement:
    medians = _medians(seconds)
    return Measurement(name, medians[MANY] / medians[FEW], bound, detail=_detail(medians))


def _added(name: str, seconds: dict[int, list[float]], bound: float) -> Measurement:
    medians = _medians(seconds)
    return Measurement(name, medians[MANY] - medians[FEW], bound, "s", _detail(medians))


def _medians(seconds: dict[int, list[float]]) -> dict[int, float]:
    return {count: statistics.median(taken) for count, taken in seconds.items()}


def _detail(medians: dict[int, float]) -> dict[str, float]:
    return {f"{count} submounts, ms": taken * 1000 for count, taken in medians.items()}
