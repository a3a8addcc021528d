"""NVML's answers about the GPUs: one initialization and one round of questions for all checks of GPUs."""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from node_health.check import CannotJudgeError, DoesNotApplyError, Machine
from node_health.counters import Increase, increase
from node_health.sources import jobs, nvidia_smi
from node_health.verdict import Action, Finding, Verdict, passes, unknown, worst_of


class Fact(StrEnum):
    """Facts that are read of each GPU."""

    ECC_MODE = "ECC mode"
    ECC_UNCORRECTED = "uncorrected ECC errors"
    ECC_CORRECTED = "corrected ECC errors"
    REMAPPED = "remapped rows"
    RETIRED_PENDING = "retired pages"
    RECOVERY = "recovery action"
    LINKS = "NVLink states"
    LINK_ERRORS = "NVLink errors"
    THROTTLED = "clock event reasons"
    MAX_SM_CLOCK = "highest SM clock"
    APPLICATION_CLOCK = "application clock"
    DEFAULT_CLOCK = "default application clock"
    POWER_LIMIT = "enforced power limit"
    DEFAULT_POWER_LIMIT = "default power limit"
    TEMPERATURE = "temperature"
    SLOWDOWN_TEMPERATURE = "slowdown temperature"
    PCIE_WIDTH = "PCIe width"
    MAX_PCIE_WIDTH = "widest PCIe link"
    PCIE_GENERATION = "PCIe generation"
    MAX_PCIE_GENERATION = "highest PCIe generation"
    PCIE_REPLAYS = "PCIe replays"
    PERFORMANCE_STATE = "performance state"
    PERSISTENCE = "persistence mode"
    PROCESSES = "processes"
    FABRIC = "fabric state"
    MIG = "MIG mode"


class UnreadableError(CannotJudgeError):
    """NVML did not say what a check needs."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """An error of NVML: its code and words."""

    code: int
    words: str

    def __str__(self) -> str:
        return self.words


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU.

    Attributes:
        index: NVML's number.
        name: the product, such as NVIDIA H100 80GB HBM3.
        uuid: its id.
        lost: NVML's words if it does not answer.
        facts: fact → number or numbers.
        unread: fact → NVML's error, where it has none.
    """

    index: int
    name: str = ""
    uuid: str = ""
    lost: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict)
    unread: Mapping[str, Refusal] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"GPU {self.index} ({self.uuid})" if self.uuid else f"GPU {self.index}"

    def read(self, fact: Fact) -> Any:
        """Returns a fact.

        Raises:
            UnreadableError: NVML failed, or does not have it.
        """
        if fact in self.facts:
            return self.facts[fact]
        raise UnreadableError(f"{self}: {fact}: {self.unread.get(fact, 'not asked')}")

    def lacks(self, fact: Fact) -> bool:
        """Returns whether this GPU or its driver does not have a fact at all."""
        return fact in self.unread and self.unread[fact].code in NOT_SUPPORTED


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All GPUs.

    Attributes:
        gpus: the GPUs.
        driver: version of the driver.
        failed: NVML's error if it could not be initialized; then there are no GPUs here.
        asked: nvidia-smi's answer where NVML is missing.
        module: version of the kernel's module; empty: nobody says.
        grew: increase of counters, named by the GPU's number and the fact.
        idle: whether no job runs here.
    """

    gpus: tuple[Gpu, ...] = ()
    driver: str = ""
    failed: Refusal | None = None
    asked: nvidia_smi.Asked | None = None
    module: str = ""
    grew: Increase = field(default_factory=lambda: Increase({}))
    idle: bool = True


INVALID_ARGUMENT, FUNCTION_NOT_FOUND, VERSION_MISMATCH = 2, 13, 25
NOT_SUPPORTED = frozenset({3, INVALID_ARGUMENT, FUNCTION_NOT_FOUND, VERSION_MISMATCH})
"""Errors (nvml.h, nvmlReturn_t) about a fact that a GPU lacks, or that an older driver does not know."""
LIBRARY_NOT_FOUND = 12
LOST = frozenset({15, 16})
"""Errors of a GPU that computes nothing any more: GPU_IS_LOST, RESET_REQUIRED."""
_MODULE = re.compile(r"^NVRM version: .*?\s(\d+\.\d+(?:\.\d+)?)\s", re.MULTILINE)


def look(machine: Machine) -> Snapshot:
    """Asks NVML, or nvidia-smi where the pod has no NVML."""
    try:
        import pynvml  # type: ignore[import-not-found, unused-ignore]  # in the image, see images/slurm/Containerfile
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
        gpus = tuple(_gpu(library, index) for index in range(library.nvmlDeviceGetCount()))
        grew = increase(machine, "gpus", dict(_counters(gpus)))
        idle = not machine.once(jobs.look).running
        return Snapshot(gpus, driver, module=module_version(machine), grew=grew, idle=idle)
    finally:
        library.nvmlShutdown()


def each(snapshot: Snapshot, needs: Fact, judge: Callable[[Gpu], Finding]) -> Finding:
    """Returns the worst finding of all GPUs that answer; the check `gpus` tells about those that don't.

    Args:
        snapshot: the GPUs.
        needs: what the check is about.
        judge: judges one.

    Raises:
        CannotJudgeError: no GPU answers.
        DoesNotApplyError: no GPU has it.
    """
    if snapshot.failed:
        raise CannotJudgeError(f"NVML: {snapshot.failed}")
    answering = [gpu for gpu in snapshot.gpus if not gpu.lost]
    if not answering:
        raise CannotJudgeError("no GPU answers")
    if all(gpu.lacks(needs) for gpu in answering):
        raise DoesNotApplyError(f"these GPUs, or their driver, have no {needs}")
    findings = [_judge(gpu, judge) for gpu in answering]
    worst = worst_of(findings)
    return passes(f"{len(answering)} GPUs: {findings[0].evidence}") if worst.verdict is Verdict.PASS else worst


def _judge(gpu: Gpu, judge: Callable[[Gpu], Finding]) -> Finding:
    try:
        return judge(gpu)
    except CannotJudgeError as error:
        return unknown(str(error))


def key(gpu: Gpu, fact: Fact) -> str:
    """Returns the name of a GPU's counter."""
    return f"{gpu.index} {fact}"


def _counters(gpus: tuple[Gpu, ...]) -> Iterator[tuple[str, int]]:
    for gpu in gpus:
        for fact in (Fact.ECC_CORRECTED, Fact.PCIE_REPLAYS, Fact.LINK_ERRORS):
            if fact in gpu.facts:
                value = gpu.facts[fact]
                yield key(gpu, fact), sum(value) if isinstance(value, tuple) else value


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
        return Gpu(index, lost=str(error))
    facts: dict[str, Any] = {}
    unread: dict[str, Refusal] = {}
    for fact, read in _READERS.items():
        try:
            facts[fact] = read(library, handle)
        except library.NVMLError as error:
            if error.value in LOST:
                return Gpu(index, name, uuid, lost=str(error))
            unread[fact] = _refusal(error)
    return Gpu(index, name, uuid, "", facts, unread)


def _refusal(error: Any) -> Refusal:
    return Refusal(error.value, str(error))


def _text(said: str | bytes) -> str:
    return said.decode() if isinstance(said, bytes) else said


def _ecc(kind: str) -> Callable[[Any, Any], Any]:
    return lambda library, handle: library.nvmlDeviceGetTotalEccErrors(
        handle, getattr(library, f"NVML_MEMORY_ERROR_TYPE_{kind}"), library.NVML_VOLATILE_ECC
    )


def _recovery(library: Any, handle: Any) -> int:
    value = library.nvmlDeviceGetFieldValues(handle, [library.NVML_FI_DEV_GET_GPU_RECOVERY_ACTION])[0]
    if value.nvmlReturn:
        raise library.NVMLError(value.nvmlReturn)
    return int(value.value.uiVal)


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


def _fabric(library: Any, handle: Any) -> tuple[int, int]:
    """Returns state and status of the GPU's registration with the fabric manager."""
    info = library.c_nvmlGpuFabricInfoV_t()
    library.nvmlDeviceGetGpuFabricInfoV(handle, info)
    return int(info.state), int(info.status)


_READERS: Mapping[Fact, Callable[[Any, Any], Any]] = {
    Fact.ECC_MODE: lambda library, handle: library.nvmlDeviceGetEccMode(handle)[0],
    Fact.ECC_UNCORRECTED: _ecc("UNCORRECTED"),
    Fact.ECC_CORRECTED: _ecc("CORRECTED"),
    Fact.REMAPPED: lambda library, handle: tuple(library.nvmlDeviceGetRemappedRows(handle)),
    Fact.RETIRED_PENDING: lambda library, handle: library.nvmlDeviceGetRetiredPagesPendingStatus(handle),
    Fact.RECOVERY: _recovery,
    Fact.LINKS: _link_states,
    Fact.LINK_ERRORS: _link_errors,
    Fact.THROTTLED: lambda library, handle: library.nvmlDeviceGetCurrentClocksThrottleReasons(handle),
    Fact.MAX_SM_CLOCK: lambda library, handle: library.nvmlDeviceGetMaxClockInfo(handle, library.NVML_CLOCK_SM),
    Fact.APPLICATION_CLOCK: lambda library, handle: library.nvmlDeviceGetApplicationsClock(
        handle, library.NVML_CLOCK_SM
    ),
    Fact.DEFAULT_CLOCK: lambda library, handle: library.nvmlDeviceGetDefaultApplicationsClock(
        handle, library.NVML_CLOCK_SM
    ),
    Fact.POWER_LIMIT: lambda library, handle: library.nvmlDeviceGetEnforcedPowerLimit(handle) // 1000,
    Fact.DEFAULT_POWER_LIMIT: lambda library, handle: library.nvmlDeviceGetPowerManagementDefaultLimit(handle) // 1000,
    Fact.TEMPERATURE: lambda library, handle: library.nvmlDeviceGetTemperature(handle, library.NVML_TEMPERATURE_GPU),
    Fact.SLOWDOWN_TEMPERATURE: lambda library, handle: library.nvmlDeviceGetTemperatureThreshold(
        handle, library.NVML_TEMPERATURE_THRESHOLD_SLOWDOWN
    ),
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
}


def recovery_action(code: int) -> Action | None:
    """Returns what to do by NVML's recovery action; None: nothing."""
    return RECOVERY.get(code, Action.CONTACT_SUPPORT) if code else None


RECOVERY: Mapping[int, Action] = {
    1: Action.RESET_GPU,
    2: Action.RESTART_BM,
    3: Action.DRAIN_AND_RESET,
    4: Action.DRAIN_AND_RESET,
}
"""nvml.h, NVML_GPU_RECOVERY_ACTION_…: GPU_RESET, NODE_REBOOT, DRAIN_P2P, DRAIN_AND_RESET."""
