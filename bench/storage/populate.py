"""Measures populate ÷ a plain tar pipe: the same tree, copied on the same disk, in random order."""

from __future__ import annotations

import random
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from slurm_node.roles import populate

from bench.measurement import Measurement, run
from devcluster.cli.up import Cluster

REPETITIONS = 5


def measure(cluster: Cluster) -> list[Measurement]:
    """Measure the median of 5 copies each way, of the root that the dev cluster's jobs see."""
    source = next(cluster.instance.volumes.glob("*/roots/*"))
    with tempfile.TemporaryDirectory(dir=cluster.instance.volumes) as scratch:
        folder = Path(scratch)
        _tar_pipe(source, folder / "warm")  # the source is in the page cache for every measured copy
        taken: dict[str, list[float]] = {"populate": [], "tar": []}
        for number in range(REPETITIONS):
            for name, copy in random.sample([("tar", _tar_pipe), ("populate", _populate)], 2):
                taken[name].append(_timed(copy, source, folder / f"{name}{number}"))
    seconds = {name: statistics.median(samples) for name, samples in taken.items()}
    detail = {f"{name}, s": value for name, value in seconds.items()}
    return [Measurement("populate ÷ plain tar pipe", seconds["populate"] / seconds["tar"], 1.1, detail=detail)]


# The Job's own program, in a pod with the volume, where the root is already complete.
AGAIN = """
import subprocess, time
began = time.monotonic()
subprocess.run(["python3", "-m", "slurm_node", "populate"], check=True, stdout=subprocess.DEVNULL)
print(time.monotonic() - began)
"""


def measure_again(cluster: Cluster) -> list[Measurement]:
    """Measure the median of 5 second, unchanged populates."""
    kubectl = [str(cluster.binaries / "kubectl"), "--kubeconfig", str(cluster.kubeconfig), "-n", "slurm"]
    command = [*kubectl, "exec", "cpu-0", "--", "python3", "-c", AGAIN]
    taken = [float(run(command, deadline_seconds=60)) for _ in range(5)]
    return [Measurement("a second, unchanged populate", statistics.median(taken), 1, "s")]


def _timed(copy: Callable[[Path, Path], None], source: Path, target: Path) -> float:
    run(["sync"], deadline_seconds=300)
    began = time.monotonic()
    copy(source, target)
    run(["sync"], deadline_seconds=300)
    taken = time.monotonic() - began
    shutil.rmtree(target)
    return taken


def _tar_pipe(source: Path, target: Path) -> None:
    target.mkdir()
    flags = "--numeric-owner --xattrs --acls --one-file-system"
    pipe = f"tar {flags} -C '{source}' -c . | tar {flags} -p -C '{target}' -x"
    run(["bash", "-o", "pipefail", "-c", pipe], deadline_seconds=600)


def _populate(source: Path, target: Path) -> None:
    populate.copy_image(source, target, target.with_suffix(".json"), target.parent)
