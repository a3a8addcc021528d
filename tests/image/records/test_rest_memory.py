"""slurmrestd's memory: its threads share what long answers take."""

from __future__ import annotations

import re

from tests.image.slurmrestd import Rest
from tests.image.small_cluster import SmallCluster

HEAP = 64 << 20
"""glibc maps each further heap at a multiple of this, and reserves as much (HEAP_MAX_SIZE of malloc/arena.c)."""
_USED_AND_RESERVED = re.compile(r"([0-9a-f]+)-[0-9a-f]+ rw-p .*\n[0-9a-f]+-([0-9a-f]+) ---p ")
_SHOW = 'for each in /proc/[0-9]*; do test "$(cat $each/comm)" = slurmrestd && cat $each/{}; done'


def shown(cluster: SmallCluster, file: str) -> str:
    """Return a file of /proc about slurmrestd."""
    return cluster.pod(_SHOW.format(file)).stdout


def further_heaps(maps: str) -> int:
    found = [(int(first, 16), int(end, 16)) for first, end in _USED_AND_RESERVED.findall(maps)]
    return sum(first % HEAP == 0 and end == first + HEAP for first, end in found)


def test_the_threads_of_slurmrestd_share_one_heap(cluster: SmallCluster) -> None:
    rest = Rest(cluster)
    for _ in range(8):
        assert rest.call("GET", "/nodes/")["nodes"]
    (threads,) = re.findall(r"^Threads:\s+(\d+)", shown(cluster, "status"), re.MULTILINE)
    assert int(threads) > 1
    maps = shown(cluster, "maps")
    assert "[heap]" in maps
    assert further_heaps(maps) == 0
