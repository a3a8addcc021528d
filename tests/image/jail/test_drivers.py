"""Nodes with different drivers and one with none share a root: each job loads its own node's, also after somebody has
installed a driver's package in the root.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.image import roots
from tests.image.jail.fake_drivers import DRIVERS, LIBRARIES, bring, compile_c, driver_files, make_driver
from tests.image.pods import LOGIN, SECOND, WORKER
from tests.image.small_cluster import ALICE, SmallCluster

PACKAGED = "999.1"
CUDA = LIBRARIES / "libcuda.so.1"
PROGRAM = r"""
#include <dlfcn.h>
#include <stdio.h>
int main(void) {
    void *cuda = dlopen("libcuda.so.1", RTLD_NOW);
    int (*init)(unsigned) = cuda ? (int (*)(unsigned))dlsym(cuda, "cuInit") : NULL;
    int (*version)(void) = cuda ? (int (*)(void))dlsym(cuda, "version") : NULL;
    printf("%d %d\n", init ? init(0) : -1, version ? version() : 0);
    return 0;
}
"""
SENTENCE = "no NVIDIA driver on this node"
# The watches of a pod, stopped and told to go on.
SIGNAL = """for one in /proc/[0-9]*; do
    tr '\\0' ' ' < $one/cmdline | grep -q 'slurm_node driver $' && kill -{} ${{one#/proc/}}
done; true"""


@pytest.fixture(scope="module")
def cluster(image: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SmallCluster]:
    folder = tmp_path_factory.mktemp("drivers")
    root = roots.make("bookworm", folder / "root")
    compile_c(PROGRAM, "-o", str(root / "usr/bin/driver-version"))
    with driver_files(image) as make_drivers, SmallCluster(image, root, folder) as started:
        make_drivers(folder)
        started.start(bring(WORKER))
        started.start_second_worker(bring(SECOND))
        started.let_root_submit()
        yield started


def loaded(cluster: SmallCluster) -> dict[str, str]:
    """Return what a step of a job on each node with a driver loads."""
    asked = {node: cluster.jail(f"srun -Q -n1 -w {node} driver-version", user=ALICE) for node in DRIVERS}
    return {node: done.stdout + done.stderr for node, done in asked.items()}


OWN = {WORKER: "0 570\n", SECOND: "0 535\n"}


def is_right(cluster: SmallCluster) -> bool:
    link = cluster.root / CUDA
    return link.is_symlink() and link.readlink() == Path("/run/node/driver/lib/libcuda.so.1")


def test_each_job_loads_the_driver_of_its_node(cluster: SmallCluster) -> None:
    assert loaded(cluster) == OWN
    for node, expected in OWN.items():
        assert cluster.batch("driver-version; srun -n1 driver-version", "-w", node) == expected * 2
    versions = tuple(DRIVERS.values())
    assert not [path for path in cluster.root.rglob("lib*") if path.name.endswith(versions)]


def make_package(folder: Path) -> Path:
    """A package with a driver's library and the link to it, as those of distributions; dpkg runs ldconfig after it."""
    tree = folder / "package"
    make_driver(tree / LIBRARIES, PACKAGED)
    (tree / CUDA).symlink_to(f"libcuda.so.{PACKAGED}")
    (tree / "DEBIAN").mkdir()
    fields = {"Package": "libnvidia-compute", "Version": "1", "Architecture": "all", "Maintainer": "x"}
    control = "".join(f"{name}: {value}\n" for name, value in {**fields, "Description": "x"}.items())
    (tree / "DEBIAN/control").write_text(control)
    (tree / "DEBIAN/triggers").write_text("activate-noawait ldconfig\n")
    made = folder / "libnvidia-compute.deb"
    subprocess.run(["dpkg-deb", "--root-owner-group", "--build", tree, made], check=True, timeout=60)
    return made


def test_a_drivers_package_that_is_installed_under_running_nodes_takes_no_nodes_driver_away(
    cluster: SmallCluster, tmp_path: Path
) -> None:
    package = cluster.root / "srv/libnvidia-compute.deb"
    package.write_bytes(make_package(tmp_path).read_bytes())
    installed = cluster.jail(f"srun -n1 -w {WORKER} dpkg --install /{package.relative_to(cluster.root)}")
    assert installed.returncode == 0, installed.stderr
    assert "Processing triggers for libc-bin" in installed.stdout
    assert (cluster.root / CUDA).with_name(f"libcuda.so.{PACKAGED}").exists(), "the package has its own"
    cluster.wait("the link is right again", lambda: is_right(cluster), 60)
    assert loaded(cluster) == OWN
    told = cluster.log(WORKER) + cluster.log(SECOND)
    assert f"/{CUDA} led to 'libcuda.so.{PACKAGED}': now it leads to each node's own driver" in told
    # ldconfig makes such a link anew each time, as long as the package is there.
    assert cluster.jail("ldconfig").returncode == 0
    cluster.wait("the link is right again", lambda: is_right(cluster), 60)
    assert loaded(cluster) == OWN
    removed = cluster.jail("dpkg --purge libnvidia-compute")
    assert removed.returncode == 0, removed.stderr
    cluster.wait("the link is there again", lambda: is_right(cluster), 60)
    assert loaded(cluster) == OWN


def test_a_node_without_a_driver_says_so_and_mends_the_links_for_the_others(cluster: SmallCluster) -> None:
    cluster.start_login()
    asked = cluster.ssh("driver-version")
    assert asked.stdout == "34 0\n"  # CUDA_ERROR_STUB_LIBRARY
    assert SENTENCE in asked.stderr
    try:
        for node in DRIVERS:
            cluster.pod(SIGNAL.format("STOP"), name=node)
        cluster.jail(f"ln -sf nothing /{CUDA}", name=LOGIN)
        cluster.wait("the link is right again", lambda: is_right(cluster), 60)
    finally:
        for node in DRIVERS:
            cluster.pod(SIGNAL.format("CONT"), name=node)
    assert loaded(cluster) == OWN
