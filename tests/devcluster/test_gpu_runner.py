"""Promises of `make test-gpu`: without a GPU it says what it skipped and is well; a part that fails fails the run."""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest

from devcluster.suite import gpu, gpu_bundle

ANSWERS = "#!/bin/sh\necho '0, GPU-1b2c3d4e-0001, 0'\necho '1, GPU-1b2c3d4e-0002, [N/A]'\n"
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


@needs_no_gpu
def test_a_bundle_runs_without_the_checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PULUMI_SLURM_NVIDIA_SMI", str(tmp_path / "nowhere"))
    monkeypatch.setattr(gpu_bundle, "_copy_prefix", lambda _: None)
    bundle, report = tmp_path / "bundle.tar.xz", tmp_path / "report.xml"
    gpu_bundle.write(bundle)
    with tarfile.open(bundle) as packed:
        assert not [name for name in packed.getnames() if "__pycache__" in name]
    assert gpu.run_bundle(bundle, None, report) == 0
    assert set(outcomes(report).values()) == {"passed", "skipped"}
