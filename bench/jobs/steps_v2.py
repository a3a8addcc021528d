"""Measures steps and batch jobs on cgroup v2, as bench/jobs/steps.py does, in the guest: on two workers of a cluster.

Both workers are in one guest; on one of them slurmd has no plugin.
"""

from __future__ import annotations

import json
import random
import sys
import tempfile
from functools import partial
from pathlib import Path

from bench.jobs.steps import WITH, WITHOUT, WITHOUT_PLUGIN, batch_seconds
from bench.measurement import Measurement, middle_milliseconds
from devcluster.images.layers import unpack_image
from devcluster.machine.bootstrap import CHECKOUT
from devcluster.vm import guest
from devcluster.vm import tests as vm_tests
from tests.image import roots
from tests.image.pods import CONTROLLER
from tests.image.small_cluster import ALICE, SmallCluster

REPETITIONS = 40
SECONDS = 1500.0
BOUND = 1.1
"""Twice the bound on v1: a guest's processes share two of its machine's cores with its kernel."""
# Without it, a step would read srun's input, which is the script.
STEP = "srun -n1 -N1 -w {node} --overlap --mem=1M -D /tmp true < /dev/null"
BATCH = "sbatch --parsable -w {node} -D /tmp -o /dev/null --wrap true"


def measure(_: None) -> list[Measurement]:
    """Measure medians of 40 steps in an allocation, and of 40 batch jobs, each way, alternately in random order."""
    vm_tests.prepare()
    with guest.shared_folder() as folder:
        result = folder / "result.json"
        status = guest.run(
            [sys.executable, "-m", "bench.jobs.steps_v2", str(result)], folder,
            directory=CHECKOUT, environment=vm_tests.environment(), seconds=SECONDS,
        )  # fmt: skip
        if status != 0:
            raise RuntimeError(f"the measurement in the guest ended with {status}: see above")
        taken = json.loads(result.read_text())
    return [_compared(f"{what} on cgroup v2 with the plugin ÷ without", taken[what]) for what in ("srun", "sbatch")]


def _compared(name: str, taken: dict[str, list[float]]) -> Measurement:
    with_plugin, without = middle_milliseconds(taken[WITH]), middle_milliseconds(taken[WITHOUT])
    jobs = min(len(taken[WITH]), len(taken[WITHOUT]))
    detail = {"with, ms": with_plugin, "without, ms": without, "times each way, at least": jobs}
    return Measurement(name, with_plugin / without, BOUND, detail=detail)


def _measure_here(result: Path) -> None:
    groups = Path("/sys/fs/cgroup/bench")
    groups.mkdir()
    for parent in (groups.parent, groups):
        for name in (parent / "cgroup.controllers").read_text().split():
            (parent / "cgroup.subtree_control").write_text(f"+{name}")
    folder = Path(tempfile.mkdtemp(dir=guest.SCRATCH))
    folder.chmod(0o755)
    for name in ("image", "cluster"):
        (folder / name).mkdir()
    image = unpack_image(folder / "image")
    with SmallCluster(
        image, roots.make("bookworm", folder / "cluster/root"), folder / "cluster", groups=groups
    ) as cluster:
        cluster.start()
        cluster.start_second_worker()
        changed = cluster.pod(WITHOUT_PLUGIN, name=WITHOUT)
        assert changed.returncode == 0, changed.stderr
        result.write_text(json.dumps({"srun": _steps(cluster), "sbatch": _batches(cluster)}))


def _order() -> list[str]:
    return [node for _ in range(REPETITIONS) for node in random.sample([WITH, WITHOUT], 2)]


def _steps(cluster: SmallCluster) -> dict[str, list[float]]:
    """Measure steps inside one job that holds both nodes. Its script prints each step's time in nanoseconds."""
    lines = [f"a=$(date +%s%N); {STEP.format(node=node)}; echo {node} $(($(date +%s%N) - a))" for node in _order()]
    script = "\n".join(lines)
    said = cluster.jail(f"salloc -Q -N2 sh <<'S'\n{script}\nS", user=ALICE, seconds=600)
    taken: dict[str, list[float]] = {WITH: [], WITHOUT: []}
    for line in said.stdout.splitlines():
        node, nanoseconds = line.split()
        taken[node].append(int(nanoseconds) / 1e9)
    assert {len(seconds) for seconds in taken.values()} == {REPETITIONS}, said.stderr
    return taken


def _batches(cluster: SmallCluster) -> dict[str, list[float]]:
    """Measure batch jobs one at a time, from slurmctld's allocation to its notice of the end, by its log.

    Returns:
        For each node the seconds of at least three quarters of its jobs.
    """
    ours: set[str] = set()

    def is_over(job: str) -> bool:
        return not cluster.jail(f"squeue -h -j {job}").stdout

    for node in _order():
        submitted = cluster.jail(BATCH.format(node=node), user=ALICE)
        assert submitted.returncode == 0, submitted
        job = submitted.stdout.strip()
        ours.add(job)
        cluster.wait("nothing is left of it", partial(is_over, job), 60)
    taken = batch_seconds(cluster.log(CONTROLLER), ours)
    # slurmctld drops a log line if poll() does not report its stderr as writable in time, as happens here.
    counts = {node: len(seconds) for node, seconds in taken.items()}
    enough = taken.keys() == {WITH, WITHOUT} and min(counts.values()) >= REPETITIONS * 3 // 4
    assert enough, f"{counts}: {cluster.log(CONTROLLER)[-4000:]}"
    return taken


if __name__ == "__main__":
    _measure_here(Path(sys.argv[1]))
