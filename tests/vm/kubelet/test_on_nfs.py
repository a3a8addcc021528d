"""The dev cluster with its jail on NFS 4.1: a kubelet mounts what `jail.storage.nfs` declares, the Job fills it.

`make test-vm TESTS=tests/vm/kubelet/test_on_nfs.py` runs it. Pods of one kubelet share its kernel's caches of an
export. So tests/vm/nfs/test_nfs_cluster.py shows what nodes see of each other.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from ipaddress import IPv4Network
from pathlib import Path

import pytest

from devcluster.apiserver.control_plane import SERVICE_NETWORK
from devcluster.node import links
from devcluster.node.plan.facts import POD_NETWORK
from tests.e2e.conftest import Done, Slurm
from tests.vm.kubelet import small_up
from tests.vm.nfs.nfs_machine import environment, program
from tests.vm.nfs.nfs_server import ADDRESS, MEMORY, NETWORK, Disk, NfsServer

MACHINE = str(NETWORK[9])
"""Of the machine itself, behind whose address the node stands."""
HELPER = Path("/sbin/mount.nfs")
"""The program that mount(8), and so kubelet, calls for NFS."""
DISK = Disk.EXT4
"""EXT4 in memory, as of tests/vm/nfs/test_nfs_cluster.py, would take each file's pages twice."""
NODES_OWN = (IPv4Network(POD_NETWORK), IPv4Network(SERVICE_NETWORK), links.POOL)
"""Networks that the node takes for its own: kubelet asks the node itself for an export at such an address."""


@pytest.fixture(scope="module")
def server() -> Iterator[NfsServer]:
    assert not any(NETWORK.overlaps(own) for own in NODES_OWN), "the node would ask itself for the export"
    with (
        tempfile.TemporaryDirectory(dir=MEMORY) as memory,
        NfsServer(Path(memory) / "nfs", (), mebibytes=3072, kind=DISK) as started,
    ):
        started.export.chmod(0o755)
        started.connect_here(MACHINE)
        yield started


@pytest.fixture(scope="module")
def helper() -> Iterator[None]:
    """Installs mount.nfs for the kubelet where the machine has none."""
    if HELPER.exists():
        yield
        return
    libraries = environment().get("LD_LIBRARY_PATH", "")
    HELPER.write_text(f'#!/bin/sh\nLD_LIBRARY_PATH={libraries} exec {program("mount.nfs")} "$@"\n')
    HELPER.chmod(0o755)
    yield
    HELPER.unlink()


@pytest.fixture(scope="module")
def slurm(server: NfsServer, helper: None, request: pytest.FixtureRequest) -> Iterator[Slurm]:
    """The dev stack with its jail on the export. It ends before the server: who uses a mount of it would wait."""

    def change(config: small_up.Config) -> None:
        config["pulumi-slurm:jail"]["storage"]["nfs"] = {"server": ADDRESS, "path": "/"}

    with small_up.started("guest-nfs", change, request) as cluster:
        yield cluster


def _told(slurm: Slurm, command: Callable[[], Done]) -> str:
    words: str = slurm.wait("a command tells something", lambda: command().ok())
    return words


def test_every_pod_has_the_export_with_the_programs_mount_options(slurm: Slurm, server: NfsServer) -> None:
    for pod in ("cpu-0", "cpu-1", "slurm-login-0"):
        # In a guest, kubectl exec may lose the words of a program that ends at once.
        seen = partial(slurm.on_pod, pod, "grep ' /mnt/jail ' /proc/mounts; sleep 1")
        device, _, kind, options = _told(slurm, seen).split()[:4]
        assert (device, kind) == (f"{ADDRESS}:/", "nfs4")
        assert {"vers=4.1", "hard", "lookupcache=pos", "acregmax=3"} <= set(options.split(",")), options
    (marker,) = (server.export / "manifests").glob("[!.]*.json")
    print(
        slurm.kubectl("logs", "-l", "app.kubernetes.io/component=jail", "--all-containers", "--tail=3").text,
        marker.read_text(),
    )


def test_jobs_on_two_nodes_and_a_login_share_the_export(slurm: Slurm, server: NfsServer) -> None:
    ran = slurm.sh("srun -Q -N2 sh -c 'stat -f -c %T / /home; hostname > out-$SLURM_PROCID'").ok()
    assert ran.split() == ["nfs"] * 4
    assert sorted(slurm.sh("cat out-0 out-1").ok().split()) == ["cpu-0", "cpu-1"]
    batch = "sbatch -Q -W -w cpu-1 -o out --wrap 'srun -Q hostname' && cat out"
    assert slurm.sh(batch).ok() == "cpu-1"
    assert (server.export / "persistent/home/dev/out").read_text() == "cpu-1\n"


def test_a_user_made_in_a_job_is_known_on_the_other_nodes(slurm: Slurm) -> None:
    slurm.sh("srun -Q -n1 -w cpu-0 sudo useradd -m bob").ok()
    slurm.wait("the login node knows bob", lambda: slurm.sh("id -u bob").ok(), 30)
    assert slurm.sh("srun -Q -n1 -w cpu-1 id -un bob").ok() == "bob"


def test_a_lock_of_a_job_on_one_node_is_refused_to_a_job_on_the_other(slurm: Slurm) -> None:
    ask = "srun -Q -n1 -w cpu-1 sh -c 'flock -n -E 9 ledger true; echo $?'"
    hold = "touch held; until test -e let-go; do sleep 0.2; done"
    slurm.sh(f"sbatch -Q -w cpu-0 -o /dev/null --wrap 'flock ledger sh -c \"{hold}\"'").ok()
    try:
        slurm.wait("the lock", lambda: slurm.sh("cat held").status == 0)
        assert slurm.sh(ask).ok() == "9"
    finally:
        slurm.sh("touch let-go").ok()
    slurm.wait("the lock is free", lambda: slurm.sh(ask).ok() == "0")
    slurm.sh("rm held let-go ledger").ok()


def test_a_job_writes_on_through_a_restart_of_the_server_and_loses_nothing(slurm: Slurm, server: NfsServer) -> None:
    file = server.export / "persistent/home/dev/lines"

    def lines() -> int:
        return len(file.read_text().splitlines()) if file.exists() else 0

    script = "i=0; until test -e enough; do i=$((i+1)); echo $i >> lines; sleep 0.2; done; echo done >> lines"
    job = slurm.sh(f"sbatch --parsable -w cpu-0 -o /dev/null --wrap '{script}'").ok()
    slurm.wait("its lines", lambda: lines() > 5)
    server.stop()
    before = lines()
    server.start()
    slurm.wait("more lines", lambda: lines() > before + 5)
    slurm.sh("touch enough").ok()
    slurm.wait("its end", lambda: not slurm.sh(f"squeue -h -j {job}").stdout.strip())
    written = slurm.sh("cat lines; rm lines enough").ok().split()
    assert written == [*map(str, range(1, len(written))), "done"]
