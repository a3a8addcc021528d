"""What a GPU machine shows without Kubernetes. What lacks something skips and says why (devcluster/gpu.py)."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from node_health.checks import gpus


@pytest.fixture
def nvidia_smi() -> Path:
    """The driver's own program, or the one that $PULUMI_SLURM_NVIDIA_SMI names."""
    program = Path(os.environ.get("PULUMI_SLURM_NVIDIA_SMI") or gpus.PROGRAM)
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
    """For what mounts."""
    if os.geteuid() != 0:
        pytest.skip("mounts need root")


@pytest.fixture
def prefix() -> Path:
    """The slurm image's /opt/slurm, unpacked by the runner."""
    folder = os.environ.get("PULUMI_SLURM_PREFIX")
    if not folder:
        pytest.skip("no slurm image: use --from with a file that --bundle wrote")
    return Path(folder)
