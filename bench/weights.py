"""Measures distinct weights in slurmctld with 1,000 nodes: it examines the nodes of each weight separately.

A worker's weight grows with its number (images/slurm/slurm_node/pod/settings.py). So jobs fill low nodes, and a
scale-in finds idle ones. The time is slurmctld's for "when and where would this job start?", which chooses nodes as for
a start.
"""

from __future__ import annotations

import re
import statistics
import tempfile
from pathlib import Path

from bench.measurement import Measurement
from bench.worlds.real_slurm import RealSlurm
from tests.image.unpacked import unpack_image
from tests.operator.world import KEY

NODES, WEIGHTS, WANTED = 1000, 16, 300
ROUNDS, QUESTIONS = 8, 25
RPC = re.compile(r"REQUEST_JOB_WILL_RUN +\(.*?\) +count:(\d+) +ave_time:(\d+)")


def measure(_: None) -> list[Measurement]:
    """Measure alternately with one weight and with the most that a node set has."""
    taken: dict[int, list[float]] = {1: [], WEIGHTS: []}
    with tempfile.TemporaryDirectory() as folder:
        image = Path(folder) / "image"
        image.mkdir()
        unpack_image(image)
        with RealSlurm(image, Path(folder) / "slurm", KEY) as slurm:
            slurm.make_nodes("cpu", NODES)
            for _round in range(ROUNDS):
                for weights, seconds in taken.items():
                    _weigh(slurm, weights)
                    seconds.append(_answer_seconds(slurm))
    one, many = (statistics.median(seconds) * 1000 for seconds in taken.values())
    detail = {"1 weight, ms": one, f"{WEIGHTS} weights, ms": many}
    return [Measurement(f"choosing {WANTED} of {NODES} nodes with {WEIGHTS} weights ÷ 1", many / one, 1.5, "x", detail)]


def _weigh(slurm: RealSlurm, weights: int) -> None:
    size = NODES // weights + 1
    for weight in range(weights):
        first, last = weight * size, min((weight + 1) * size, NODES) - 1
        slurm.command(f"scontrol update nodename=cpu-[{first}-{last}] weight={100 + weight}")


def _answer_seconds(slurm: RealSlurm) -> float:
    ask = f"sbatch --test-only -N {WANTED} --wrap true"
    slurm.command(f"sdiag --reset; for i in $(seq {QUESTIONS}); do {ask} || exit; done")
    match = RPC.search(slurm.command("sdiag"))
    assert match, "slurmctld tells what each kind of question took"
    assert int(match[1]) == QUESTIONS
    return int(match[2]) / 1e6
