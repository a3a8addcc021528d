"""Measures the plugin's cost for a step: `srun true` on a node with it ÷ without it, alternately, one and 64 at once.

And for a batch job: from slurmctld's allocation to its notice of the end.
"""

from __future__ import annotations

import json
import math
import random
import re
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime

from bench.measurement import Measurement, middle_milliseconds, run
from devcluster.cli.up import Cluster

REPETITIONS = 500
AT_ONCE = 64
ROUNDS = 60
BATCH_JOBS = 500
WITH, WITHOUT = "cpu-0", "cpu-1"
_TIMES = re.compile(
    r"^\[(?P<moment>[^]]+)\] "
    r"(?:sched(?:/backfill)?: (?:Allocate|_start_job: Started) JobId=(?P<given>\d+) "
    r".*?(?:NodeList=| on )(?P<node>\S+)"
    r"|_job_complete: JobId=(?P<ended>\d+) WEXITSTATUS)",
    re.MULTILINE,
)

# Runs on the login node, to leave out SSH and Python's start: a step inside a job that holds both nodes. The order of
# the two is random each time.
TIMER = f"""
import json, subprocess, sys, time
at_once, order = json.load(sys.stdin)
taken = {{"{WITH}": [], "{WITHOUT}": []}}
for node in order:
    began = time.perf_counter()
    step = ["srun", "-n1", "-N1", "-w", node, "--overlap", "--mem=1M", "-D", "/tmp", "true"]
    steps = [subprocess.Popen(step) for _ in range(at_once)]
    assert not any(step.wait(120) for step in steps)
    taken[node].append(time.perf_counter() - began)
print(json.dumps(taken))
"""

# A copy of slurmstepd that needs no guard, in the working folder.
PATCHED_STEPD = """python3 - <<'P'
from pathlib import Path
code, guard = Path("{stepd}").read_bytes(), b"stepd_guard.so\\0"
assert code.count(guard) == 1
Path("without").write_bytes(code.replace(guard, b"libc.so.6".ljust(len(guard), b"\\0")))
P
chmod 755 without
"""

# Only for this measurement: it halts the watcher that would stop slurmd. It removes the plugin from the node's own copy
# of the configuration, and the guard from slurmstepd. The pod is deleted afterwards.
NO_PLUGIN = """
set -e
for process in /proc/[0-9]*; do
    if [ "$(cat $process/comm)" = python3 ] && grep -q worker $process/cmdline; then kill -STOP ${process#/proc/}; fi
done
: > /run/slurm/conf/plugstack.conf
"""
# The pod's root is read-only: the copy lies over slurmstepd in this pod's mounts alone.
WITHOUT_PLUGIN = f"""{NO_PLUGIN}
cd /run
{PATCHED_STEPD.format(stepd="/opt/slurm/sbin/slurmstepd")}
mount --bind /run/without /opt/slurm/sbin/slurmstepd
"""

# A dependency is fulfilled once slurmctld knows the end of the job's extern step and epilog too.
CHAIN = """
set -e
trap '[ $? = 0 ] || scancel --me --name=bench' EXIT
job="sbatch --parsable --job-name=bench --exclusive -D /tmp -o /dev/null"
gate=$($job --hold --wrap true)
previous=$gate
for node in {nodes}; do
    previous=$($job -w $node -d afterany:$previous --wrap true)
    echo $previous
done
scontrol release $gate
$job --wait -d afterany:$previous --wrap true > /dev/null
"""


def measure(cluster: Cluster) -> list[Measurement]:
    """Middles of 500 single steps each way, of 60 rounds of 64 steps at once, and of 500 batch jobs."""
    with without_plugin(cluster):
        one = _ratio(cluster, "srun true with the plugin ÷ without", 1, REPETITIONS)
        many = _ratio(cluster, f"{AT_ONCE} steps at once with the plugin ÷ without", AT_ONCE, ROUNDS)
        batch = _batch_ratio(cluster)
    return [one, many, batch]


@contextmanager
def without_plugin(cluster: Cluster) -> Iterator[None]:
    """Context in which one node has no plugin. Both nodes' pods are new: an old one's connections may be slower."""
    kubectl = in_slurm(cluster)
    _renew(kubectl, WITH, WITHOUT)
    run([*kubectl, "exec", WITHOUT, "--", "sh", "-c", WITHOUT_PLUGIN], deadline_seconds=30)
    try:
        yield
    finally:
        _renew(kubectl, WITHOUT)


def _renew(kubectl: list[str], *nodes: str) -> None:
    before = {node: _uid(kubectl, node) for node in nodes}
    # kubectl's own wait for the end was once not over when the next pod of that name was there.
    run([*kubectl, "delete", "pod", "--wait=false", *nodes], deadline_seconds=60)
    ends = time.monotonic() + 180
    while any(_uid(kubectl, node) in ("", before[node]) for node in nodes):
        if time.monotonic() > ends:
            raise RuntimeError(f"no new pods of {', '.join(nodes)} within 180 s")
        time.sleep(1)  # Before the measurement: two questions a second apart, for some seconds.
    for node in nodes:
        run([*kubectl, "wait", "--for=condition=Ready", f"pod/{node}", "--timeout=120s"], deadline_seconds=150)


def _uid(kubectl: list[str], pod: str) -> str:
    """A pod's uid; empty if there is none."""
    command = [*kubectl, "get", "pod", pod, "--ignore-not-found", "-o", "jsonpath={.metadata.uid}"]
    return run(command, deadline_seconds=30)


def in_slurm(cluster: Cluster) -> list[str]:
    """Start of a kubectl command line, in the namespace of the stack."""
    return [str(cluster.binaries / "kubectl"), "--kubeconfig", str(cluster.kubeconfig), "-n", "slurm"]


def log_since(cluster: Cluster, began: float) -> str:
    """Log of slurmctld since some time of the monotonic clock."""
    since = f"--since={math.ceil(time.monotonic() - began) + 1}s"
    return run([*in_slurm(cluster), "logs", since, "slurm-controller-0"], deadline_seconds=60)


def _ratio(cluster: Cluster, name: str, at_once: int, repetitions: int) -> Measurement:
    order = [node for _ in range(repetitions) for node in random.sample([WITH, WITHOUT], 2)]
    given = json.dumps([at_once, order])
    script = f"cat > timer.py <<'P'\n{TIMER}\nP\nsalloc -Q -N2 python3 timer.py <<'O'\n{given}\nO\n"
    return _compared(name, json.loads(run(cluster.login.run_command([script]), deadline_seconds=1200)))


def _batch_ratio(cluster: Cluster) -> Measurement:
    """Measure batch jobs one at a time, in random order. Each waits until nothing is left of the one before it."""
    order = [node for _ in range(BATCH_JOBS) for node in random.sample([WITH, WITHOUT], 2)]
    began = time.monotonic()
    submit = CHAIN.format(nodes=" ".join(order))
    ours = set(run(cluster.login.run_command([submit]), deadline_seconds=3600).split())
    taken = batch_seconds(log_since(cluster, began), ours)
    counts = {node: len(seconds) for node, seconds in taken.items()}
    if counts != {WITH: BATCH_JOBS, WITHOUT: BATCH_JOBS}:
        raise RuntimeError(f"slurmctld's log has the times of {counts} batch jobs, not of {BATCH_JOBS} on each node")
    return _compared("sbatch true with the plugin ÷ without", taken)


def batch_seconds(log: str, jobs: Collection[str]) -> dict[str, list[float]]:
    """Reads from slurmctld's log how long each of some jobs took; returns node → seconds."""
    given: dict[str, tuple[datetime, str]] = {}
    taken: dict[str, list[float]] = {}
    for match in _TIMES.finditer(log):
        job, node, moment = match["given"] or match["ended"], match["node"], datetime.fromisoformat(match["moment"])
        if job not in jobs:
            continue
        if node:
            given[job] = moment, node
        elif job in given:
            start, where = given.pop(job)
            taken.setdefault(where, []).append((moment - start).total_seconds())
    return taken


def _compared(name: str, taken: Mapping[str, list[float]]) -> Measurement:
    with_plugin, without = middle_milliseconds(taken[WITH]), middle_milliseconds(taken[WITHOUT])
    return Measurement(name, with_plugin / without, 1.05, detail={"with, ms": with_plugin, "without, ms": without})
