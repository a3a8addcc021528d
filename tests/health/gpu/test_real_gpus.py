"""Promises about real GPUs, whose NVML and nvidia-smi `make test-gpu RECORD=DIR` asked (tests/gpu)."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from node_health import catalogue, run
from node_health.check import Applies, Machine
from node_health.node import Declared
from node_health.sources import nvidia_smi
from node_health.sources import nvml as source
from node_health.sources.counters import Increase
from node_health.sources.gpu_facts import NOT_SUPPORTED, Fact, Gpu, Refusal, Snapshot
from node_health.verdict import Finding, Skipped, Verdict

from tests.health.fakes import fake_machine
from tests.health.fakes.nvml import Nvml

FOLDER = Path(__file__).parents[1] / "recorded"
RECORDED = {file.stem.partition("_")[0]: file for file in FOLDER.glob("*_nvml.json")}
LISTED = r"GPU \d+: (.*) \(UUID: (.*)\)\n"


def snapshot(file: Path) -> Snapshot:
    """Returns what NVML said on a real machine."""
    said = json.loads(file.read_text(), object_hook=_tuples)
    gpus = tuple(_gpu(**gpu) for gpu in said["gpus"])
    return Snapshot(gpus, said["driver"], module=said["module"], grew=Increase(**said["grew"]))


def _tuples(found: dict[str, Any]) -> dict[str, Any]:
    return {key: tuple(value) if isinstance(value, list) else value for key, value in found.items()}


def _gpu(unread: dict[str, Any], **others: Any) -> Gpu:
    return Gpu(**others, unread={fact: Refusal(**refusal) for fact, refusal in unread.items()})


@pytest.mark.parametrize("name", RECORDED)
def test_a_real_machine_that_is_well_passes_every_check_that_applies(name: str) -> None:
    said = snapshot(RECORDED[name])
    machine = Machine(Declared(gpus=len(said.gpus)))
    checks = [check for check in catalogue.load(Applies.NVIDIA) if check.look is source.look]
    answers = {check.name: run.judge(check, said, machine) for check in checks}
    found = {check: answer for check, answer in answers.items() if isinstance(answer, Finding)}
    assert {check: answer for check, answer in found.items() if answer.verdict is not Verdict.PASS} == {}
    assert len(found) > 10
    assert all(isinstance(answer, Skipped) for check, answer in answers.items() if check not in found)


@pytest.mark.parametrize("name", RECORDED)
def test_nvidia_smi_of_a_real_machine_says_the_same(name: str) -> None:
    said = snapshot(RECORDED[name])
    asked = nvidia_smi.Asked(0, (FOLDER / f"{name}_node-health.csv").read_text())
    assert nvidia_smi.judge(asked, len(said.gpus)).verdict is Verdict.PASS
    listed = re.findall(LISTED, (FOLDER / f"{name}_list.txt").read_text())
    assert listed == [(gpu.name, gpu.uuid) for gpu in said.gpus]


@pytest.mark.parametrize("name", RECORDED)
def test_the_fake_nvml_answers_in_the_shape_of_a_real_one(name: str, tmp_path: Path, nvml: Nvml) -> None:
    faked, *_ = source.look(fake_machine.build(tmp_path)).gpus
    for real in snapshot(RECORDED[name]).gpus:
        assert {*real.facts, *real.unread} == {*Fact}
        assert {refusal.code for refusal in real.unread.values()} <= NOT_SUPPORTED
        shapes = {
            fact: (_shape(real.facts[fact]), _shape(faked.facts[fact])) for fact in {*real.facts} & {*faked.facts}
        }
        assert len(shapes) > 20
        assert {fact: shape for fact, shape in shapes.items() if shape[0] != shape[1]} == {}


def _shape(fact: object) -> str:
    """Return the type of a fact, and of what it holds. How much it holds is no shape: machines differ in links."""
    if isinstance(fact, tuple):
        return f"tuple of {', '.join(sorted({type(each).__name__ for each in fact})) or 'int'}"
    return type(fact).__name__
