"""Answers of NVML that differ with the driver, the product, or an earlier run."""

from __future__ import annotations

from pathlib import Path

import pynvml
import pytest
from node_health.check import CannotJudgeError
from node_health.checks.nvlink import links
from node_health.sources import nvml as source
from node_health.sources.gpu_facts import Fact
from node_health.verdict import Verdict

from tests.health.fakes import fake_machine
from tests.health.fakes.nvml import Nvml


def test_an_nvlink_that_went_down_fails_whatever_the_product_has(tmp_path: Path, nvml: Nvml) -> None:
    machine = fake_machine.build(tmp_path)
    nvml.says(dict.fromkeys(range(8), "some_links"))
    assert source.look(machine).links_gone == ()
    nvml.adds(3, {"links": "111100111100111000"})
    found = links.judge(source.look(machine), machine)
    assert found.verdict is Verdict.FAIL
    assert found.evidence == "GPU 3 (GPU-fake-3): NVLinks 4, 5, 10, 11, 15, 16, 17 are down"
    nvml.says(dict.fromkeys(range(8), "some_links"))
    assert links.judge(source.look(machine), machine).verdict is Verdict.UNKNOWN


def test_the_nvlinks_of_a_gpu_that_fell_off_the_bus_are_told_by_another_check(tmp_path: Path, nvml: Nvml) -> None:
    machine = fake_machine.build(tmp_path)
    source.look(machine)
    nvml.says({3: "fallen_off_bus"})
    assert links.judge(source.look(machine), machine).verdict is Verdict.PASS


@pytest.mark.parametrize(
    "missing", ["nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons"]
)
def test_throttling_is_read_by_the_drivers_old_and_new_call(
    missing: str, tmp_path: Path, nvml: Nvml, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lacks(handle: object) -> int:
        raise pynvml.NVMLError(pynvml.NVML_ERROR_FUNCTION_NOT_FOUND)

    nvml.says({3: "thermal"})
    monkeypatch.setattr(pynvml, missing, lacks)
    assert source.look(fake_machine.build(tmp_path)).gpus[3].read(Fact.THROTTLED) == 0x48


def test_a_driver_without_either_call_lacks_the_fact(tmp_path: Path, nvml: Nvml) -> None:
    nvml.adds(3, {"throttled": "-13"})
    gpu = source.look(fake_machine.build(tmp_path)).gpus[3]
    assert gpu.lacks(Fact.THROTTLED)
    with pytest.raises(CannotJudgeError, match="Function Not Found"):
        gpu.read(Fact.THROTTLED)
