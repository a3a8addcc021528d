"""Scenario files of fake GPUs: what the fake NVML, nvidia-smi and the programs of long checks answer.

devcluster/fakes/nvml/nvml.c says what stands in such a file. A mode of a GPU is named as NVIDIA's Mokka names it, where
it has the failure.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

_TOOLS: Final = Path(__file__).with_name("gpu_tools")
PROGRAMS: Final[Mapping[str, Path]] = {
    "nvidia-smi": Path(__file__).with_name("nvidia_smi"),
    **dict.fromkeys(("all_reduce_perf", "dcgmi", "gpu_burn", "ib_write_bw", "nvbandwidth"), _TOOLS),
}
"""Name of a program → its fake, which goes by that name. ibstat has none: checks read sysfs."""
PATH: Final = "/run/fake-gpus"
"""The scenario in a container; $FAKE_GPUS names another file."""
PATH_IN_JAIL: Final = "/etc/fake-gpus"
"""The one that fakes of programs find in a job, whose /run is its own."""
LINKS: Final = 18
"""NVLinks of a GPU that is well."""

MODES: Final[Mapping[str, Mapping[str, str]]] = {
    "healthy": {},
    "ecc_uncorrectable": {"uncorrected": "3"},
    "ecc_off": {"ecc": "0"},
    "sram_exceeded": {"sram_exceeded": "1"},
    "lost": {"lost": ""},
    "fallen_off_bus": {"gone": ""},
    "remap_failed": {"remapped": "0,8,0,1"},
    "remap_pending": {"remapped": "0,1,1,0"},
    "pages": {"remapped": "-", "retired": "0"},
    "page_pending": {"remapped": "-", "retired": "1"},
    "reset_required": {"recovery": "1"},
    "reboot_required": {"recovery": "2"},
    "bus_reset_required": {"recovery": "6"},
    "imex_broken": {"recovery": "5"},
    "nvlink_down": {"links": "1" * (LINKS - 1) + "0"},
    "nvlink_missing": {"links": "1" * (LINKS - 1)},
    "no_bridge": {"name": "NVIDIA H100 PCIe", "links": "0" * LINKS},
    "some_links": {"name": "NVIDIA H100 NVL", "links": "111100111100111100"},
    "nvlink5": {"link_errors": "-", "link_recoveries": "0"},
    "no_links": {"name": "NVIDIA X1", "links": ""},
    "thermal": {"throttled": "0x48"},
    "power_brake": {"throttled": "0x80"},
    "software_thermal": {"throttled": "0x20"},
    "hardware_slowdown": {"throttled": "0x8"},
    "slow_clock": {"application_clock": "1200"},
    "deprecated_clocks": dict.fromkeys(("application_clock", "default_clock"), "-26"),
    "low_max_clock": dict.fromkeys(("max_clock", "application_clock", "default_clock"), "1500"),
    "low_power": {"power": "400000"},
    "hot": {"temperature": "95"},
    "warm": {"temperature": "94"},
    "no_slowdown": {"slowdown": "-", "slowdown_margin": "-"},
    "later_driver": {"slowdown": "-"},
    "later_hot": {"slowdown": "-", "margin": "0xfffffffe"},
    "later_warm": {"slowdown": "-", "margin": "0"},
    "pcie_narrow": {"width": "8"},
    "narrow_slot": {"width": "8", "max_width": "8"},
    "pcie_slow": {"generation": "3"},
    "pcie_idle": {"state": "8", "width": "8", "generation": "1"},
    "not_persistent": {"persistence": "0"},
    "stray_process": {"processes": "2"},
    "not_in_fabric": {"fabric": "1,0"},
    "joins_fabric": {"fabric": "2,0"},
    "fabric_degraded": {"fabric": "3,0,0x1"},
    "fabric_misconfigured": {"fabric": "3,0,0x400"},
    "fabric_unhealthy": {"fabric": "3,0,0x10"},
    "mig": {"mig": "1,1"},
    "vgpu_of_mig": {"mig": "1,1", "virtualization": "2"},
    "mig_without_links": {"mig": "1,1", "links": "0" * LINKS},
    "mig_pending": {"mig": "0,1"},
    "restart_wanted": {"refused": "16"},
    "anothers": {"closed": "4"},
    "unreadable": {"refused": "999"},
    "other_product": {"name": "NVIDIA X1"},
    "old": dict.fromkeys(("recovery", "fabric", "mig", "application_clock"), "-"),
}
"""Mode → facts of a GPU in it; others are those of one that is well."""


def text(
    modes: Mapping[int, str] | None = None,
    *,
    gpus: int | None = None,
    init: int = 0,
    hangs: bool = False,
    after_calls: int | None = None,
    tools: Mapping[str, str] | None = None,
) -> str:
    """Return a scenario file.

    Args:
        modes: number of a GPU → its mode; others are well.
        gpus: number of GPUs; None: those whose device files the container has.
        init: code with which NVML refuses to start; 0: it starts.
        hangs: whether NVML never answers.
        after_calls: questions after which a GPU that is to be lost is so, as Mokka's `after_calls`.
        tools: name of a program → how it answers, as devcluster/fakes/gpu_tools says.

    Raises:
        KeyError: a mode has another name.
    """
    return "".join(f"{line}\n" for line in _lines(modes or {}, gpus, init, hangs, after_calls, tools or {}))


def _lines(
    modes: Mapping[int, str],
    gpus: int | None,
    init: int,
    hangs: bool,
    after_calls: int | None,
    tools: Mapping[str, str],
) -> Iterator[str]:
    if gpus is not None:
        yield f"gpus {gpus}"
    if init:
        yield f"init {init}"
    if hangs:
        yield "hangs"
    for number, mode in modes.items():
        for fact, value in MODES[mode].items():
            if after_calls is not None and fact in ("gone", "lost"):
                yield f"{number} lost_after {after_calls}"
            else:
                yield f"{number} {fact} {value}".rstrip()
    for name, answer in tools.items():
        yield f"tool {name} {answer}"
