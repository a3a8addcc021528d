"""A pod's entry (slurm_node) at rest: it finds nothing, drains nothing and says nothing, its daemons stand alone."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.image.small_cluster import SmallCluster


@contextmanager
def at_rest(cluster: SmallCluster, pod: str) -> Iterator[None]:
    """Stops a pod's entry, without its daemons, and lets it go on afterwards."""
    first = cluster.first_process(pod)
    children = Path(f"/proc/{first}/task/{first}/children").read_text().split()
    (entry,) = [int(child) for child in children if b"slurm_node" in Path(f"/proc/{child}/cmdline").read_bytes()]
    os.kill(entry, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(entry, signal.SIGCONT)
