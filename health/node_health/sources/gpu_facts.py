"""Facts about GPUs, and how a check judges all of them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from node_health.check import CannotJudgeError, DoesNotApplyError
from node_health.sources import nvidia_smi
from node_health.sources.counters import Increase
from node_health.verdict import Action, Finding, Verdict, passes, unknown, worst_of

INVALID_ARGUMENT, FUNCTION_NOT_FOUND, VERSION_MISMATCH, DEPRECATED = 2, 13, 25, 26
RESET_REQUIRED = 16
"""Error of a GPU that a reset brings back (nvml.h)."""
NOT_SUPPORTED = frozenset({3, INVALID_ARGUMENT, FUNCTION_NOT_FOUND, VERSION_MISMATCH, DEPRECATED})
"""Errors (nvml.h, nvmlReturn_t) about a fact that a GPU lacks, or that an older or newer driver does not know.

With driver 595 application clocks are deprecated: nvidia-smi says so of L40S and T4.
"""


class Fact(StrEnum):
    """Facts that are read of each GPU."""

    ECC_MODE = "ECC mode"
    ECC_UNCORRECTED = "uncorrected ECC errors"
    ECC_CORRECTED = "corrected ECC errors"
    SRAM_EXCEEDED = "threshold of SRAM errors"
    REMAPPED = "remapped rows"
    RETIRED_PENDING = "retired pages"
    RECOVERY = "recovery action"
    LINKS = "NVLink states"
    LINK_ERRORS = "NVLink errors"
    LINK_RECOVERIES = "NVLink recoveries"
    THROTTLED = "clock event reasons"
    MAX_SM_CLOCK = "highest SM clock"
    APPLICATION_CLOCK = "application clock"
    DEFAULT_CLOCK = "default application clock"
    POWER_LIMIT = "enforced power limit"
    DEFAULT_POWER_LIMIT = "default power limit"
    DEGREES_LEFT = "distance from the temperature of a slowdown"
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
    VIRTUALIZATION = "virtualization mode"


THROTTLES: Mapping[int, str] = {
    0x40: "too hot (hardware)",
    0x80: "the power supply brakes",
}
"""Bits of nvml.h's nvmlClocksEventReason…: HwThermalSlowdown, HwPowerBrakeSlowdown."""


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
        lost: NVML's error if it does not answer; None: it does.
        facts: fact → number or numbers.
        unread: fact → NVML's error, where it has none.
    """

    index: int
    name: str = ""
    uuid: str = ""
    lost: Refusal | None = None
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
        grew: increase of counters, named by the GPU's id and the fact.
        throttled: GPU's id → for how many seconds the hardware slows it down.
        hot: GPU's id → for how many seconds it is at the temperature of a slowdown.
        links_gone: names of NVLinks that were up in an earlier run of this pod, and are not now.
        idle: whether no job runs here; None: nobody knows.
    """

    gpus: tuple[Gpu, ...] = ()
    driver: str = ""
    failed: Refusal | None = None
    asked: nvidia_smi.Asked | None = None
    module: str = ""
    grew: Increase = field(default_factory=lambda: Increase({}))
    throttled: Mapping[str, float] = field(default_factory=dict)
    hot: Mapping[str, float] = field(default_factory=dict)
    links_gone: tuple[str, ...] = ()
    idle: bool | None = True

    @property
    def answering(self) -> tuple[Gpu, ...]:
        """The GPUs that are not lost."""
        return tuple(gpu for gpu in self.gpus if not gpu.lost)


def judged(snapshot: Snapshot, needs: Fact, judge: Callable[[Gpu], Finding]) -> Finding:
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
    if not (answering := snapshot.answering):
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
    """Returns the name of a GPU's counter. NVML's number is another one when a GPU before it falls off the bus."""
    return f"{gpu.uuid} {fact}"


def link_key(gpu: Gpu, number: int) -> str:
    """Returns the name of a GPU's NVLink."""
    return f"{gpu.uuid} {number}"


def recovery_action(code: int) -> Action | None:
    """Returns what to do by NVML's recovery action; None: nothing."""
    return RECOVERY.get(code, Action.CONTACT_SUPPORT) if code else None


RECOVERY: Mapping[int, Action] = {
    1: Action.RESET_GPU,
    2: Action.RESTART_BM,
    3: Action.DRAIN_AND_RESET,
    4: Action.DRAIN_AND_RESET,
    6: Action.RESET_GPU,
    7: Action.RESTART_BM,
}
"""nvml.h, NVML_GPU_RECOVERY_ACTION_…: GPU_RESET, NODE_REBOOT, DRAIN_P2P, DRAIN_AND_RESET, BUS_RESET, SYSTEM_REBOOT.

Between them is RECOVER_IMEX_DOMAIN, for which NVIDIA's Xid catalog has no word.
"""
