"""Promises of `make test-gpu`: without a GPU it says what it skipped and is well; a part that fails fails the run."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import tarfile
from pathlib import Path

import pytest
from node_health import node
from node_health.check import Machine
from node_health.node import Declared
from node_health.sources import nvml as source

from devcluster.suite import gpu, gpu_bundle
from tests.gpu import device_groups, rendered, test_nvml, toolkit
from tests.gpu.device_groups import Kind
from tests.gpu.gpu_cluster import type_of, with_gpus
from tests.health.fakes.fake_machine import DRIVER
from tests.health.fakes.nvml import Nvml
from tests.image.rendered_cluster import Rendered

ANSWERS = """#!/bin/sh
[ "$1" != -L ] || exec echo "GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-1b2c3d4e-0001)"
echo '0, GPU-1b2c3d4e-0001, 0'
echo '1, GPU-1b2c3d4e-0002, [N/A]'
"""
needs_no_gpu = pytest.mark.skipif(gpu.has_gpu(), reason="this machine has a GPU")


def program(folder: Path, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A driver's program in nvidia-smi's place."""
    file = folder / "nvidia-smi"
    file.write_text(text)
    file.chmod(0o755)
    monkeypatch.setenv("PULUMI_SLURM_NVIDIA_SMI", str(file))


def outcomes(report: Path) -> dict[str, str]:
    return {part.name.removeprefix("test_"): part.outcome for part in gpu.parts(report)}


@needs_no_gpu
def test_without_a_gpu_each_part_is_skipped_with_its_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PULUMI_SLURM_NVIDIA_SMI", str(tmp_path / "nowhere"))
    report = tmp_path / "report.xml"
    assert gpu.run(None, report) == 0
    ended = outcomes(report)
    assert ended.pop("nvidia_smi: test the fake answers in the same shape") == "passed"
    assert set(ended.values()) == {"skipped"}
    printed = capsys.readouterr().out.splitlines()
    skipped = [line for line in printed if line.startswith("skipped ")]
    assert len(skipped) == len(ended)
    assert all("no GPU" in line or "no NVIDIA driver" in line for line in skipped), skipped


@needs_no_gpu
def test_answers_that_node_health_understands_pass_and_are_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(tmp_path, ANSWERS, monkeypatch)
    report, record = tmp_path / "report.xml", tmp_path / "record"
    assert gpu.run(record, report) == 0
    assert outcomes(report)["nvidia_smi: test node health understands the answer"] == "passed"
    assert sorted(file.name for file in record.iterdir()) == ["list.txt", "node-health.csv", "query.txt"]
    assert (record / "node-health.csv").read_text().startswith("0, GPU-1b2c3d4e-0001, 0\n")


def test_a_part_that_fails_fails_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    program(tmp_path, "#!/bin/sh\necho 'Driver/library version mismatch'\nexit 18\n", monkeypatch)
    assert gpu.run(None, None) != 0
    assert "FAILED   test_nvidia_smi: test node health understands the answer" in capsys.readouterr().out


def _without_an_image(folder: Path) -> None:
    (folder / gpu.IMAGE).mkdir()
    (folder / gpu.RENDERED).write_text("{}")


@needs_no_gpu
def test_a_bundle_runs_without_the_checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PULUMI_SLURM_NVIDIA_SMI", str(tmp_path / "nowhere"))
    monkeypatch.setattr(gpu_bundle, "make", _without_an_image)
    bundle, report = tmp_path / "bundle.tar.xz", tmp_path / "report.xml"
    gpu_bundle.write(bundle)
    with tarfile.open(bundle) as packed:
        assert not [name for name in packed.getnames() if "__pycache__" in name]
    assert gpu.run_bundle(bundle, None, report) == 0
    assert set(outcomes(report).values()) == {"passed", "skipped"}


def test_what_nvml_said_is_recorded_with_what_it_refused(
    tmp_path: Path, nvml: Nvml, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node, "COUNTERS", tmp_path)
    nvml.says({1: "lost"}, gpus=2)
    snapshot = source.look(Machine(Declared(gpus=2)))
    said = json.loads(test_nvml.recorded(snapshot))
    well, lost = said["gpus"]
    assert said["driver"] == DRIVER
    assert well["facts"]["distance from the temperature of a slowdown"] == 95 - 31
    assert well["facts"]["NVLink states"] == [1] * 18
    assert well["unread"]["retired pages"]["code"] == 3
    assert lost["lost"]


@pytest.mark.parametrize("kind", Kind)
def test_a_group_that_was_refused_a_device_opens_all_others(tmp_path: Path, kind: Kind) -> None:
    """Two devices of the kernel stand for GPUs."""
    refused, other = devices = [tmp_path / "gpu0", tmp_path / "gpu1"]
    try:
        for file, number in zip(devices, (os.makedev(1, 5), os.makedev(1, 7)), strict=True):
            os.mknod(file, 0o666 | stat.S_IFCHR, number)
        with device_groups.make(kind) as group:
            assert group.opened(devices) == devices
            group.deny(refused)
            assert group.opened(devices) == [other]
    except (device_groups.Unavailable, PermissionError) as error:
        pytest.skip(str(error))  # No such hierarchy here, or no right to make device files.
    assert refused.open("rb").read(1) == b"\0", "who is in no such group opens it"


def test_a_bundle_brings_what_renders_on_no_gpu_machine(tmp_path: Path) -> None:
    """The program's packages are not there: its files come as text, with the GPUs' type and number left open."""
    file = tmp_path / gpu.RENDERED
    rendered.main(file)
    said = json.loads(file.read_text())
    made = with_gpus(Rendered(**said["clusters"]["shards"]), type_of("NVIDIA H100 80GB HBM3"), 8)
    assert made.node["gres"] == "gpu:h100_80gb_hbm3:8,shard:4"
    assert "AutoDetect=nvidia" in made.files["gres.conf"]
    assert set(said["long_checks"]) == {"all-reduce", "nvbandwidth", "gpu-burn"}


def test_the_toolkits_specification_is_carried_out(tmp_path: Path) -> None:
    """A shortened one of an H200; mounts of this machine stand for the driver's files."""
    source = tmp_path / "libcuda.so.1"
    source.write_text("driver")
    seen = tmp_path / "seen"
    hook = tmp_path / "hook"
    hook.write_text(f"#!/bin/sh\n/bin/cat >{seen}; echo $1 $KEY >>{seen}\n")
    hook.chmod(0o755)
    root = tmp_path / "root"
    root.mkdir()
    edits = {
        "mounts": [{"hostPath": str(source), "containerPath": "/usr/lib/libcuda.so.1", "options": ["ro", "nosuid"]}],
        "hooks": [{"path": str(hook), "args": ["hook", "update-ldcache"], "env": ["KEY=value"]}],
    }
    every = {"name": "all", "containerEdits": {"deviceNodes": [{"path": "/dev/null"}]}}
    specification = tmp_path / "cdi.json"
    specification.write_text(json.dumps({"devices": [every], "containerEdits": edits}))
    looks = ("python3 $0 $1 $2", "cd $2/usr/lib", "cat libcuda.so.1", "test -c ../../dev/null", "! touch libcuda.so.1")
    look = " && ".join(looks)
    entered = ["unshare", "--mount", "--propagation", "private", "sh", "-c", look, toolkit.__file__]
    done = subprocess.run([*entered, specification, root], capture_output=True, text=True, timeout=60, check=False)
    if "Operation not permitted" in done.stderr:
        # CI runs as root, a developer may not.
        pytest.skip("makes mounts, which only root may")
    assert (done.returncode, done.stdout) == (0, "driver"), done
    state, told = seen.read_text().splitlines()[0], seen.read_text().splitlines()[-1]
    assert "creating" in state
    assert told.endswith("update-ldcache value")
