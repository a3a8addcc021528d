"""NVML's answers about the GPUs: one initialization and one round of questions for all checks of GPUs."""

import ctypes
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from node_health.check import Machine
from node_health.sources import jobs, nvidia_smi
from node_health.sources.counters import increase, lasting
from node_health.sources.gone import gone
from node_health.sources.gpu_facts import (
    FUNCTION_NOT_FOUND,
    NOT_SUPPORTED,
    RESET_REQUIRED,
    THROTTLES,
    Fact,
    Gpu,
    Refusal,
    Snapshot,
    key,
    link_key,
)

LIBRARY_NOT_FOUND = 12
NO_PERMISSION = 4
"""Error of a GPU whose device file the pod may not open: another pod's. NVML counts it all the same (nvml.h,
nvmlDeviceGetCount_v2)."""
LOST = frozenset({15, RESET_REQUIRED})
"""Errors of a GPU that computes nothing any more: GPU_IS_LOST, RESET_REQUIRED."""
_MODULE = re.compile(r"^NVRM version: .*?\s(\d+\.\d+(?:\.\d+)?)\s", re.MULTILINE)


def look(machine: Machine) -> Snapshot:
    """Asks NVML, or nvidia-smi where the pod has no NVML."""
    try:
        import pynvml  # In the image, see images/slurm/Containerfile.
    except ImportError as error:
        return Snapshot(failed=Refusal(LIBRARY_NOT_FOUND, str(error)), asked=nvidia_smi.ask(machine))
    return snapshot(pynvml, machine)


def snapshot(library: Any, machine: Machine) -> Snapshot:
    """Asks NVML through nvidia-ml-py, or what stands in its place."""
    try:
        library.nvmlInit()
    except library.NVMLError as error:
        asked = nvidia_smi.ask(machine) if error.value == LIBRARY_NOT_FOUND else None
        return Snapshot(failed=_refusal(error), asked=asked)
    try:
        driver = _text(library.nvmlSystemGetDriverVersion())
        counted = [_gpu(library, index) for index in range(library.nvmlDeviceGetCount())]
        gpus = tuple(gpu for gpu in counted if not (gpu.lost and gpu.lost.code == NO_PERMISSION))
        grew = increase(machine, "gpus", dict(_counters(gpus)))
        idle = _is_idle(machine)
        hot = [gpu.uuid for gpu in gpus if gpu.facts.get(Fact.DEGREES_LEFT, 1) <= 0]
        slowed = [gpu.uuid for gpu in gpus if gpu.facts.get(Fact.THROTTLED, 0) & sum(THROTTLES)]
        return Snapshot(
            gpus,
            driver,
            module=module_version(machine),
            grew=grew,
            throttled=lasting(machine, "throttled", slowed),
            hot=lasting(machine, "hot", hot),
            links_gone=gone(machine, "nvlinks", list(_links_up(gpus))),
            idle=idle,
        )
    finally:
        library.nvmlShutdown()


def _is_idle(machine: Machine) -> bool | None:
    """Returns whether no job runs here; None where nobody can tell, as by lxcfs that has ended."""
    try:
        return not machine.once(jobs.look).running
    except (OSError, ValueError):
        return None


def _counters(gpus: tuple[Gpu, ...]) -> Iterator[tuple[str, int]]:
    for gpu in gpus:
        for fact in (Fact.ECC_CORRECTED, Fact.PCIE_REPLAYS, Fact.LINK_ERRORS, Fact.LINK_RECOVERIES):
            if fact in gpu.facts:
                value = gpu.facts[fact]
                yield key(gpu, fact), sum(value) if isinstance(value, tuple) else value


def _links_up(gpus: tuple[Gpu, ...]) -> Iterator[str]:
    for gpu in gpus:
        for number, state in enumerate(gpu.facts.get(Fact.LINKS, ())):
            if state:
                yield link_key(gpu, number)


def module_version(machine: Machine) -> str:
    """Returns the version of the kernel's module, as /proc/driver/nvidia/version says it."""
    try:
        said = machine.text("/proc/driver/nvidia/version")
    except OSError:
        return ""
    version = _MODULE.search(said)
    return version[1] if version else ""


def _gpu(library: Any, index: int) -> Gpu:
    try:
        handle = library.nvmlDeviceGetHandleByIndex(index)
        name, uuid = _text(library.nvmlDeviceGetName(handle)), _text(library.nvmlDeviceGetUUID(handle))
    except library.NVMLError as error:
        return Gpu(index, lost=_refusal(error))
    facts: dict[str, Any] = {}
    unread: dict[str, Refusal] = {}
    for fact, read in _READERS.items():
        try:
            facts[fact] = read(library, handle)
        except library.NVMLError as error:
            if error.value in LOST:
                return Gpu(index, name, uuid, lost=_refusal(error))
            unread[fact] = _refusal(error)
    return Gpu(index, name, uuid, None, facts, unread)


def _refusal(error: Any) -> Refusal:
    return Refusal(error.value, str(error))


def _text(said: str | bytes) -> str:
    return said.decode() if isinstance(said, bytes) else said


def _ecc(kind: str) -> Callable[[Any, Any], Any]:
    return lambda library, handle: library.nvmlDeviceGetTotalEccErrors(
        handle, getattr(library, f"NVML_MEMORY_ERROR_TYPE_{kind}"), library.NVML_VOLATILE_ECC
    )


def _sram_exceeded(library: Any, handle: Any) -> bool:
    """Returns whether a GPU's caches had so many errors in its life that NVIDIA wants its field diagnostics run."""
    status = library.c_nvmlEccSramErrorStatus_v1_t()
    library.nvmlDeviceGetSramEccErrorStatus(handle, ctypes.byref(status))
    return bool(status.bThresholdExceeded)


def _field(name: str) -> Callable[[Any, Any], int]:
    """Returns a reader of a field that is a whole number of 32 bits; those that we read are signed or small."""

    def read(library: Any, handle: Any) -> int:
        value = library.nvmlDeviceGetFieldValues(handle, [getattr(library, f"NVML_FI_DEV_{name}")])[0]
        if value.nvmlReturn:
            raise library.NVMLError(value.nvmlReturn)
        return int(value.value.siVal)

    return read


def _degrees_left(library: Any, handle: Any) -> int:
    """Returns how far a GPU is below the temperature at which the hardware slows it down.

    Later drivers no longer say that temperature of GPUs since Ada (nvml.h, nvmlDeviceGetTemperatureThreshold). They say
    T.Limit, as nvidia-smi calls it: an H100 slows down at -2, a B200 at -3.
    """
    try:
        slowdown = library.nvmlDeviceGetTemperatureThreshold(handle, library.NVML_TEMPERATURE_THRESHOLD_SLOWDOWN)
    except library.NVMLError as error:
        if error.value not in NOT_SUPPORTED:
            raise
        limit = _field("TEMPERATURE_SLOWDOWN_TLIMIT")(library, handle)
        return int(library.nvmlDeviceGetMarginTemperature(handle)) - limit
    return int(slowdown) - int(library.nvmlDeviceGetTemperature(handle, library.NVML_TEMPERATURE_GPU))


def _links(library: Any, handle: Any) -> Iterator[Any]:
    """Returns the numbers of the links that a GPU has."""
    for link in range(library.NVML_NVLINK_MAX_LINKS):
        try:
            library.nvmlDeviceGetNvLinkState(handle, link)
        except library.NVMLError as error:
            if error.value not in NOT_SUPPORTED:
                raise
        else:
            yield link


def _link_states(library: Any, handle: Any) -> tuple[int, ...]:
    return tuple(int(library.nvmlDeviceGetNvLinkState(handle, link)) for link in _links(library, handle))


def _link_errors(library: Any, handle: Any) -> tuple[int, ...]:
    kinds = (library.NVML_NVLINK_ERROR_DL_REPLAY, library.NVML_NVLINK_ERROR_DL_RECOVERY)
    return tuple(
        sum(int(library.nvmlDeviceGetNvLinkErrorCounter(handle, link, kind)) for kind in kinds)
        for link in _links(library, handle)
    )


def _link_recoveries(library: Any, handle: Any) -> tuple[int, ...]:
    """Returns how often each link had to recover. NVLink 5, of Blackwell, counts that, and none of the older errors."""
    field = library.NVML_FI_DEV_NVLINK_COUNT_LINK_RECOVERY_EVENTS
    if not (links := [(field, link) for link in _links(library, handle)]):
        raise library.NVMLError(library.NVML_ERROR_NOT_SUPPORTED)
    values = library.nvmlDeviceGetFieldValues(handle, links)
    if refused := next((value.nvmlReturn for value in values if value.nvmlReturn), 0):
        raise library.NVMLError(refused)
    # The lower half of a number of 64 bits is enough, whichever of both the driver gives.
    return tuple(int(value.value.uiVal) for value in values)


def _fabric(library: Any, handle: Any) -> tuple[int, int, int]:
    """Returns state and status of the GPU's registration with the fabric manager, and the fabric's health."""
    info = library.c_nvmlGpuFabricInfoV_t()
    library.nvmlDeviceGetGpuFabricInfoV(handle, ctypes.byref(info))
    return int(info.state), int(info.status), int(info.healthMask)


def _throttled(library: Any, handle: Any) -> int:
    """Returns why the clocks are low. Drivers before 535 have only the older call, which goes with CUDA 14."""
    try:
        return int(library.nvmlDeviceGetCurrentClocksEventReasons(handle))
    except library.NVMLError as error:
        if error.value != FUNCTION_NOT_FOUND:
            raise
    return int(library.nvmlDeviceGetCurrentClocksThrottleReasons(handle))


_READERS: Mapping[Fact, Callable[[Any, Any], Any]] = {
    Fact.ECC_MODE: lambda library, handle: library.nvmlDeviceGetEccMode(handle)[0],
    Fact.ECC_UNCORRECTED: _ecc("UNCORRECTED"),
    Fact.ECC_CORRECTED: _ecc("CORRECTED"),
    Fact.SRAM_EXCEEDED: _sram_exceeded,
    Fact.REMAPPED: lambda library, handle: tuple(library.nvmlDeviceGetRemappedRows(handle)),
    Fact.RETIRED_PENDING: lambda library, handle: library.nvmlDeviceGetRetiredPagesPendingStatus(handle),
    Fact.RECOVERY: _field("GET_GPU_RECOVERY_ACTION"),
    Fact.LINKS: _link_states,
    Fact.LINK_ERRORS: _link_errors,
    Fact.LINK_RECOVERIES: _link_recoveries,
    Fact.THROTTLED: _throttled,
    Fact.MAX_SM_CLOCK: lambda library, handle: library.nvmlDeviceGetMaxClockInfo(handle, library.NVML_CLOCK_SM),
    Fact.APPLICATION_CLOCK: lambda library, handle: library.nvmlDeviceGetApplicationsClock(
        handle, library.NVML_CLOCK_SM
    ),
    Fact.DEFAULT_CLOCK: lambda library, handle: library.nvmlDeviceGetDefaultApplicationsClock(
        handle, library.NVML_CLOCK_SM
    ),
    Fact.POWER_LIMIT: lambda library, handle: library.nvmlDeviceGetEnforcedPowerLimit(handle) // 1000,
    Fact.DEFAULT_POWER_LIMIT: lambda library, handle: library.nvmlDeviceGetPowerManagementDefaultLimit(handle) // 1000,
    Fact.DEGREES_LEFT: _degrees_left,
    Fact.PCIE_WIDTH: lambda library, handle: library.nvmlDeviceGetCurrPcieLinkWidth(handle),
    Fact.MAX_PCIE_WIDTH: lambda library, handle: library.nvmlDeviceGetMaxPcieLinkWidth(handle),
    Fact.PCIE_GENERATION: lambda library, handle: library.nvmlDeviceGetCurrPcieLinkGeneration(handle),
    Fact.MAX_PCIE_GENERATION: lambda library, handle: library.nvmlDeviceGetMaxPcieLinkGeneration(handle),
    Fact.PCIE_REPLAYS: lambda library, handle: library.nvmlDeviceGetPcieReplayCounter(handle),
    Fact.PERFORMANCE_STATE: lambda library, handle: library.nvmlDeviceGetPerformanceState(handle),
    Fact.PERSISTENCE: lambda library, handle: library.nvmlDeviceGetPersistenceMode(handle),
    Fact.PROCESSES: lambda library, handle: len(library.nvmlDeviceGetComputeRunningProcesses(handle)),
    Fact.FABRIC: _fabric,
    Fact.MIG: lambda library, handle: tuple(library.nvmlDeviceGetMigMode(handle)),
    Fact.VIRTUALIZATION: lambda library, handle: int(library.nvmlDeviceGetVirtualizationMode(handle)),
}
