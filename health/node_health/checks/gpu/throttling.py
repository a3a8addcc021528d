"""Checks why the GPUs' clocks are low right now."""

from collections.abc import Mapping

from contract import reasons
from node_health import thresholds
from node_health.check import Applies, Check, Machine
from node_health.sources import gpu_facts, nvml
from node_health.sources.gpu_facts import Fact, Gpu, Snapshot
from node_health.verdict import Action, Finding, fails, passes, warns

MILD: Mapping[int, str] = {0x20: "too hot (software)", 0x08: "hardware slowdown"}
"""Bits of nvml.h's nvmlClocksEventReason…: SwThermalSlowdown, HwSlowdown.

The last one has a bit beside it for heat and the power supply. Alone it may also stand for a change of clocks.
"""


def judge(snapshot: Snapshot, machine: Machine) -> Finding:
    """FAIL when heat or the power supply has the hardware slow a GPU down for long, WARNING for less.

    A peak of the load may do that for a moment, on all machines whose power is capped together.
    """
    longest = thresholds.of().number("gpu.throttledSeconds")

    def one(gpu: Gpu) -> Finding:
        bits = gpu.read(Fact.THROTTLED)
        if told := [words for bit, words in gpu_facts.THROTTLES.items() if bits & bit]:
            slow = f"{gpu} is slowed down: {told[0]}"
            lasts = snapshot.throttled.get(gpu.uuid, 0.0) >= longest
            return fails(f"{slow}, for more than {longest:g} s") if lasts else warns(slow)
        if told := [words for bit, words in MILD.items() if bits & bit]:
            return warns(f"{gpu} is slowed down: {told[0]}")
        return passes("not slowed down")

    return gpu_facts.judged(snapshot, Fact.THROTTLED, one)


CHECK = Check(
    reasons.Check.GPU_THROTTLING,
    nvml.look,
    judge,
    fails="the hardware slows a GPU down for long: heat or its power supply",
    warns="the same for a moment; the driver slows a GPU down for heat, or the hardware for a draw of power or a "
    "change of clocks",
    remedy="look at fans, filters, inlet temperature and power supplies",
    action=Action.CHECK_MECHANICALS,
    applies=Applies.NVIDIA,
)
