"""node-health asks nvidia-smi where a pod has no NVML."""

from __future__ import annotations

from pathlib import Path

import pytest
from node_health import run
from node_health.check import Machine
from node_health.checks.gpu import gpus
from node_health.sources import nvidia_smi as source
from node_health.sources.nvidia_smi import Asked
from node_health.verdict import Finding, Verdict

from tests.health.fakes import fake_machine
from tests.health.fakes.nvml import Nvml

PASS, WARNING, UNKNOWN, FAIL = Verdict
TWO = "0, GPU-aa, 0\n1, GPU-bb, 0"


@pytest.mark.parametrize(
    ("asked", "declared", "verdict", "evidence"),
    [
        (Asked(None), 2, UNKNOWN, "2 declared, and the pod has neither NVML nor nvidia-smi to ask"),
        (Asked(0, TWO), 2, PASS, "2 GPUs answer, 2 declared; 2 count memory errors (ECC), and had none"),
        (Asked(0, TWO), 3, FAIL, "2 of 3 GPUs answer"),
        (Asked(0, TWO), 1, WARNING, "2 GPUs answer, 1 declared"),
        (Asked(0, "0, GPU-aa, [N/A]"), 1, PASS, "0 count memory errors"),
        (Asked(0, "0, GPU-aa, [Not Supported]"), 1, PASS, ""),
        (Asked(0, "0, GPU-aa, 0\n1, GPU-bb, 3"), 2, FAIL, "since the driver was loaded: GPU 1 (GPU-bb): 3"),
        (Asked(15, "Unable to determine the device handle for GPU0: GPU is lost."), 1, FAIL, "GPU is lost"),
        (Asked(9, "NVIDIA-SMI has failed because it couldn't communicate with the driver."), 1, FAIL, "9"),
        (Asked(6, "No devices were found"), 1, FAIL, "No devices were found"),
        (Asked(2, 'Field "uuuid" is not a valid field to query.'), 1, UNKNOWN, "not a valid field"),
        (Asked(12, "couldn't find libnvidia-ml.so"), 1, UNKNOWN, "libnvidia-ml"),
        (Asked(0, "surprise"), 1, UNKNOWN, "nvidia-smi printed surprise"),
        (Asked(0, ""), 1, FAIL, "0 of 1 GPUs answer"),
    ],
)
def test_its_answer(asked: Asked, declared: int, verdict: Verdict, evidence: str) -> None:
    found = source.judge(asked, declared)
    assert found.verdict is verdict
    assert evidence in found.evidence


def test_one_program_is_asked_and_no_path_is_searched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "nvidia-smi"
    monkeypatch.setenv("PATH", str(tmp_path))
    assert source.ask(Machine(), str(tmp_path / "elsewhere")) == Asked(None)
    program.write_text('#!/bin/sh\necho "$1 $2" $LD_PRELOAD\nexit 3\n')
    program.chmod(0o755)
    monkeypatch.setenv("LD_PRELOAD", "/nowhere.so")
    fields = "index,uuid,ecc.errors.uncorrected.volatile.total"
    assert source.ask(Machine(), str(program)) == Asked(3, f"--query-gpu={fields} --format=csv,noheader,nounits")


def test_a_tool_that_hangs_is_unknown_where_there_is_no_nvml(tmp_path: Path, nvml: Nvml) -> None:
    nvml.says(init=12)
    machine = fake_machine.build(tmp_path, {source.PROGRAM: "#!/bin/sh\nexec sleep 1000\n"})
    (found,) = run.run(machine, [gpus.CHECK], seconds=0.5).results
    assert found.finding == Finding(Verdict.UNKNOWN, "no answer within 0.5 s")
