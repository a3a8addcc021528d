"""A user's clients that never read their answers leave slurmctld its threads (native/limits/slow_readers.c)."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from contract import names
from tests.image.pods import run
from tests.image.small_cluster import ALICE, NewCluster, SmallCluster

READER = Path(__file__).with_name("slow_reader.c")
THREADS = 2 * (os.cpu_count() or 1)
"""Threads of slurmctld. By itself each waits for its reader, for MessageTimeout: 10 s."""
SLOW = 4 * THREADS
SOON_SECONDS = 8.0
# An answer about these jobs is longer than the kernel takes at once.
HOLD_JOBS = """
printf '#!/bin/sh\\n' > /tmp/job
argument=$(head -c 100000 /dev/zero | tr '\\0' x)
for i in $(seq 10); do sbatch -Q -H -o /dev/null /tmp/job $argument $argument $argument || exit; done
"""
ASK = f"""
for i in $(seq {SLOW}); do
    LD_PRELOAD=/srv/slow_reader.so timeout -s KILL 60 scontrol show jobs > /dev/null 2>&1 &
done
"""


@pytest.fixture(scope="module")
def cluster(new_cluster: NewCluster) -> Iterator[SmallCluster]:
    with new_cluster() as started:
        yield started


def unread(cluster: SmallCluster) -> int:
    """Count slurmctld's connections with bytes that their peers have not taken."""
    table = run(cluster.in_network("cat", "/proc/net/tcp"), 30).stdout.splitlines()[1:]
    rows = [line.split() for line in table]
    ours = [row for row in rows if int(row[1].rpartition(":")[2], 16) == names.SLURMCTLD_PORT]
    return sum(int(row[4].partition(":")[0], 16) > 0 for row in ours)


def test_a_users_clients_that_never_read_keep_no_other_waiting(cluster: SmallCluster) -> None:
    library = cluster.root / "srv/slow_reader.so"
    built = ["gcc", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-o", str(library), str(READER)]
    subprocess.run(built, check=True, timeout=60)
    held = cluster.jail(HOLD_JOBS, user=ALICE)
    assert held.returncode == 0, held.stderr
    try:
        cluster.jail(ASK, user=ALICE)
        cluster.wait("more answers wait than slurmctld has threads", lambda: unread(cluster) > THREADS, 30)
        began = time.monotonic()
        for _ in range(5):
            assert cluster.jail("sinfo -h").returncode == 0
        assert time.monotonic() - began < SOON_SECONDS
    finally:
        cluster.jail("scancel --me", user=ALICE)
