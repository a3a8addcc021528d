"""One run: two operators, canaries, a sampler, the schedule, and the wait until all is well again."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from bench.faults.canaries import Canaries
from bench.faults.cluster import APPS, CallFailed, Cluster
from bench.faults.conductor import Conductor
from bench.faults.record import Record
from bench.faults.sampler import Sampler
from bench.faults.schedule import plan
from bench.faults.verdict import health, judge
from contract import names
from devcluster.machine.progress import Step, StepFailed, say

OPERATORS = 2
REPLICAS_KEY = "pulumi-slurm:operator.replicas"
BEFORE_SECONDS = 180.0
CALM_SECONDS = 10.0
"""Time without any trouble after which all counts as well again."""
FRESH_SECONDS = 10.0
"""Greatest age of a look that still tells about now."""
LOOK_SECONDS = 1.0


def run(cluster: Cluster, seed: int, minutes: int, file: Path) -> None:
    """Run a schedule of faults on a healthy cluster, and write its history.

    Raises:
        StepFailed: the cluster is not healthy before.
    """
    faults, record = plan(seed, minutes), Record(file)
    mark = f"{seed}-{int(time.time()):x}"
    try:
        with Sampler(cluster, record), Canaries(cluster, record, mark) as canaries:
            nodes = _healthy_nodes(record)
            record.write("run", at=time.time(), seed=seed, minutes=minutes, planned=len(faults), nodes=nodes)
            with Step(f"{len(faults)} faults in {minutes} min, seed {seed}"), canaries.submitting():
                Conductor(cluster, record, faults).run()
            _wait_until_well(record, nodes, canaries)
            canaries.collect()
            record.write("finished", at=time.time())
    except CallFailed as failure:
        raise StepFailed(f"the run broke off: {failure}", file) from failure
    finally:
        record.close()


def _troubles(record: Record, nodes: list[str]) -> list[str]:
    """Return what is wrong, and each source without a fresh look."""
    kubernetes, slurm, now = record.kubernetes, record.slurm, time.time()
    blind = [
        f"{name} was not seen for {FRESH_SECONDS:.0f} s"
        for name, seen in (("Kubernetes", kubernetes), ("Slurm", slurm))
        if seen is None or now - seen.at > FRESH_SECONDS
    ]
    if blind or kubernetes is None or slurm is None:
        return blind
    return health.troubles(kubernetes, slurm, nodes or sorted(slurm.nodes))


def _healthy_nodes(record: Record) -> list[str]:
    """Wait until nothing is wrong, and return the Slurm nodes of that moment."""
    deadline = time.monotonic() + BEFORE_SECONDS
    with Step("waiting for a healthy cluster") as step:
        while troubles := _troubles(record, []):
            if time.monotonic() > deadline:
                raise StepFailed(f"the cluster is not healthy before any fault: {'; '.join(troubles)}", record.file)
            step.heartbeat(troubles[0])
            time.sleep(LOOK_SECONDS)  # The sampler looks meanwhile.
    assert record.slurm
    return sorted(record.slurm.nodes)


def _wait_until_well(record: Record, nodes: list[str], canaries: Canaries) -> None:
    """Wait until the cluster has been well for a while and all canaries have ended, with the judge's deadline."""
    deadline = time.monotonic() + judge.HEALTHY_SECONDS + CALM_SECONDS
    well_since: float | None = None
    with Step("waiting until all is healthy again") as step:
        while time.monotonic() < deadline:
            troubles = [*_troubles(record, nodes), *(f"job {name} has not ended" for name in canaries.outstanding())]
            if troubles:
                well_since = None
                step.heartbeat("; ".join(troubles[:3]))
            elif well_since is None:
                well_since = time.monotonic()
            elif time.monotonic() - well_since > CALM_SECONDS:
                return
            time.sleep(LOOK_SECONDS)  # The sampler looks meanwhile.
    say("  it is not healthy, five minutes after the last fault")


@contextmanager
def two_operators(cluster: Cluster) -> Iterator[None]:
    """Context in which a second operator waits for the lease. Its end restores the Deployment's replicas."""
    deployment: Mapping[str, Mapping[str, int]] = cluster.patiently(f"{APPS}/deployments/{names.OPERATOR}")
    if deployment["spec"].get("replicas", 1) >= OPERATORS:
        yield
        return
    stack = cluster.dev.stack
    quiet = ["--yes", "--skip-preview", "--non-interactive", "--suppress-permalink=true"]
    stack.clear_dead_lock()
    try:
        with Step("pulumi up with two operators"):
            stack.run("config", "set", "--path", REPLICAS_KEY, str(OPERATORS), capture=True)
            stack.run("up", *quiet, capture=True)
        yield
    finally:
        with Step("pulumi up with one operator"):
            stack.clear_dead_lock()
            stack.run("config", "rm", "--path", REPLICAS_KEY, capture=True)
            stack.run("up", *quiet, capture=True)
