"""A job that waits on the small cluster's worker, for tests that break its node."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.image.jail.breaks import ASK
from tests.image.small_cluster import SmallCluster


@pytest.fixture
def home(cluster: SmallCluster) -> Path:
    """Alice's, looked at from outside: she may not be let in."""
    return cluster.root.parents[1] / "persistent/home/alice"


@pytest.fixture
def waiting_job(cluster: SmallCluster, home: Path) -> Iterator[None]:
    """A job that starts a step when it is told to; its node has to be repaired and idle afterwards."""
    script = "touch waits; until [ -e goes-on ]; do sleep 0.2; done; srun -n1 --overlap echo ran outside"
    for name in ("waits", "goes-on", "out", "err"):
        (home / name).unlink(missing_ok=True)
    cluster.ssh(f"sbatch --quiet --no-requeue -o out -e err --wrap '{script}'").check_returncode()
    cluster.wait("the job runs", (home / "waits").exists, 60)
    yield
    cluster.ssh("scancel --me")
    cluster.wait("the drain is lifted", lambda: cluster.pod(ASK).stdout.startswith("idle"), 90)
    assert cluster.ssh("srun -n1 echo works again").stdout == "works again\n"
