"""A Slurm cluster for measurements of the operator, with a real API server and slurmctld. Nothing runs on its nodes."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.worlds.real_slurm import RealSlurm
from devcluster.apiserver.control_plane import ApiServer
from devcluster.images.layers import unpack_image
from devcluster.node import toolchain
from tests.operator.fakes import fake_dry_run
from tests.operator.fakes.fake_slurm import FakeSlurm
from tests.operator.fakes.fake_workloads import FakeWorkloads
from tests.operator.worlds.world import KEY, STRATEGIC, Admin, World


@dataclass(frozen=True, slots=True)
class Cluster:
    """The cluster's parts.

    Attributes:
        world: Its namespace.
        slurm: slurmctld and slurmrestd.
        workloads: The player of Kubernetes' controllers.
        kubeconfig: Access to the API server.
    """

    world: World
    slurm: RealSlurm
    workloads: FakeWorkloads
    kubeconfig: Path


@contextmanager
def folder_with_image() -> Iterator[tuple[Path, Path]]:
    """Make a folder, and unpack the slurm image in it; yield both paths."""
    with tempfile.TemporaryDirectory() as name:
        image = Path(name) / "image"
        image.mkdir()
        unpack_image(image)
        yield Path(name), image


@contextmanager
def cluster(
    size: int, folder: Path, image: Path, options: str = "", held: Sequence[dict[str, Any]] = ()
) -> Iterator[Cluster]:
    """Start a cluster with a node set `cpu`, each of whose pods has a healthy Kubernetes node.

    Args:
        size: Number of nodes. slurmctld has no records of them yet.
        folder: A folder for its files, which is made.
        image: The unpacked slurm image.
        options: More lines of slurm.conf.
        held: Objects of the ledger.
    """
    folder.mkdir()
    with (
        ApiServer(folder / "api", Path(toolchain.binaries())) as server,
        RealSlurm(image, folder / "slurm", KEY, options) as slurm,
        fake_dry_run.running() as dry_run_url,
    ):
        admin = Admin(server.kubeconfig)
        admin.install_crds()
        # The simulated kubelet's reports of slurmds are unused: the bench makes slurmctld's records.
        world = World(admin, "bench", FakeSlurm(KEY), slurm.url, dry_run_url)
        world.declare(replicas=size)
        world.patch("configmaps", "slurm-config-wanted", {"data": slurm.files})
        world.patch("statefulsets", "cpu", {"spec": {"replicas": size}})
        for body in held:
            world.apply(body)
        world.ledger("r1", list(held))
        workloads = FakeWorkloads(world)
        for _ in range(3):
            workloads._step()
        _give_k8s_nodes(world, [f"cpu-{ordinal}" for ordinal in range(size)])
        yield Cluster(world, slurm, workloads, server.kubeconfig)


def _give_k8s_nodes(world: World, pods: list[str]) -> None:
    ready = {"type": "Ready", "status": "True", "reason": "Bench", "message": ""}
    for pod in pods:
        node = f"machine-{pod}"
        world.admin.call("POST", "/api/v1/nodes", {"metadata": {"name": node}})
        status = {"status": {"conditions": [ready]}}
        world.admin.call("PATCH", f"/api/v1/nodes/{node}/status", status, headers=STRATEGIC)
        target = {"target": {"kind": "Node", "name": node}, "metadata": {"name": pod}}
        world.admin.call("POST", world.path("pods", pod, "binding"), target)
