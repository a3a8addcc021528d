"""Checks the GPUs' temperatures against those at which they slow down, as each GPU says it."""

from contract import reasons
from node_health import thresholds
from node_health.check import Applies, Check, Machine
from node_health.sources import gpu_facts, nvml
from node_health.sources.gpu_facts import Fact, Gpu, Snapshot
from node_health.verdict import Action, Finding, fails, passes, warns


def judge(snapshot: Snapshot, machine: Machine) -> Finding:
    """FAIL when a GPU is for long at the temperature of a slowdown, WARNING for less and near it."""
    margin, longest = thresholds.of().number("gpu.temperatureMargin"), thresholds.of().number("gpu.throttledSeconds")

    def one(gpu: Gpu) -> Finding:
        left = gpu.read(Fact.DEGREES_LEFT)
        if left <= 0:
            hot = f"{gpu} is so hot that it slows down"
            lasts = snapshot.hot.get(gpu.uuid, 0.0) >= longest
            return fails(f"{hot}, for more than {longest:g} s") if lasts else warns(hot)
        if left < margin:
            return warns(f"{gpu} is within {margin:g} degrees Celsius of its slowdown")
        return passes(f"{left} degrees Celsius below its slowdown")

    return gpu_facts.judged(snapshot, Fact.DEGREES_LEFT, one)


CHECK = Check(
    reasons.Check.GPU_TEMPERATURE,
    nvml.look,
    judge,
    fails="a GPU is for long so hot that it slows down",
    warns="the same for a moment, or a GPU is nearly so hot",
    remedy="look at fans, filters and inlet temperature",
    action=Action.CHECK_MECHANICALS,
    applies=Applies.NVIDIA,
)
