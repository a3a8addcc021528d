"""The operator with 10, 100 and 1,000 nodes (5,000 by name): a real API server with as many pods, a real slurmctld.

Neither kubelets nor slurmds run, so it measures the operator's own time and Slurm's answers. Results: the time of a
reconcile, its requests, its memory, and its reaction time.
"""

from __future__ import annotations

import math
import re
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import httpx

from bench.curves import Curves, Values
from bench.measurement import Measurement
from bench.worlds.operator_world import cluster, folder_with_image
from bench.worlds.real_slurm import RealSlurm
from contract.conditions import ConditionType
from devcluster.apiserver.control_plane import free_ports
from tests.operator.worlds.world import Admin, World, operator, until

SIZES = (10, 100, 1000)
MOST = 5000
STEADY_SECONDS = 60
EDITS = 120
DRAINS, DRAINED_AT_ONCE = 104, 8
"""A percentile of 99 needs a hundred."""
REASON = "pulumi-slurm:health gpus: 3 of 4 GPUs answer"
HELD = [
    {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": f"held-{n}"}, "data": {"a": "as declared"}}
    for n in range(20)
]
BOUNDS = {
    "pass": (None, "s"),
    "memory": (150, "MiB"),
    "calls to the API server, a minute": (None, ""),
    "calls to slurmrestd, a minute": (None, ""),
    "heal p99": (2, "s"),
    "reaction to a drain p99": (5, "s"),
}
CURVES = Curves(
    "benchmarks-nodes.svg",
    (
        "The operator with more nodes: a real API server with as many pods and Kubernetes nodes, a real slurmctld.",
        "No slurmd and no kubelet runs:",
        "",
        "![time, memory, calls and latencies of the operator over the number of nodes](benchmarks-nodes.svg)",
    ),
    label="nodes",
    sizes=(*SIZES, MOST),
    title=lambda size: f"operator, {size} nodes",
    bounds=BOUNDS,
    scale={"xscale": "log"},
)


def measure(_: None) -> list[Measurement]:
    """Measure all sizes."""
    with folder_with_image() as (folder, image):
        by_size = {size: _at(size, folder / str(size), image) for size in SIZES}
    rows = CURVES.rows(by_size)
    # Ratios do not depend on the machine: what nothing changes must not cost more with more nodes.
    grown = by_size[SIZES[-1]], by_size[SIZES[0]]
    for name in ("calls to the API server, a minute", "calls to slurmrestd, a minute"):
        rows.append(Measurement(f"operator: {name}, 1,000 nodes to 10", grown[0][name][0] / grown[1][name][0], 1.5))
    return rows


def most(_: None) -> list[Measurement]:
    """The largest size alone, which takes some minutes to make."""
    with folder_with_image() as (folder, image):
        return CURVES.rows({MOST: _at(MOST, folder / str(MOST), image)})


def _at(size: int, folder: Path, image: Path) -> Values:
    port = free_ports(1)[0]
    with cluster(size, folder, image, held=HELD) as made:
        world, slurm, admin = made.world, made.slurm, made.world.admin
        slurm.make_nodes("cpu", size)
        idle = _calls_of(admin, STEADY_SECONDS / 6, lambda: 0)[0] * 6
        with operator(world, folder, made.kubeconfig, port, has_short_pauses=False) as process:
            world.wait(ConditionType.AVAILABLE, "True", seconds=300)
            world.wait(ConditionType.PROGRESSING, "False", seconds=300)
            # A pass tells some dozens of pods of their nodes: what nothing changes is measured once all are told.
            until(lambda: total_of(port, "pod_conditions_total") >= size, "all pods are told", 900)
            before = passes(port)
            asked, rest = _calls_of(admin, STEADY_SECONDS, lambda: total_of(port, r"rest_seconds_count\{.*\}"))
            after = passes(port)
            heals = sorted(_heal(world, turn) for turn in range(EDITS))
            drains = sorted(seconds for _ in range(DRAINS // DRAINED_AT_ONCE) for seconds in drains_told(world, slurm))
            status = Path(f"/proc/{process.pid}/status").read_text()
    resident, most = (int(re.findall(rf"{key}:\s+(\d+)", status)[0]) / 1024 for key in ("VmRSS", "VmHWM"))
    minute = 60 / STEADY_SECONDS
    return {
        "pass": ((after[1] - before[1]) / (after[0] - before[0]), {"passes": after[0] - before[0]}),
        "memory": (most, {"now": resident}),
        "calls to the API server, a minute": ((asked - idle) * minute, {}),
        "calls to slurmrestd, a minute": (rest * minute, {}),
        "heal p99": percentile(heals),
        "reaction to a drain p99": percentile(drains),
    }


def percentile(taken: list[float]) -> tuple[float, dict[str, float]]:
    """The p99 by nearest rank, no interpolation between two slow ones; seconds come sorted."""
    rank = math.ceil(0.99 * len(taken)) - 1
    return taken[rank], {"p50": statistics.median(taken), "slowest": taken[-1], "n": len(taken)}


def _calls_of(admin: Admin, seconds: float, other: Callable[[], float]) -> tuple[float, float]:
    """Number of calls in that time, by the API server and by another counter. Nothing else calls meanwhile."""
    before, others = _requests(admin), other()
    time.sleep(seconds)  # The span that is measured.
    return _requests(admin) - before - 1, other() - others


def _requests(admin: Admin) -> float:
    page = admin.client.get("/metrics").text
    return sum(float(value) for value in re.findall(r"^apiserver_request_total\{.*\} (\S+)$", page, re.MULTILINE))


def passes(port: int) -> tuple[float, float]:
    """Number of reconciles, and their seconds."""
    count, seconds = (total_of(port, rf'pass_seconds_{key}\{{.*subject="slurm".*\}}') for key in ("count", "sum"))
    return count, seconds


def total_of(port: int, rows: str) -> float:
    """Sum of some of the operator's own metrics."""
    page = httpx.get(f"http://127.0.0.1:{port}/metrics").text
    return sum(map(float, re.findall(rf"^pulumi_slurm_{rows} (\S+)$", page, re.MULTILINE)))


def _heal(world: World, turn: int) -> float:
    name = f"held-{turn % len(HELD)}"
    world.patch("configmaps", name, {"data": {"a": f"edited {turn}"}})
    began = time.monotonic()
    until(lambda: world.get("configmaps", name)["data"] == {"a": "as declared"}, "the edit is undone", 60)
    taken = time.monotonic() - began
    # Edits should come at random moments. Edits right after a repair would make the result too good.
    time.sleep(turn % 7 * 0.1)
    return taken


def drains_told(world: World, slurm: RealSlurm) -> list[float]:
    """Seconds from a node's drain of itself until the operator's status counts it, for some nodes."""
    began: list[float] = []
    told: list[float] = []
    deadline = time.monotonic() + 60
    while len(told) < DRAINED_AT_ONCE:
        if len(began) < DRAINED_AT_ONCE and time.monotonic() > (began or [0])[-1] + 0.3:
            slurm.drain(f"cpu-{len(began)}", REASON)
            began.append(time.monotonic())
        told += [time.monotonic()] * (drained(world) - len(told))
        if time.monotonic() > deadline:
            raise TimeoutError(f"the operator tells of {len(told)} of {len(began)} drained nodes")
        time.sleep(0.03)  # Resolution of the measurement: polling without a pause would load the API server.
    for node in range(DRAINED_AT_ONCE):
        slurm.undrain(f"cpu-{node}")
    until(lambda: drained(world) == 0, "the drains' end is told", 60)
    return [end - begin for begin, end in zip(began, told, strict=True)]


def drained(world: World) -> int:
    """Number of nodes that the status counts as drained."""
    return int(world.get("slurmclusters", "test")["status"]["nodes"]["drained"])
