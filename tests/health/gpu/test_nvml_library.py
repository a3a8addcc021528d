"""The fake NVML has in common with NVIDIA's what its own binding says: names, arguments, structures and codes."""

from __future__ import annotations

import ctypes
import inspect
import re
from pathlib import Path

import pynvml
import pytest
from node_health.sources import nvml as source

from tests.health.fakes.nvml import Nvml

FAKE = Path(__file__).resolve().parents[3] / "devcluster/fakes/nvml"
CALLS, SCENARIO = (FAKE / "nvml.c").read_text(), (FAKE / "scenario.h").read_text()
BINDING = inspect.getsource(pynvml)


def symbols(function: str) -> set[str]:
    """Names of the library that a function of the binding asks for, by itself or by others."""
    text = inspect.getsource(getattr(pynvml, function))
    others = {name for name in re.findall(r"\b(nvml\w+)\(", text) if name != function and hasattr(pynvml, name)}
    asked = set(re.findall(r'_nvmlGetFunctionPointer\("(\w+)"\)', text))
    return asked.union(*(symbols(name) for name in others if inspect.isfunction(getattr(pynvml, name))))


def test_it_has_every_call_that_node_health_makes_by_the_binding(nvml_library: ctypes.CDLL) -> None:
    called = set(re.findall(r"library\.(nvml\w+)", Path(source.__file__).read_text()))
    asked = set[str]().union(*(symbols(name) for name in called))
    assert len(asked) > 25
    assert [name for name in sorted(asked) if not hasattr(nvml_library, name)] == []


def test_it_invents_no_call() -> None:
    made = set(re.findall(r"^(?:CALL|NUMBER|NUMBER_OF_KIND)\((\w+)", CALLS, re.MULTILINE))
    assert len(made) > 25
    assert [name for name in sorted(made) if f'_nvmlGetFunctionPointer("{name}")' not in BINDING] == []


def test_its_structures_have_the_bindings_sizes() -> None:
    """The compiler proves the same numbers."""
    sizes = {name: int(size) for size, name in re.findall(r"_Static_assert\(sizeof.*? == (\d+), \"(\w+)\"", CALLS)}
    assert sizes == {name: ctypes.sizeof(getattr(pynvml, f"c_{name}")) for name in sizes}
    assert len(sizes) == 5


def test_its_codes_are_the_bindings() -> None:
    """nvmlReturn_t, and what stands in place of a name of nvml.h."""
    codes = {name: int(code) for name, code in re.findall(r"^    ([A-Z_]+) = (\d+),$", SCENARIO, re.MULTILINE)}
    assert codes.pop("SUCCESS") == pynvml.NVML_SUCCESS
    assert codes == {name: getattr(pynvml, f"NVML_ERROR_{name}") for name in codes}
    assert len(codes) > 4
    assert f"#define RECOVERY_ACTION_FIELD {pynvml.NVML_FI_DEV_GET_GPU_RECOVERY_ACTION} " in CALLS
    assert f"#define LINK_RECOVERIES_FIELD {pynvml.NVML_FI_DEV_NVLINK_COUNT_LINK_RECOVERY_EVENTS} " in CALLS
    assert f"#define SLOWDOWN_FIELD {pynvml.NVML_FI_DEV_TEMPERATURE_SLOWDOWN_TLIMIT} " in CALLS
    version = int(re.findall(r"#define FABRIC_INFO_VERSION (\d+)U", CALLS)[0])
    assert version << 24 | ctypes.sizeof(pynvml.c_nvmlGpuFabricInfoV_t) == pynvml.c_nvmlGpuFabricInfoV_t().version


@pytest.mark.parametrize(
    "line",
    [
        "3 surprise 1",
        "3 uncorrected many",
        "3 uncorrected 1,",
        "3 links 12",
        "64 lost",
        "3",
        "gpus 65",
        "hang",
        "3 lost 1",
    ],
)
def test_a_scenario_that_means_nothing_is_refused_in_words(
    nvml: Nvml, line: str, capfd: pytest.CaptureFixture[str]
) -> None:
    nvml.file.write_text(f"gpus 8\n\n{line}\n")
    with pytest.raises(pynvml.NVMLError_Unknown):
        pynvml.nvmlInit()
    assert f"has a line that means nothing: {line}" in capfd.readouterr().err


def test_without_a_scenario_it_has_the_containers_gpus_and_all_are_well(
    nvml: Nvml, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_GPUS", str(nvml.file.parent / "none"))
    pynvml.nvmlInit()
    assert pynvml.nvmlDeviceGetCount() == len([*Path("/dev").glob("fakegpu*")])
    nvml.file.unlink()


def test_tests_run_the_binding_that_the_image_has() -> None:
    pinned = [
        re.findall(r"^nvidia-ml-py==(\S+)", (FAKE.parents[2] / file).read_text(), re.MULTILINE)
        for file in ("requirements.txt", "health/requirements.txt")
    ]
    assert pinned[0] == pinned[1] != []
