"""Measures how slurmctld chooses among 1,000 nodes: with distinct weights, and with a tree of switches.

A worker's weight grows with its number (images/slurm/slurm_node/pod/settings.py). So jobs fill low nodes, and a
scale-in finds idle ones; slurmctld examines the nodes of each weight separately. The time is slurmctld's for "when and
where would this job start?", which chooses nodes as for a start.
"""

from __future__ import annotations

import re
import statistics
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from bench.measurement import Measurement
from bench.worlds.real_slurm import RealSlurm
from devcluster.images.layers import unpack_image
from tests.operator.worlds.world import KEY
from tests.unit.samples import SMALL, changed

NODES, WEIGHTS, WANTED = 1000, 16, 300
SPINES, LEAVES = 4, 32
ROUNDS, QUESTIONS = 8, 25
RPC = re.compile(r"REQUEST_JOB_WILL_RUN +\(.*?\) +count:(\d+) +ave_time:(\d+)")


def weights(_: None) -> list[Measurement]:
    """Measure alternately with one weight and with the most that a node set has."""
    taken: dict[int, list[float]] = {1: [], WEIGHTS: []}
    with _clusters(SMALL) as (slurm,):
        for _round in range(ROUNDS):
            for number, seconds in taken.items():
                _weigh(slurm, number)
                seconds.append(_answer_seconds(slurm))
    one, many = (statistics.median(seconds) * 1000 for seconds in taken.values())
    detail = {"1 weight, ms": one, f"{WEIGHTS} weights, ms": many}
    return [Measurement(f"choosing {WANTED} of {NODES} nodes with {WEIGHTS} weights ÷ 1", many / one, 1.5, "x", detail)]


def tree(_: None) -> list[Measurement]:
    """Measure alternately a cluster without a topology and one whose nodes are on the leaves of a tree."""
    below = {f"spine{n}": [f"leaf{leaf}" for leaf in range(n, LEAVES, SPINES)] for n in range(SPINES)}
    topology = {"name": "fabric", "type": "tree", "default": True, "switches": {"core": [*below], **below}}
    placed = changed("nodeSets.0.topology", [{"name": "fabric", "unit": "leaf0"}])
    taken: tuple[list[float], list[float]] = ([], [])
    with _clusters(SMALL, changed("slurm.topologies", [topology], placed)) as slurms:
        _place(slurms[1])
        for _round in range(ROUNDS):
            for slurm, seconds in zip(slurms, taken, strict=True):
                seconds.append(_answer_seconds(slurm))
    flat, on_tree = (statistics.median(seconds) * 1000 for seconds in taken)
    detail = {"flat, ms": flat, "tree, ms": on_tree}
    name = f"choosing {WANTED} of {NODES} nodes on {LEAVES} switches ÷ without a topology"
    return [Measurement(name, on_tree / flat, 2, "x", detail)]


@contextmanager
def _clusters(*configurations: Mapping[str, Any]) -> Iterator[list[RealSlurm]]:
    """Run a slurmctld with 1,000 nodes for each of the configurations."""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        image = Path(folder) / "image"
        image.mkdir()
        unpack_image(image)
        slurms = [
            stack.enter_context(RealSlurm(image, Path(folder) / f"slurm{number}", KEY, base=base))
            for number, base in enumerate(configurations)
        ]
        for slurm in slurms:
            slurm.make_nodes("cpu", NODES)
        yield slurms


def _place(slurm: RealSlurm) -> None:
    """Give each node its leaf, as the operator does."""
    size = NODES // LEAVES + 1
    for leaf in range(LEAVES):
        first, last = leaf * size, min((leaf + 1) * size, NODES) - 1
        slurm.command(f"scontrol update nodename=cpu-[{first}-{last}] topology=fabric:leaf{leaf}")
    shown = slurm.command("scontrol show topology fabric")
    (leaf_line,) = (line for line in shown.splitlines() if f"SwitchName=leaf{LEAVES - 1} " in line)
    assert f"-{NODES - 1}]" in leaf_line, leaf_line


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
