"""The driver's NVML answers all that node-health asks, through NVIDIA's own binding."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest
from node_health import catalogue, node, run
from node_health.check import Applies, Machine
from node_health.node import Declared
from node_health.sources import nvml
from node_health.sources.gpu_facts import NOT_SUPPORTED, Fact, Snapshot


def recorded(snapshot: Snapshot) -> str:
    """Return what NVML said of the driver and each GPU as JSON, its refusals among it."""
    return json.dumps(dataclasses.asdict(snapshot), indent=2)


@pytest.fixture
def snapshot(device_files: list[Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Snapshot:
    pytest.importorskip("pynvml", reason="there is no nvidia-ml-py (health/requirements.txt)")
    monkeypatch.setattr(node, "COUNTERS", tmp_path)
    return nvml.look(Machine(Declared(gpus=len(device_files))))


def test_each_gpu_answers_each_question_or_has_no_such_thing(snapshot: Snapshot, device_files: list[Path]) -> None:
    assert snapshot.failed is None
    assert len(snapshot.gpus) == len(device_files)
    for gpu in snapshot.gpus:
        assert {fact: str(error) for fact, error in gpu.unread.items() if error.code not in NOT_SUPPORTED} == {}
        assert gpu.lacks(Fact.DEGREES_LEFT) or gpu.facts[Fact.DEGREES_LEFT] > 0


def test_every_check_of_gpus_comes_to_a_verdict(snapshot: Snapshot, device_files: list[Path]) -> None:
    machine = Machine(Declared(gpus=len(device_files)))
    checks = [check for check in catalogue.load(Applies.NVIDIA) if check.look is nvml.look]
    answers = {check.name: run.judge(check, snapshot, machine) for check in checks}
    assert len(answers) > 10
    assert [name for name, answer in answers.items() if "Error" in str(answer)] == []


def test_its_facts_are_recorded(snapshot: Snapshot, record: Path) -> None:
    file = record / "nvml.json"
    file.write_text(recorded(snapshot))
    assert len(json.loads(file.read_text())["gpus"]) == len(snapshot.gpus)
