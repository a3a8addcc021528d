"""The dev cluster with its jail on NFS 4.2: a kubelet mounts what `jail.storage.nfs` declares, the Job fills it.

`make test-vm TESTS=tests/vm/kubelet/test_on_nfs.py` runs it. Pods of one kubelet share its kernel's caches of an
export. So tests/vm/test_nfs_cluster.py shows what nodes see of each other.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from devcluster.cli import up
from devcluster.node import links, node_cli
from devcluster.node.instance import Instance
from tests.e2e.conftest import Slurm
from tests.vm.kubelet.conftest import give_small_jail
from tests.vm.nfs_server import ADDRESS, NfsServer, environment, program

pytestmark = pytest.mark.timeout(3600)
MACHINE = "10.88.0.9"
"""Address of the machine itself; the node is behind it."""
HELPER = Path("/sbin/mount.nfs")
"""Program that mount(8), and so kubelet, calls."""
CONFIG: dict[str, Any] = {
    "jail": {"storage": {"nfs": {"server": ADDRESS, "path": "/"}}},
    "timeouts": {"populate": "40m", "available": "45m"},
    "health": {"interval": "10m"},
}


@pytest.fixture(scope="module")
def server() -> Iterator[NfsServer]:
    # In memory: with `sync` the server brings each file to its disk, and a guest's is slow at that.
    with (
        tempfile.TemporaryDirectory(dir="/dev/shm") as memory,
        NfsServer(Path(memory) / "nfs", (), mebibytes=3072) as started,
    ):
        started.export.chmod(0o755)
        started.machine.run(
            "ip", "link", "add", "out", "type", "veth", "peer", "name", "nfs", "netns", str(os.getpid())
        )
        started.machine.run("ip", "link", "set", "out", "master", "net0", "up")
        for words in (("address", "add", f"{MACHINE}/24", "dev", "nfs"), ("link", "set", "nfs", "up")):
            links.run("ip", *words)
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
def slurm(server: NfsServer, helper: None) -> Iterator[Slurm]:
    instance, facts = Instance.named("guest-nfs"), up.facts

    def on_nfs(cluster: up.Cluster, references: Mapping[str, str]) -> dict[str, Any]:
        given = facts(cluster, references)
        return {**given, **CONFIG, "jail": {**given["jail"], **CONFIG["jail"]}}

    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(up, "facts", on_nfs)
            give_small_jail(patch)
            yield Slurm(up.up(instance, owner=os.getpid()))
    finally:
        # Before the server: who uses a mount of it would wait.
        node_cli.remove(instance)


def test_every_pod_has_the_export_with_the_programs_mount_options(slurm: Slurm, server: NfsServer) -> None:
    for pod in ("cpu-0", "cpu-1", "slurm-login-0"):
        device, _, kind, options = slurm.on_pod(pod, "grep ' /mnt/jail ' /proc/mounts").ok().split()[:4]
        assert (device, kind) == (f"{ADDRESS}:/", "nfs4")
        assert {"vers=4.2", "hard", "lookupcache=pos", "acregmax=3"} <= set(options.split(",")), options
    (marker,) = (server.export / "manifests").glob("[!.]*.json")
    print(
        slurm.kubectl("logs", "-l", "app.kubernetes.io/component=jail", "--all-containers", "--tail=3").text,
        marker.read_text(),
    )


def test_jobs_on_two_nodes_and_a_login_share_the_export(slurm: Slurm, server: NfsServer) -> None:
    ran = slurm.sh("srun -Q -N2 sh -c 'stat -f -c %T / /home; hostname > out-$SLURM_PROCID'", seconds=240).ok()
    assert ran.split() == ["nfs"] * 4
    assert sorted(slurm.sh("cat out-0 out-1").ok().split()) == ["cpu-0", "cpu-1"]
    batch = "sbatch -Q -W -w cpu-1 -o out --wrap 'srun -Q hostname' && cat out"
    assert slurm.sh(batch, seconds=240).ok() == "cpu-1"
    assert (server.export / "persistent/home/dev/out").read_text() == "cpu-1\n"


def test_a_user_made_in_a_job_is_known_on_the_other_nodes(slurm: Slurm) -> None:
    slurm.sh("srun -Q -n1 -w cpu-0 sudo useradd -m bob", seconds=240).ok()
    slurm.wait("the login node knows bob", lambda: slurm.sh("id -u bob").ok(), 30)
    assert slurm.sh("srun -Q -n1 -w cpu-1 id -un bob", seconds=240).ok() == "bob"
