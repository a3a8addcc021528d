"""Slurm of our image finds this machine's GPUs by AutoDetect=nvidia, each with its device file."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from slurm_node.slurm import gres

CONFIGURATION = {
    "slurm.conf": """ClusterName=gpu
SlurmctldHost=localhost
AuthType=auth/slurm
CredType=auth/slurm
PluginDir=/opt/slurm/lib/slurm-wlm
GresTypes=gpu
ProctrackType=proctrack/linuxproc
SlurmdSpoolDir={folder}
NodeName=node Gres=gpu:{count}
PartitionName=all Nodes=ALL
""",
    "gres.conf": "AutoDetect=nvidia\n",
    "cgroup.conf": "CgroupPlugin=disabled\n",
}
# The prefix has one place; a mount namespace of its own keeps the machine's /opt as it is.
ASK = """mount -t tmpfs opt /opt && mkdir /opt/slurm && mount --bind "$1" /opt/slurm &&
exec /opt/slurm/sbin/slurmd -G -f "$2/slurm.conf" -N node"""
SECONDS = 60


def ask_slurmd(image: Path, folder: Path, count: int) -> str:
    for name, text in CONFIGURATION.items():
        (folder / name).write_text(text.format(count=count, folder=folder))
    key = folder / "slurm.key"
    key.write_bytes(os.urandom(64))
    key.chmod(0o600)
    enter = ["unshare", "--mount", "--propagation", "private"]
    done = subprocess.run(
        [*enter, "sh", "-c", ASK, "sh", str(image / "opt/slurm"), str(folder)],
        capture_output=True, text=True, timeout=SECONDS, check=False,
    )  # fmt: skip
    return done.stdout + done.stderr


def test_autodetect_finds_each_gpu_with_its_device_file(
    root: None, device_files: list[Path], image: Path, tmp_path: Path
) -> None:
    printed = ask_slurmd(image, tmp_path, len(device_files))
    assert gres.usable(printed, frozenset({"gpu"}))["gpu"] == len(device_files), printed
    for file in device_files:
        assert f"File={file}" in printed
