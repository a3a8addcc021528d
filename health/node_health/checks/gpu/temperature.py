"""Checks the GPUs' temperatures against those at which they slow down, as each GPU says it."""

from contract import reasons
from node_health import thresholds
from node_health.check import Applies, Check, DoesNotApplyError, Machine
from node_health.sources import gpu_facts, nvml
from node_health.sources.gpu_facts import Fact, Gpu, Snapshot
from node_health.verdict import Action, Finding, fails, passes, warns


def judge(snapshot: Snapshot, machine: Machine) -> Finding:
    """FAIL at the temperature of a slowdown, WARNING near it.

    Later drivers no longer say that temperature of GPUs since Ada (nvml.h, nvmlDeviceGetTemperatureThreshold). They say
    how far it is from its highest operating temperature, and at which distance it slows down.
    """
    try:
        return gpu_facts.judged(snapshot, Fact.SLOWDOWN_TEMPERATURE, _by_temperature)
    except DoesNotApplyError:
        return gpu_facts.judged(snapshot, Fact.SLOWDOWN_MARGIN, _by_margin)


def _by_margin(gpu: Gpu) -> Finding:
    """Judges T.Limit, as nvidia-smi calls it: an H100 slows down at -2, a B200 at -3 (nvidia-smi -q)."""
    now, slowdown = gpu.read(Fact.MARGIN), gpu.read(Fact.SLOWDOWN_MARGIN)
    if now <= slowdown:
        return fails(f"{gpu} is at or below T.Limit {slowdown} degrees Celsius, where it slows down")
    margin = thresholds.of().number("gpu.temperatureMargin")
    if now < slowdown + margin:
        return warns(f"{gpu} is within {margin:g} degrees of T.Limit {slowdown} degrees Celsius, where it slows down")
    return passes(f"T.Limit {now} degrees Celsius, slowdown at {slowdown}")


def _by_temperature(gpu: Gpu) -> Finding:
    now, slowdown = gpu.read(Fact.TEMPERATURE), gpu.read(Fact.SLOWDOWN_TEMPERATURE)
    if now >= slowdown:
        return fails(f"{gpu} is at or above {slowdown} degrees Celsius, where it slows down")
    margin = thresholds.of().number("gpu.temperatureMargin")
    if now > slowdown - margin:
        return warns(f"{gpu} is within {margin:g} degrees of {slowdown} degrees Celsius, where it slows down")
    return passes(f"{now} degrees Celsius, slowdown at {slowdown}")


CHECK = Check(
    reasons.Check.GPU_TEMPERATURE,
    nvml.look,
    judge,
    fails="a GPU is so hot that it slows down",
    warns="a GPU is nearly so hot",
    remedy="look at fans, filters and inlet temperature",
    action=Action.CHECK_MECHANICALS,
    applies=Applies.NVIDIA,
)
