"""The driver's files that the container toolkit mounted come into a root by links of fixed names, and CUDA starts."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from slurm_node.jail import driver

# An overlay over this machine's own root stands for the jail; it lies in memory and goes with the namespace.
TREE = """mount -t tmpfs scratch "$1" && cd "$1" && mkdir upper work tree &&
mount -t overlay -o "lowerdir=/,upperdir=$1/upper,workdir=$1/work" overlay tree &&
mkdir -p tree/run && mount -t tmpfs run tree/run && mount --rbind /dev tree/dev && mount --rbind /proc tree/proc &&
"$2" -c "$3" && exec chroot tree /usr/bin/python3 -c "$4" """
BRING = """
from pathlib import Path
from slurm_node.jail import driver
driver.bring(Path("tree").resolve(), Path("/proc/self/mountinfo").read_text())
"""
LOAD = """
import ctypes, json, os
def resolved(name):
    with open("/proc/self/maps") as maps:
        return sorted({line.split()[-1] for line in maps if "/" + name.split(".so")[0] in line})
init = ctypes.CDLL("libcuda.so.1").cuInit(0)
ctypes.CDLL("libnvidia-ml.so.1")
print(json.dumps({"cuInit": init, "libcuda": resolved("libcuda.so.1"), "libnvidia-ml": resolved("libnvidia-ml.so.1")}))
"""
SECONDS = 120


@pytest.fixture
def by_toolkit(device_files: list[Path]) -> list[Path]:
    files = driver.put_by_toolkit(Path("/proc/self/mountinfo").read_text())
    if not files:
        pytest.skip("the driver's files are no mounts of a container toolkit here")
    if not Path("/usr/bin/python3").exists():
        pytest.skip("there is no /usr/bin/python3 to load CUDA from")
    return files


def test_cuda_starts_in_a_root_with_links_of_fixed_names(
    by_toolkit: list[Path], overlays: None, tmp_path: Path
) -> None:
    enter = ["unshare", "--mount", "--propagation", "private"]
    done = subprocess.run(
        [*enter, "sh", "-c", TREE, "sh", str(tmp_path), sys.executable, BRING, LOAD],
        capture_output=True, text=True, timeout=SECONDS, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["cuInit"] == 0
    for name in ("libcuda", "libnvidia-ml"):
        assert found[name], name
        assert all(path.startswith("/run/node/driver/lib/") for path in found[name]), found
