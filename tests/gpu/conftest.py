"""Tests of a GPU machine without Kubernetes. A test that lacks something says what (devcluster/suite/gpu.py)."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from node_health.sources import nvidia_smi as source

from tests.gpu import toolkit
from tests.gpu.gpu_cluster import GpuCluster, NewGpuCluster, type_of, with_gpus
from tests.image.rendered_cluster import Rendered
from tests.vm import v2_groups

HIERARCHY = Path("/sys/fs/cgroup")
CONTROLLERS = {"cpu", "cpuset", "memory", "pids"}


@pytest.fixture(scope="session")
def nvidia_smi() -> Path:
    """The driver's own program, or the one that $PULUMI_SLURM_NVIDIA_SMI names."""
    program = Path(os.environ.get("PULUMI_SLURM_NVIDIA_SMI") or source.PROGRAM)
    if not os.access(program, os.X_OK):
        pytest.skip(f"there is no {program}: no NVIDIA driver")
    return program


@pytest.fixture(scope="session")
def device_files() -> list[Path]:
    """Device files of the GPUs that this machine has."""
    files = sorted(Path("/dev").glob("nvidia[0-9]*"))
    if not files:
        pytest.skip("there is no /dev/nvidia0: no GPU")
    return files


@pytest.fixture(scope="session")
def root() -> None:
    """Skip a test that mounts, unless it runs as root."""
    if os.geteuid() != 0:
        pytest.skip("mounts need root")
    refused = try_mount("mount -t tmpfs scratch /mnt")
    if refused:
        pytest.skip(f"this machine refuses mounts: {refused}")


def try_mount(line: str) -> str:
    """Return why a shell line is refused in a mount namespace of its own; empty if it is not."""
    enter = ["unshare", "--mount", "--propagation", "private", "sh", "-c", line]
    done = subprocess.run(enter, capture_output=True, text=True, timeout=30, check=False)
    return " ".join(done.stderr.split()) or "no reason" if done.returncode else ""


@pytest.fixture(scope="session")
def recorded() -> Path | None:
    """The folder for what the driver answers, as data for other tests; None if nobody asked for it."""
    folder = os.environ.get("PULUMI_SLURM_GPU_RECORD")
    return Path(folder) if folder else None


@pytest.fixture
def record(recorded: Path | None) -> Path:
    """The same, for a test that does nothing else."""
    if recorded is None:
        pytest.skip("nobody asked for it: --record DIR")  # It writes test data, which only a person keeps.
    return recorded


@pytest.fixture(scope="session")
def image() -> Path:
    """The slurm image's root, unpacked by the runner."""
    folder = os.environ.get("PULUMI_SLURM_IMAGE")
    if not folder:
        # `make test-gpu` brings it; pytest by hand does not.
        pytest.skip("no slurm image: use --from with a file that --bundle wrote")
    return Path(folder)


@pytest.fixture(scope="session")
def rendered() -> dict[str, Any]:
    """Return the content of the file of rendered.py."""
    file = os.environ.get("PULUMI_SLURM_RENDERED")
    if not file:
        # `make test-gpu` brings it; pytest by hand does not.
        pytest.skip("no configuration: use --from with a file that --bundle wrote")
    return json.loads(Path(file).read_text())


@pytest.fixture(scope="session")
def specification(device_files: list[Path], recorded: Path | None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the container toolkit's specification of a container with this machine's GPUs."""
    try:
        described = toolkit.describe(tmp_path_factory.mktemp("cdi"))
    except toolkit.Refused as error:
        pytest.skip(str(error))  # A GPU machine outside of Kubernetes may have no toolkit.
    if recorded:
        shutil.copy(described, recorded / "cdi.json")
    return described


@pytest.fixture(scope="session")
def groups() -> Iterator[Path]:
    """A group of the version 2 hierarchy that hands all controllers down; what is made in it goes with it."""
    folder = HIERARCHY / f"pulumi-slurm-test-{os.getpid()}"
    try:
        made = v2_groups.make(folder)
    except OSError as error:
        # A machine with cgroup v1, or a container that may make none: slurmstepd could constrain nothing.
        pytest.skip(f"no groups of cgroup v2 with controllers can be made here: {error}")
    try:
        if missing := CONTROLLERS - set((made / "cgroup.controllers").read_text().split()):
            # Version 1 has them then, as on machines that mount both: Slurm takes one version.
            pytest.skip(f"cgroup v2 lacks the controllers {', '.join(sorted(missing))} here")
        yield made
    finally:
        v2_groups.remove(made)


@pytest.fixture(scope="session")
def product(nvidia_smi: Path) -> str:
    """The name of this machine's GPUs."""
    listed = subprocess.run([nvidia_smi, "-L"], capture_output=True, text=True, timeout=60, check=True).stdout
    names = set(re.findall(r"^GPU \d+: (.+) \(UUID", listed, re.MULTILINE))
    if len(names) != 1:
        # A node set's workers are declared here with GPUs of one type.
        pytest.skip(f"this machine has GPUs of several types, or none: {listed}")
    return names.pop()


@pytest.fixture(scope="session")
def new_cluster(
    root: None,
    device_files: list[Path],
    product: str,
    image: Path,
    rendered: dict[str, Any],
    specification: Path,
    groups: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> NewGpuCluster:
    """Starts slurmctld and a worker with this machine's GPUs; the image's own root stands for the jail's."""
    if shutil.which("ip") is None:
        # A GPU machine that is no Kubernetes node may lack it, and the image has none.
        pytest.skip("there is no ip (iproute2) for the cluster's network")

    @contextmanager
    def started(name: str) -> Iterator[GpuCluster]:
        folder = tmp_path_factory.mktemp("cluster")
        for copy in ("image", "root"):  # The toolkit makes files in the one.
            subprocess.run(["cp", "-a", image, folder / copy], check=True, timeout=300)
        wanted = with_gpus(Rendered(**rendered["clusters"][name]), type_of(product), len(device_files))
        mine = v2_groups.make(groups / name)
        with GpuCluster(folder / "image", folder / "root", folder, wanted, mine, specification) as cluster:
            cluster.start()
            cluster.let_root_submit()
            yield cluster
        v2_groups.remove(mine)

    return started


@pytest.fixture(scope="session")
def cluster(new_cluster: NewGpuCluster) -> Iterator[GpuCluster]:
    """A worker whose jobs get whole GPUs."""
    with new_cluster("whole") as made:
        yield made
