"""Checks the GPUs' PCIe links: width, generation and replays."""

from contract import reasons
from node_health import thresholds
from node_health.check import Applies, Check, Machine
from node_health.sources import gpu_facts, nvml
from node_health.sources.gpu_facts import Fact, Gpu, Snapshot
from node_health.verdict import Action, Finding, fails, passes, warns

FULL_SPEED = 0
"""Performance state P0. In another one the link saves power: its generation and its lanes say nothing (nvidia-smi(1),
"Current")."""


def judge(snapshot: Snapshot, machine: Machine) -> Finding:
    """FAIL when lanes are missing, WARNING in a narrow slot, at a lower generation or many replays.

    In some clouds all GPUs have fewer lanes than NVML counts: L40S and T4 of AWS have 8 of 16.
    """
    most_lanes: dict[str, int] = {}
    for gpu in snapshot.answering:
        most_lanes[gpu.name] = max(most_lanes.get(gpu.name, 0), gpu.facts.get(Fact.PCIE_WIDTH, 0))

    def one(gpu: Gpu) -> Finding:
        width, generation = gpu.read(Fact.PCIE_WIDTH), gpu.read(Fact.PCIE_GENERATION)
        works = gpu.read(Fact.PERFORMANCE_STATE) == FULL_SPEED
        if width < gpu.read(Fact.MAX_PCIE_WIDTH):
            told = f"{gpu}: {width} of {gpu.read(Fact.MAX_PCIE_WIDTH)} PCIe lanes"
            return fails(told) if works and width < most_lanes[gpu.name] else warns(told)
        product = thresholds.of(gpu.name)
        if width < product.number("gpu.pcieWidth"):
            # NVML counts the lanes of the slot as the most, so a narrow slot is how the machine was built.
            return warns(f"{gpu}: {width} PCIe lanes, {gpu.name} has {product.number('gpu.pcieWidth'):g}")
        least = min(gpu.read(Fact.MAX_PCIE_GENERATION), product.number("gpu.pcieGeneration"))
        if works and generation < least:
            return warns(f"{gpu}: PCIe generation {generation}, not {least:g}")
        most = thresholds.of().number("gpu.pcieReplays")
        if snapshot.grew.per_hour(gpu_facts.key(gpu, Fact.PCIE_REPLAYS)) > most:
            return warns(f"{gpu}: more than {most:g} PCIe replays an hour")
        return passes(f"{width} PCIe lanes")

    return gpu_facts.judged(snapshot, Fact.PCIE_WIDTH, one)


CHECK = Check(
    reasons.Check.GPU_PCIE,
    nvml.look,
    judge,
    fails="a GPU under load has fewer PCIe lanes than its slot and than another one here",
    warns="it has fewer lanes than its slot or its product, or runs at a lower generation under load, or replays many "
    "packets",
    remedy="seat the GPU anew; look at risers and the machine's BIOS",
    action=Action.CHECK_MECHANICALS,
    applies=Applies.NVIDIA,
)
