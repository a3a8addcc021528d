"""Long checks of GPUs as Slurm jobs, with NVIDIA's own tools and gpu-burn, where this machine has them."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.gpu.gpu_cluster import GpuCluster
from tests.image.rendered_cluster import ALICE

TOOLS = {"all-reduce": "all_reduce_perf", "nvbandwidth": "nvbandwidth", "gpu-burn": "gpu_burn"}
PASSED = {"all-reduce": "PASS", "nvbandwidth": "PASS", "gpu-burn": ""}
"""Is in the comment of a job that passed: gpu-burn measures nothing."""
PLACE = "opt/gpu-tools"
"""In the jail."""


@pytest.fixture(scope="module")
def tools(cluster: GpuCluster) -> Path:
    """The folder of $PULUMI_SLURM_GPU_TOOLS, with what its programs need beside them, is in the jail now."""
    folder = os.environ.get("PULUMI_SLURM_GPU_TOOLS")
    if not folder:
        # They are built from source by whoever uses them: no package of a driver or of CUDA brings them.
        pytest.skip("$PULUMI_SLURM_GPU_TOOLS names no folder with all_reduce_perf, nvbandwidth and gpu_burn")
    shutil.copytree(folder, cluster.root / PLACE, symlinks=True)
    return Path(folder)


@pytest.mark.parametrize("builtin", TOOLS)
def test_a_long_check_understands_its_tool_and_passes(
    cluster: GpuCluster,
    tools: Path,
    device_files: list[Path],
    rendered: dict[str, Any],
    recorded: Path | None,
    builtin: str,
) -> None:
    program = TOOLS[builtin]
    if not (tools / program).exists():
        # Who lends the GPU brings the tools, and may have some of them.
        pytest.skip(f"there is no {program} in {tools}")
    (cluster.root / "usr/local/bin" / program).symlink_to(f"/{PLACE}/{program}")
    # The shell prints what the tool said to whoever looks for a failure.
    script = rendered["long_checks"][builtin].replace("#!/bin/sh\n", "#!/bin/sh\nset -x\n", 1)
    assert cluster.jail(f"cat >{builtin}.sh <<'END'\n{script}END", user=ALICE).returncode == 0
    options = f"--parsable --wait --exclusive --mem=0 --output={builtin}.out"
    submitted = cluster.jail(f"sbatch {options} {builtin}.sh", user=ALICE, seconds=180)
    said = cluster.jail(f"cat {builtin}.out", user=ALICE).stdout
    if recorded:
        (recorded / f"{builtin}.txt").write_text(said)
    shown = cluster.pod(f"/opt/slurm/bin/scontrol show job {submitted.stdout.strip()} --json").stdout
    (job,) = json.loads(shown)["jobs"]
    if recorded:
        (recorded / f"{builtin}.json").write_text(shown)
    wanted = (3, "UNKNOWN") if builtin == "all-reduce" and len(device_files) == 1 else (0, PASSED[builtin])
    assert (submitted.returncode, wanted[1] in job["comment"]) == (wanted[0], True), (said, job["comment"])


def test_all_reduce_perf_of_one_gpu_answers_too(cluster: GpuCluster, tools: Path, recorded: Path | None) -> None:
    if not (tools / "all_reduce_perf").exists():
        # It is built with NCCL, which the lent machine may lack.
        pytest.skip(f"there is no all_reduce_perf in {tools}")
    done = cluster.jail(f"srun --gres=gpu:1 /{PLACE}/all_reduce_perf -b 1G -e 4G -f 2 -g 1", user=ALICE, seconds=120)
    if recorded:
        (recorded / "all_reduce_perf.txt").write_text(done.stdout)
    assert "# Avg bus bandwidth" in done.stdout, done
