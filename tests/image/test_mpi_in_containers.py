"""MPICH in a job and in its containers: by mpiexec, and by Slurm's PMI-2 where the configuration has it."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.image import roots
from tests.image.small_cluster import ALICE, SmallCluster

# MPICH's own numbers (mpi.h): MPI_COMM_WORLD, MPI_INT, MPI_SUM.
PROGRAM = """
import ctypes, os
mpi = ctypes.CDLL("libmpich.so.12", ctypes.RTLD_GLOBAL)
world, rank, size, total = 0x44000000, ctypes.c_int(), ctypes.c_int(), ctypes.c_int()
assert not mpi.MPI_Init(None, None)
mpi.MPI_Comm_rank(world, ctypes.byref(rank))
mpi.MPI_Comm_size(world, ctypes.byref(size))
one = ctypes.c_int(rank.value + 1)
mpi.MPI_Allreduce(ctypes.byref(one), ctypes.byref(total), 1, 0x4c000405, 0x58000003, world)
print(rank.value, size.value, total.value, os.path.exists("/of-the-image"), flush=True)
mpi.MPI_Finalize()
"""


@pytest.fixture(scope="module")
def cluster(image: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SmallCluster]:
    folder = tmp_path_factory.mktemp("mpi")
    with SmallCluster(image, roots.make("mpich", folder / "root"), folder, slurm={"mpiPlugins": ["pmi2"]}) as started:
        started.start()
        home = folder / "volume/persistent/home/alice"
        (home / "mpi.py").write_text(PROGRAM)
        make_bundle(started.root, home / "bundle")
        yield started


def make_bundle(jail: Path, bundle: Path) -> None:
    """An image with the jail's programs, alice's as one that she pulled."""
    root = bundle / "rootfs"
    for name in ("etc", "dev", "proc", "sys", "tmp", "home"):
        (root / name).mkdir(parents=True)
    (root / "of-the-image").touch()
    (bundle / "config.json").write_text(json.dumps({"ociVersion": "1.0.2", "root": {"path": "rootfs"}}))
    subprocess.run(["chown", "-R", f"{ALICE}:{ALICE}", bundle], check=True)
    for name in ("bin", "lib", "lib64"):
        (root / name).symlink_to(f"usr/{name}")
    subprocess.run(["cp", "-al", jail / "usr", root], check=True)


@pytest.mark.parametrize(
    "launcher",
    [
        "srun -Q -n2 --overcommit --mpi=pmi2",
        "srun -Q -n2 --overcommit --mpi=pmi2 --container=bundle",
        "salloc -Q -n2 --overcommit mpiexec -n 2",
    ],
    ids=["jail", "container", "mpiexec"],
)
def test_ranks_find_each_other(cluster: SmallCluster, launcher: str) -> None:
    done = cluster.jail(f"timeout 80 {launcher} python3 mpi.py", user=ALICE, seconds=90)
    inside = str("--container" in launcher)
    assert sorted(done.stdout.splitlines()) == [f"0 2 3 {inside}", f"1 2 3 {inside}"], done.stderr


LINKED = """
srun -Q --container=bundle sh -c 'until [ -e go ]; do sleep 0.1; done' &
until made=$(find /tmp/.slurm-* -name environment 2>/dev/null | grep .); do sleep 0.1; done
folder=$(dirname $made)
mv $folder $folder.was && ln -s /srv/kept $folder && echo linked
touch go
wait
"""


def test_slurmstepd_clears_a_containers_folder_through_no_link(cluster: SmallCluster) -> None:
    assert cluster.jail("mkdir -p /srv/kept && touch /srv/kept/environment").returncode == 0
    cluster.jail("rm -f go", user=ALICE)
    assert cluster.batch(LINKED) == "linked\n"
    assert cluster.jail("ls /srv/kept").stdout == "environment\n"
