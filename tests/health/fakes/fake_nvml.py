"""A fake NVML in place of the module pynvml: it talks to no driver, and answers what a scenario says.

Modes of a GPU are named as NVIDIA's Mokka names them, where it has the failure.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

PRODUCT = "NVIDIA H100 80GB HBM3"
DRIVER = "570.86.15"

HEALTHY: Mapping[str, Any] = {
    "name": PRODUCT,
    "ecc": 1,
    "uncorrected": 0,
    "corrected": 0,
    "remapped": (0, 0, 0, 0),
    "retired": None,
    "recovery": 0,
    "links": (1,) * 18,
    "link_errors": 0,
    "throttled": 1,
    "max_clock": 1980,
    "application_clock": 1980,
    "default_clock": 1980,
    "power": 700_000,
    "default_power": 700_000,
    "temperature": 31,
    "slowdown": 95,
    "width": 16,
    "max_width": 16,
    "generation": 5,
    "max_generation": 5,
    "replays": 0,
    "state": 0,
    "persistence": 1,
    "processes": 0,
    "fabric": (3, 0),
    "mig": (0, 0),
}
MODES: Mapping[str, Mapping[str, Any]] = {
    "healthy": {},
    "ecc_uncorrectable": {"uncorrected": 3},
    "ecc_off": {"ecc": 0},
    "lost": {"lost": True},
    "fallen_off_bus": {"gone": True},
    "remap_failed": {"remapped": (0, 8, 0, 1)},
    "remap_pending": {"remapped": (0, 1, 1, 0)},
    "pages": {"remapped": None, "retired": 0},
    "page_pending": {"remapped": None, "retired": 1},
    "reset_required": {"recovery": 1},
    "reboot_required": {"recovery": 2},
    "nvlink_down": {"links": (1,) * 17 + (0,)},
    "nvlink_missing": {"links": (1,) * 17},
    "no_bridge": {"name": "NVIDIA H100 PCIe", "links": (0,) * 18},
    "bridge_down": {"name": "NVIDIA X1", "links": (1,) * 12 + (0,) * 6},
    "thermal": {"throttled": 0x48},
    "power_brake": {"throttled": 0x80},
    "software_thermal": {"throttled": 0x20},
    "slow_clock": {"application_clock": 1200},
    "low_max_clock": dict.fromkeys(("max_clock", "application_clock", "default_clock"), 1500),
    "low_power": {"power": 400_000},
    "hot": {"temperature": 95},
    "warm": {"temperature": 94},
    "pcie_narrow": {"width": 8},
    "narrow_slot": {"width": 8, "max_width": 8},
    "pcie_slow": {"generation": 3},
    "not_persistent": {"persistence": 0},
    "stray_process": {"processes": 2},
    "not_in_fabric": {"fabric": (1, 0)},
    "mig": {"mig": (1, 1)},
    "mig_pending": {"mig": (0, 1)},
    "restart_wanted": {"refused": 16},
    "unreadable": {"refused": 999},
    "other_product": {"name": "NVIDIA X1"},
    "old": dict.fromkeys(("recovery", "fabric", "mig", "application_clock"), None),
}
WORDS = {3: "Not Supported", 9: "Driver Not Loaded", 12: "NVML Shared Library Not Found", 15: "GPU is lost"}
WORDS |= {16: "GPU requires restart", 18: "RM has detected an NVML/RM version mismatch.", 999: "Unknown Error"}


class NVMLError(Exception):
    """NVML's error."""

    def __init__(self, value: int) -> None:
        super().__init__(value)
        self.value = value

    def __str__(self) -> str:
        return WORDS[self.value]


class FakeNvml:
    """The module's functions that node-health calls.

    Args:
        gpus: number of GPUs.
        modes: index of a GPU → its mode.
        init: code with which NVML refuses to start; 0: it starts.
        hangs: whether it never answers.
        after_calls: calls after which a GPU that is to be lost is so, as Mokka's `after_calls`; until then it is well.
    """

    NVMLError = NVMLError
    NVML_MEMORY_ERROR_TYPE_CORRECTED, NVML_MEMORY_ERROR_TYPE_UNCORRECTED, NVML_VOLATILE_ECC = 0, 1, 0
    NVML_FI_DEV_GET_GPU_RECOVERY_ACTION = 230
    NVML_NVLINK_MAX_LINKS = 36
    NVML_NVLINK_ERROR_DL_REPLAY, NVML_NVLINK_ERROR_DL_RECOVERY = 0, 1
    NVML_CLOCK_SM, NVML_TEMPERATURE_GPU, NVML_TEMPERATURE_THRESHOLD_SLOWDOWN = 1, 0, 1

    def __init__(
        self,
        gpus: int = 8,
        modes: Mapping[int, str] | None = None,
        init: int = 0,
        hangs: bool = False,
        after_calls: int | None = None,
    ):
        self.gpus = [{**HEALTHY, **MODES[(modes or {}).get(index, "healthy")]} for index in range(gpus)]
        self.init, self.hangs = init, hangs
        for gpu in self.gpus if after_calls is not None else ():
            if gpu.pop("lost", False) or gpu.pop("gone", False):
                gpu["calls_left"] = [after_calls]

    def nvmlInit(self) -> None:
        if self.hangs:
            time.sleep(1000)  # Stands for a driver that hangs: the time box ends it.
        if self.init:
            raise NVMLError(self.init)

    def nvmlShutdown(self) -> None:
        pass

    def nvmlSystemGetDriverVersion(self) -> str:
        return DRIVER

    def nvmlDeviceGetCount(self) -> int:
        return sum(not gpu.get("gone") for gpu in self.gpus)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> dict[str, Any]:
        gpu = [gpu for gpu in self.gpus if not gpu.get("gone")][index]
        if gpu.get("lost"):
            raise NVMLError(15)
        return {**gpu, "index": index}

    def nvmlDeviceGetUUID(self, handle: Mapping[str, Any]) -> str:
        return f"GPU-fake-{handle['index']}"

    def nvmlDeviceGetName(self, handle: Mapping[str, Any]) -> str:
        return str(handle["name"])

    def nvmlDeviceGetTotalEccErrors(self, handle: Mapping[str, Any], kind: int, counter: int) -> Any:
        return _value(handle, "uncorrected" if kind else "corrected")

    def nvmlDeviceGetEccMode(self, handle: Mapping[str, Any]) -> Any:
        return [_value(handle, "ecc")] * 2

    def nvmlDeviceGetFieldValues(self, handle: Mapping[str, Any], fields: list[int]) -> Any:
        code = handle.get("refused", 0) or (3 if handle["recovery"] is None else 0)
        return [SimpleNamespace(nvmlReturn=code, value=SimpleNamespace(uiVal=handle["recovery"]))]

    def nvmlDeviceGetNvLinkState(self, handle: Mapping[str, Any], link: int) -> Any:
        states = _value(handle, "links")
        if link >= len(states):
            raise NVMLError(3)
        return states[link]

    def nvmlDeviceGetNvLinkErrorCounter(self, handle: Mapping[str, Any], link: int, kind: int) -> Any:
        return _value(handle, "link_errors")

    def nvmlDeviceGetTemperature(self, handle: Mapping[str, Any], sensor: int) -> Any:
        return _value(handle, "temperature")

    def nvmlDeviceGetTemperatureThreshold(self, handle: Mapping[str, Any], kind: int) -> Any:
        return _value(handle, "slowdown")

    def nvmlDeviceGetComputeRunningProcesses(self, handle: Mapping[str, Any]) -> Any:
        return [None] * _value(handle, "processes")

    def c_nvmlGpuFabricInfoV_t(self) -> Any:
        return SimpleNamespace(state=0, status=0)

    def nvmlDeviceGetGpuFabricInfoV(self, handle: Mapping[str, Any], info: Any) -> None:
        info.state, info.status = _value(handle, "fabric")

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name not in _PLAIN:
            raise AttributeError(name)
        return lambda handle, *_: _value(handle, _PLAIN[name])


_PLAIN = {
    "nvmlDeviceGetRemappedRows": "remapped",
    "nvmlDeviceGetRetiredPagesPendingStatus": "retired",
    "nvmlDeviceGetCurrentClocksThrottleReasons": "throttled",
    "nvmlDeviceGetMaxClockInfo": "max_clock",
    "nvmlDeviceGetApplicationsClock": "application_clock",
    "nvmlDeviceGetDefaultApplicationsClock": "default_clock",
    "nvmlDeviceGetEnforcedPowerLimit": "power",
    "nvmlDeviceGetPowerManagementDefaultLimit": "default_power",
    "nvmlDeviceGetCurrPcieLinkWidth": "width",
    "nvmlDeviceGetMaxPcieLinkWidth": "max_width",
    "nvmlDeviceGetCurrPcieLinkGeneration": "generation",
    "nvmlDeviceGetMaxPcieLinkGeneration": "max_generation",
    "nvmlDeviceGetPcieReplayCounter": "replays",
    "nvmlDeviceGetPerformanceState": "state",
    "nvmlDeviceGetPersistenceMode": "persistence",
    "nvmlDeviceGetMigMode": "mig",
}


def _value(handle: Mapping[str, Any], name: str) -> Any:
    left = handle.get("calls_left")
    if left is not None:
        left[0] -= 1
        if left[0] < 0:
            raise NVMLError(15)
    if handle.get("refused"):
        raise NVMLError(handle["refused"])
    if handle[name] is None:
        raise NVMLError(3)
    return handle[name]
