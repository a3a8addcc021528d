"""Tests of a GPU machine without Kubernetes. A test that lacks something says what (devcluster/suite/gpu.py)."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from node_health.sources import nvidia_smi as source


@pytest.fixture
def nvidia_smi() -> Path:
    """The driver's own program, or the one that $PULUMI_SLURM_NVIDIA_SMI names."""
    program = Path(os.environ.get("PULUMI_SLURM_NVIDIA_SMI") or source.PROGRAM)
    if not os.access(program, os.X_OK):
        pytest.skip(f"there is no {program}: no NVIDIA driver")
    return program


@pytest.fixture
def device_files() -> list[Path]:
    """Device files of the GPUs that this machine has."""
    files = sorted(Path("/dev").glob("nvidia[0-9]*"))
    if not files:
        pytest.skip("there is no /dev/nvidia0: no GPU")
    return files


@pytest.fixture
def root() -> None:
    """Skip a test that mounts, unless it runs as root."""
    if os.geteuid() != 0:
        pytest.skip("mounts need root")
    refused = try_mount("mount -t tmpfs scratch /mnt")
    if refused:
        pytest.skip(f"this machine refuses mounts: {refused}")


@pytest.fixture
def overlays(root: None) -> None:
    """Skip a test that lays files over this machine's root, where overlays are refused."""
    folders = "mount -t tmpfs scratch /mnt && mkdir /mnt/upper /mnt/work /mnt/tree"
    refused = try_mount(
        f"{folders} && mount -t overlay -o lowerdir=/,upperdir=/mnt/upper,workdir=/mnt/work x /mnt/tree"
    )
    if refused:
        pytest.skip(f"this machine refuses an overlay over its root: {refused}")


def try_mount(line: str) -> str:
    """Return why a shell line is refused in a mount namespace of its own; empty if it is not."""
    enter = ["unshare", "--mount", "--propagation", "private", "sh", "-c", line]
    done = subprocess.run(enter, capture_output=True, text=True, timeout=30, check=False)
    return " ".join(done.stderr.split()) or "no reason" if done.returncode else ""


@pytest.fixture
def record() -> Path:
    """The folder for what the driver answers, as data for other tests."""
    folder = os.environ.get("PULUMI_SLURM_GPU_RECORD")
    if not folder:
        pytest.skip("nobody asked for it: --record DIR")  # It writes test data, which only a person keeps.
    return Path(folder)


@pytest.fixture
def prefix() -> Path:
    """The slurm image's /opt/slurm, unpacked by the runner."""
    folder = os.environ.get("PULUMI_SLURM_PREFIX")
    if not folder:
        pytest.skip("no slurm image: use --from with a file that --bundle wrote")
    return Path(folder)
