"""Nothing of a node lands on the shared volume: what pods, jobs and logins of nodes that differ leave there is nobody's
but their users'.
"""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.image import roots
from tests.image.jail.fake_drivers import DRIVERS, bring, driver_files
from tests.image.networks import ADDRESS
from tests.image.pods import LOGIN, REVISION, SECOND, SECOND_ADDRESS, WORKER
from tests.image.small_cluster import SmallCluster

NODES = (WORKER, SECOND, LOGIN)
TELLING = [word.encode() for word in (*NODES, ADDRESS, SECOND_ADDRESS, *DRIVERS.values())]
"""Files that differ between these nodes: names, addresses, drivers."""
LDCONFIG = {"etc/ld.so.cache", "var/cache/ldconfig/aux-cache"}
USE = """
    set -e
    for folder in /tmp /dev/shm /run/lock /var/tmp; do date > $folder/of-$(hostname); done
    rm /var/tmp/of-*
    cat /etc/hostname /etc/hosts /etc/resolv.conf > /dev/null
    [ $(id -u) != 0 ] || ldconfig
    echo used
"""

Facts = tuple[int, int, int, int]


def look(folder: Path) -> dict[str, Facts]:
    """Every file below a folder, and of folders their names: kind and mode, inode, size, time."""
    found: dict[str, Facts] = {}
    for where, folders, files in os.walk(folder):
        for name in (*folders, *files):
            facts = os.lstat(f"{where}/{name}")
            is_folder = stat.S_ISDIR(facts.st_mode)
            which = (0, 0, 0) if is_folder else (facts.st_ino, facts.st_size, facts.st_mtime_ns)
            found[os.path.relpath(f"{where}/{name}", folder)] = (facts.st_mode, *which)
    return found


@pytest.fixture(scope="module")
def before() -> dict[str, Facts]:
    """The root as populate left it, before any node had it."""
    return {}


@pytest.fixture(scope="module")
def cluster(image: Path, tmp_path_factory: pytest.TempPathFactory, before: dict[str, Facts]) -> Iterator[SmallCluster]:
    folder = tmp_path_factory.mktemp("shared")
    root = roots.make("bookworm", folder / "root")
    with driver_files(image) as make_drivers, SmallCluster(image, root, folder) as started:
        make_drivers(folder)
        started.populate()
        before |= look(started.root)
        started.start(bring(WORKER))
        started.start_second_worker(bring(SECOND))
        started.start_login()
        started.let_root_submit()
        yield started


def test_nodes_that_differ_leave_no_trace_on_the_shared_volume(cluster: SmallCluster, before: dict[str, Facts]) -> None:
    for node in (WORKER, SECOND):
        for user in (0, 1000):
            assert cluster.batch(USE, "-w", node, user=user) == "used\n"
            assert cluster.jail(f"srun -n1 -w {node} sh -c '{USE}'", user=user).stdout == "used\n"
    assert cluster.ssh(USE).stdout == "used\n"
    after = look(cluster.root)
    assert {path for path in before.keys() | after.keys() if before.get(path) != after.get(path)} <= LDCONFIG
    volume = cluster.root.parents[1]
    there = look(volume)
    plain = (stat.S_IFDIR, stat.S_IFREG, stat.S_IFLNK)
    odd = {path for path, (mode, *_) in there.items() if stat.S_IFMT(mode) not in plain}
    # An image may bring devices of its own; a node's are mounted over them.
    assert odd <= {f"roots/{REVISION}/{path}" for path in before if path.startswith("dev/")}
    # Beside the roots each pod leaves its name, so that none in use is deleted (slurm_node/roots/old_roots.py).
    uses = {path for path in there if "/uses/" in path}
    assert {Path(path).name for path in uses} == {*NODES}
    assert all((volume / path).stat().st_size == 0 for path in uses)
    written = [path for path in there if stat.S_ISREG(there[path][0]) and path not in uses]
    tell = [path for path in written if any(word in (volume / path).read_bytes() for word in TELLING)]
    assert [path for path in tell if not path.startswith("persistent/home/alice/")] == []


FILL = "dd if=/dev/zero of={}/fill bs=1M count=80 status=none; rm {}/fill; echo goes on"


@pytest.mark.parametrize("folder", ["/tmp", "/dev/shm"])
def test_who_fills_a_folder_in_memory_reads_so_and_nobody_else_does(cluster: SmallCluster, folder: str) -> None:
    """64 MiB, as the pods' tmpMib and shmMib say; nothing of it lies where kubelet would count and evict."""
    script = FILL.format(folder, folder)
    for full in (cluster.jail(f"srun -n1 -w {WORKER} sh -c '{script}'", user=1000), cluster.ssh(script)):
        assert "No space left on device" in full.stderr, full
        assert full.stdout == "goes on\n"
    assert cluster.ssh(f"srun -n1 -w {WORKER} dd if=/dev/zero of={folder}/mine bs=1M count=32").returncode == 0
