"""Answers of NVML that differ with the driver, the product, or an earlier run."""

from __future__ import annotations

from pathlib import Path

import pynvml
import pytest
from node_health.check import CannotJudgeError, DoesNotApplyError, Machine
from node_health.checks.gpu import driver, gpus, persistence
from node_health.checks.nvlink import links
from node_health.sources import nvml as source
from node_health.sources.gpu_facts import Fact
from node_health.verdict import Verdict

from tests.health.fakes import fake_machine
from tests.health.fakes.nvml import Nvml

CODES = {name: code for name, code in vars(pynvml).items() if name.startswith("NVML_ERROR_")}
"""All errors of NVML, also those that a later binding brings: each has its meaning below."""


@pytest.mark.parametrize("name", CODES)
def test_a_start_of_nvml_fails_for_a_fault_of_the_driver_alone(name: str, tmp_path: Path, nvml: Nvml) -> None:
    nvml.says(init=CODES[name])
    machine = fake_machine.build(tmp_path)
    faults = ("DRIVER_NOT_LOADED", "LIB_RM_VERSION_MISMATCH", "NO_PERMISSION", "UNKNOWN")
    expected = Verdict.FAIL if name.removeprefix("NVML_ERROR_") in faults else Verdict.UNKNOWN
    assert driver.judge(source.look(machine), machine).verdict is expected
    assert gpus.judge(source.look(machine), machine).verdict is Verdict.UNKNOWN, "the other check tells"


@pytest.mark.parametrize("name", CODES)
def test_a_gpu_that_nobody_gets_is_lost_whatever_nvml_says_of_it(name: str, tmp_path: Path, nvml: Nvml) -> None:
    nvml.adds(3, {"closed": CODES[name]})
    machine = fake_machine.build(tmp_path)
    assert gpus.judge(source.look(machine), machine).verdict is Verdict.FAIL


@pytest.mark.parametrize("name", CODES)
def test_a_refused_fact_is_skipped_if_gpu_or_driver_lack_it_and_unknown_for_all_else(
    name: str, tmp_path: Path, nvml: Nvml
) -> None:
    for number in range(8):
        nvml.adds(number, {"persistence": f"-{CODES[name]}"})
    machine = fake_machine.build(tmp_path)
    lacking = ("NOT_SUPPORTED", "INVALID_ARGUMENT", "FUNCTION_NOT_FOUND", "ARGUMENT_VERSION_MISMATCH", "DEPRECATED")
    short = name.removeprefix("NVML_ERROR_")
    assert _verdict(machine) == ("SKIPPED" if short in lacking else "UNKNOWN")
    lost = [gpu for gpu in source.look(machine).gpus if gpu.lost]
    assert bool(lost) == (short in ("GPU_IS_LOST", "RESET_REQUIRED"))


def _verdict(machine: Machine) -> str:
    try:
        return persistence.judge(source.look(machine), machine).verdict
    except DoesNotApplyError:
        return "SKIPPED"
    except CannotJudgeError:
        return "UNKNOWN"


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
