"""A fake machine: the files that checks read, below one root, as a healthy node with 8 GPUs and 2 adapters has them."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from node_health.check import Machine
from node_health.node import Declared

from devcluster.fakes.gpu_scenario import PROGRAMS

GPUS = 8
PRODUCT, DRIVER = "NVIDIA H100 80GB HBM3", "570.86.15"
"""Of devcluster/fakes/nvml."""
FOLDER = "a folder"
"""Stands for a file's text: a folder in its place, which nobody can read as a file, root included."""
HANGS = "hangs"
"""Stands for a file's text: a named pipe in its place, whose reader waits for ever."""
TICKS = os.sysconf("SC_CLK_TCK")

DECLARED = Declared(
    cpus=8,
    memory_mib=1024,
    gpus=GPUS,
    rdma=1,
    submounts=("/scratch",),
    shm_mib=0,
    controller="localhost:6817",
    hangs_after=3600,
)


def scripts() -> dict[str, str]:
    """Fake programs of the machine."""
    return {
        "/usr/bin/unshare": "#!/bin/sh\nexit 0\n",
        "/usr/bin/dcgmi": PROGRAMS["dcgmi"].read_text(),
        "/opt/slurm/sbin/slurmd": "#!/bin/sh\n[ $1 = -V ] && echo slurm-wlm 26.05.5\n",
        "/opt/slurm/bin/scontrol": """#!/bin/sh
case "$*" in
ping) echo 'Slurmctld(primary) at slurm-controller is UP' ;;
'show config') printf 'Configuration data as of 2026-11-26T12:00:00\nSLURM_VERSION           = 26.05.5\n' ;;
esac
""",
    }


def port(adapter: str) -> dict[str, str]:
    """Files of a port of an RDMA adapter."""
    folder = f"/sys/class/infiniband/{adapter}/ports/1"
    return {
        f"{folder}/state": "4: ACTIVE\n",
        f"{folder}/phys_state": "5: LinkUp\n",
        f"{folder}/rate": "400 Gb/sec (4X NDR)\n",
        f"{folder}/link_layer": "InfiniBand\n",
        f"{folder}/pkeys/0": "0xffff\n",
        f"{folder}/pkeys/1": "0x0000\n",
        f"/sys/class/infiniband/{adapter}/board_id": "MT_0000000838\n",
        **{f"{folder}/counters/{name}": "0\n" for name in ("symbol_error", "link_error_recovery", "link_downed")},
    }


def interface(name: str) -> dict[str, str]:
    """Files of a network interface."""
    folder = f"/sys/class/net/{name}"
    return {
        f"{folder}/flags": "0x1003\n",
        f"{folder}/carrier": "1\n",
        f"{folder}/mtu": "9000\n",
        f"{folder}/speed": "100000\n",
        f"{folder}/duplex": "full\n",
        f"{folder}/carrier_down_count": "1\n",
        f"{folder}/device/vendor": "0x15b3\n",
        f"{folder}/ifindex": "3\n",
        f"{folder}/iflink": "2\n",
        **{
            f"{folder}/statistics/{counter}": "0\n"
            for counter in ("rx_errors", "tx_errors", "rx_crc_errors", "rx_packets", "tx_packets")
        },
    }


def healthy() -> dict[str, str]:
    """All files of the machine: path → text."""
    mounts = {"/run/jail/scratch": "ext4", "/run/jail/dev/shm": "tmpfs"}
    return {
        **scripts(),
        **port("mlx5_0"),
        **port("mlx5_1"),
        **interface("net1"),
        **interface("net2"),
        "/run/slurm-node/jail-worked": "",
        "/etc/slurm-scripts/healthCheck": "lustre 10\n",
        "/run/slurm-node/site-health": "",
        "/run/jail/tmp/x": "",
        "/run/jail/scratch/x": "",
        "/run/jail/dev/shm/x": "",
        "/var/spool/slurmd/x": "",
        "/run/slurm/conf/gres.conf": "NodeName=h100-[0-9999] AutoDetect=nvidia\nAutoDetect=off\n",
        "/run/slurm/conf/slurm.conf": "TaskPlugin=task/cgroup\n",
        "/run/slurm/conf/cgroup.conf": "CgroupPlugin=cgroup/v2\nConstrainCores=yes\n",
        "/proc/sys/kernel/hostname": "h100-3\n",
        **{f"/dev/nvidia{index}": "" for index in range(GPUS)},
        "/dev/nvidiactl": "",
        "/dev/kmsg": "6,1,100,-;Linux version\n6,2,200,-;eth0: link up\n",
        "/proc/self/mountinfo": "".join(
            f"{number} 1 0:1 / {point} rw,nosuid - {kind} none rw\n"
            for number, (point, kind) in enumerate(mounts.items(), start=20)
        ),
        "/proc/self/status": "Name:\tx\nCpus_allowed_list:\t0-15\n",
        "/proc/meminfo": "MemTotal: 4194304 kB\nMemFree: 1 kB\nHugePages_Total: 4\nHugePages_Free: 4\n",
        "/proc/uptime": "100000.00 1.00\n",
        "/proc/stat": "cpu  100 0 100 1000 0 0 0 0 0 0\ncpu0 1\n",
        "/proc/driver/nvidia/version": f"NVRM version: NVIDIA UNIX x86_64 Kernel Module  {DRIVER}  Tue\n",
        "/proc/driver/nvidia/gpus/0000:1b:00.0/information": f"Model: \t\t {PRODUCT}\nIRQ: 1\n",
        **process(10, "slurmstepd: [7.batch]\0", 0, None),
        **process(11, "python\0train.py\0", 1001, 7),
        "/proc/sys/user/max_user_namespaces": "1000\n",
        "/proc/sys/kernel/random/boot_id": "8f9a2b7c-3d1e-4c55-9b0a-2f6d7e8c1a00\n",
        "/sys/fs/cgroup/cgroup.controllers": "cpuset cpu io memory pids\n",
        "/sys/fs/cgroup/memory.max": f"{2048 * 1024**2}\n",
        "/sys/fs/cgroup/memory.stat": f"anon {100 * 1024**2}\nshmem {1024**2}\n",
        "/sys/fs/cgroup/memory.events.local": "low 0\noom 0\n",
        "/sys/fs/cgroup/cpu.max": "800000 100000\n",
        "/sys/fs/cgroup/pids.max": "1000\n",
        "/sys/fs/cgroup/pids.current": "20\n",
        "/sys/devices/system/cpu/online": "0-7\n",
        "/sys/devices/system/cpu/cpufreq/policy0/scaling_driver": "acpi-cpufreq\n",
        "/sys/devices/system/cpu/cpufreq/policy0/scaling_governor": "performance\n",
        "/sys/devices/system/cpu/cpu0/thermal_throttle/core_throttle_count": "0\n",
        "/sys/devices/system/cpu/cpu0/thermal_throttle/package_throttle_count": "0\n",
        "/sys/devices/system/edac/mc/mc0/ue_count": "0\n",
        "/sys/devices/system/edac/mc/mc0/ce_count": "0\n",
        "/sys/class/nvme/nvme0/state": "live\n",
    }


def process(number: int, command: str, user: int, job: int | None, age: float = 600.0) -> dict[str, str]:
    """Files of a process."""
    cgroup = f"0::/system.slice/slurmstepd.scope/job_{job}/step_batch" if job else "0::/pod"
    started, name = int((100000.0 - age) * TICKS), "slurmstepd" if command.startswith("slurmstepd:") else "train (x)"
    return {
        f"/proc/{number}/cmdline": command,
        f"/proc/{number}/status": f"Name:\tx\nUid:\t{user}\t{user}\t{user}\t{user}\n",
        f"/proc/{number}/stat": f"{number} ({name}) S 1 1 1 {'0 ' * 15}{started} 0\n",
        f"/proc/{number}/cgroup": f"{cgroup}\n",
    }


def build(root: Path, changes: Mapping[str, str | None] | None = None, declared: Declared = DECLARED) -> Machine:
    """Makes a machine's files.

    Args:
        root: where.
        changes: path → another text, FOLDER, HANGS, or None for nothing there; a folder's path may stand for all in it.
        declared: the node's declaration.
    """
    for path, text in {**healthy(), **(changes or {})}.items():
        put(root, path, text)
    if (shared := root / "run/jail/dev/shm").is_dir():
        shared.chmod(0o1777)
    return Machine(declared, root)


def put(root: Path, path: str, text: str | None) -> None:
    """Makes one file, or what stands in its place."""
    file = root / path.lstrip("/")
    if file.is_dir():
        shutil.rmtree(file)
    else:
        file.unlink(missing_ok=True)
    if text is None:
        return
    file.parent.mkdir(parents=True, exist_ok=True)
    if text == FOLDER:
        file.mkdir()
    elif text == HANGS:
        os.mkfifo(file)
    else:
        file.write_text(text)
        if text.startswith("#!"):
            file.chmod(0o755)
