"""The operator with 0, 10,000 and 100,000 waiting jobs: a real API server, a real slurmctld, a real slurmrestd.

A tenth as many jobs have just ended. The ten nodes have no slurmd, so that no job runs.
"""

from __future__ import annotations

import re
import threading
import time
from pathlib import Path

from bench import many_nodes
from bench.curves import Curves, Values
from bench.measurement import Measurement
from bench.worlds.operator_world import Cluster, cluster, folder_with_image
from contract import reasons
from contract.conditions import ConditionType
from devcluster.apiserver.control_plane import free_ports
from tests.operator.worlds.world import World, operator, until

SIZES = (0, 10_000)
DEEPEST = 100_000
NODES = 10
LISTINGS = 5
OPTIONS = "MaxJobCount=200000\nMinJobAge=3600\nSlurmdTimeout=65533\n"
"""Seconds for which nodes without a slurmd stay idle (SlurmdTimeout)."""
BOUNDS = {
    "longest pass": (3, "s"),
    "memory": (150, "MiB"),
    "slurmrestd's memory": (256, "MiB"),
    "slurmctld's memory": (None, "MiB"),
    "scale-in of an idle node": (30, "s"),
    "reaction to a drain p99": (5, "s"),
    "looks at a status that is Unknown": (0, ""),
}
CURVES = Curves(
    "benchmarks-queues.svg",
    (
        "The operator, slurmctld and slurmrestd with ten nodes and more waiting jobs:",
        "",
        "![times and memory over the number of waiting jobs](benchmarks-queues.svg)",
    ),
    label="waiting jobs",
    sizes=(*SIZES, DEEPEST),
    title=lambda size: f"operator, {size:,} jobs wait",
    bounds=BOUNDS,
    scale={"xscale": "symlog", "xlim": (-1, 2 * DEEPEST)},
)


def measure(_: None) -> list[Measurement]:
    """Measure queues of the usual depths."""
    return _measured(SIZES)


def deepest(_: None) -> list[Measurement]:
    """Measure a queue of a depth that takes minutes to make."""
    return _measured((DEEPEST,))


def _measured(sizes: tuple[int, ...]) -> list[Measurement]:
    with folder_with_image() as (folder, image):
        by_size = {size: _at(size, folder / str(size), image) for size in sizes}
    return CURVES.rows(by_size)


def _at(size: int, folder: Path, image: Path) -> Values:
    port = free_ports(1)[0]
    with cluster(NODES, folder, image, OPTIONS) as made:
        world, slurm = made.world, made.slurm
        slurm.register_nodes("cpu", NODES)
        slurm.submit(size // 10, "ended")
        slurm.command("scancel --ctld --name=ended || true")
        slurm.submit(size, "waiting")
        slurm.forget_peaks()
        with operator(world, folder, made.kubeconfig, port, has_short_pauses=False) as process:
            world.wait(ConditionType.AVAILABLE, "True", seconds=300)
            world.wait(ConditionType.PROGRESSING, "False", seconds=300)
            watch = _Watch(world, port)
            with watch:
                drains = sorted(
                    seconds
                    for _ in range(many_nodes.DRAINS // many_nodes.DRAINED_AT_ONCE)
                    for seconds in many_nodes.drains_told(world, slurm)
                )
                scaled = [_scale_in(made, NODES - turn, listed=size == 0) for turn in range(1, LISTINGS + 1)]
            status = Path(f"/proc/{process.pid}/status").read_text()
        rest, controller = slurm.memory("slurmrestd"), slurm.memory("slurmctld")
    most = int(re.findall(r"VmHWM:\s+(\d+)", status)[0]) / 1024
    return {
        "longest pass": (watch.longest, {}),
        "memory": (most, {}),
        "slurmrestd's memory": (rest[1], {"now": rest[0]}),
        "slurmctld's memory": (controller[1], {"now": controller[0]}),
        "scale-in of an idle node": (max(scaled), {"fastest": min(scaled), "n": len(scaled)}),
        "reaction to a drain p99": many_nodes.percentile(drains),
        "looks at a status that is Unknown": (watch.untold, {"looks": watch.looks}),
    }


def _scale_in(made: Cluster, size: int, listed: bool) -> float:
    """Seconds from the request for fewer nodes until the StatefulSet has them.

    Afterwards the node's record is gone. In a queue too deep to be listed it stays, drained: a job may name it.
    """
    world, began, node = made.world, time.monotonic(), f"cpu-{size}"
    world.scale(size)
    until(lambda: world.size() == size, "replicas are lowered", 120)
    taken = time.monotonic() - began
    # The report that its kubelet would give of its end.
    world.admin.call("DELETE", world.path("pods", node), params={"gracePeriodSeconds": "0"})
    made.workloads._step()
    if listed:
        until(lambda: node not in made.slurm.command("sinfo -hN -o %N").split(), "Slurm's record goes", 120)
    else:
        until(lambda: reasons.SCALE_IN in made.slurm.command(f"sinfo -hN -n {node} -o %E"), "its record is drained", 10)
    return taken


class _Watch(threading.Thread):
    """Context that reads the status and the time of reconciles twice a second."""

    def __init__(self, world: World, port: int) -> None:
        super().__init__(daemon=True)
        self._world, self._port, self._end = world, port, threading.Event()
        self.longest = 0.0
        self.untold = self.looks = 0

    def run(self) -> None:
        """Poll until the context ends."""
        before = many_nodes.passes(self._port)
        while not self._end.wait(0.5):
            self.looks += 1
            self.untold += self._world.condition(ConditionType.AVAILABLE)["status"] == "Unknown"
            now = many_nodes.passes(self._port)
            if now[0] > before[0]:
                self.longest = max(self.longest, (now[1] - before[1]) / (now[0] - before[0]))
            before = now

    def __enter__(self) -> None:
        self.start()

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self.join()
