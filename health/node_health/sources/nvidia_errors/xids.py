"""NVIDIA's error numbers: their meaning, and what to do about them.

Facts: NVIDIA, "Analyzing Xid Errors with the Xid Catalog" (docs.nvidia.com/deploy/xid-errors), which goes to Xid 172.
The columns are Description and "Resolution Bucket (Immediate Action)". Numbers that it calls unused are left out. A
workflow of several steps stands here as its first step. Some of 162 to 172 have no action. Here they are IGNORE if its
text asks for none, else CONTACT_SUPPORT.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from node_health.verdict import Action


@dataclass(frozen=True, slots=True)
class Xid:
    """One Xid: its meaning, and NVIDIA's immediate action."""

    meaning: str
    action: Action


def _units(name: str, first: int, numbers: range | tuple[int, ...]) -> dict[int, str]:
    """Returns the meanings of errors of engines of one kind, which count on from the first."""
    return {number: f"{name}{unit} error" for unit, number in enumerate(numbers, first)}


_MEANINGS: Mapping[Action, Mapping[int, str]] = {
    Action.RESTART_APP: {
        8: "GPU stopped processing",
        11: "invalid or corrupted push buffer stream",
        13: "graphics engine exception",
        25: "invalid or illegal push buffer stream",
        31: "GPU memory page fault",
        32: "invalid or corrupted push buffer stream",
        **_units("copy engine ", 0, (39, 40, 41, 70, 71, 72, 75, 76, 77, 85, *range(126, 136))),
        60: "video processor exception",
        69: "graphics engine class error",
        80: "corrupted data sent to the GPU",
        **_units("NVDEC", 0, (68, 83, 84, 88, 89, 96, 97, 98)),
        **_units("NVJPG", 0, (82, *range(99, 106))),
        **_units("OFA", 0, (86, 139)),
        94: "contained memory error",
    },
    Action.RESET_GPU: {
        46: "GPU stopped processing",
        48: "double bit ECC error",
        62: "internal micro-controller halt",
        64: "memory remapping failure",
        74: "NVLink error",
        95: "uncontained memory error",
        109: "context switch timeout",
        110: "security fault",
        119: "GSP RPC timeout",
        120: "GSP error",
        136: "link training failed",
        140: "unrecovered ECC error",
        143: "GPU initialization error",
        144: "NVLink SAW error",
        145: "NVLink RLW error",
        146: "NVLink TLW error",
        147: "NVLink TREX error",
        148: "NVLink NVLPW_CTRL error",
        149: "NVLink NETIR error",
        150: "NVLink MSE error",
        155: "NVLink error that software defines",
        156: "resource retirement event",
        158: "fatal GPU timeout",
        159: "CHI non-data error of C2C",
    },
    Action.RESTART_BM: {79: "GPU has fallen off the bus"},
    Action.RESTART_VM: {151: "key rotation error"},
    Action.CHECK_MECHANICALS: {54: "auxiliary power is not connected"},
    Action.UPDATE_SWFW: {78: "vGPU start error"},
    Action.IGNORE: {
        14: "error that a program injected",
        37: "driver firmware error",
        38: "driver firmware error",
        43: "GPU stopped processing",
        44: "graphics engine fault during a context switch",
        45: "preemptive cleanup after other errors",
        63: "memory remapping event",
        66: "illegal access by the driver",
        67: "illegal access by the driver",
        92: "high rate of single bit ECC errors",
        93: "InfoROM's limit of erasures reached",
        106: "SMBPBI test message",
        107: "SMBPBI test message",
        121: "corrected C2C error",
        137: "NVLink privilege error",
        141: "CUDA fast path error",
        152: "DLA SMMU error",
        153: "DLA timeout",
        154: "recovery action changed",
        157: "resource retirement failure",
        160: "channel retirement event",
        161: "channel retirement failure",
        162: "power smoothing works again",
        163: "power smoothing stopped",
        171: "uncorrectable DRAM error, beside Xid 48",
        172: "uncorrectable SRAM error, beside Xid 48",
    },
    Action.CONTACT_SUPPORT: {
        142: "NVENC3 error",
        164: "power smoothing is nearly worn out",
        165: "power smoothing is worn out",
        166: "NVLink traffic before its encryption",
        167: "fatal PCIe timeout",
        168: "errors in write-protected memory",
        169: "SEC2 halt",
        170: "NVLink interrupt in confidential computing",
    },
}
XIDS: Mapping[int, Xid] = {
    number: Xid(meaning, action) for action, meanings in _MEANINGS.items() for number, meaning in meanings.items()
}
"""The Xids of the catalog; another one is told with its number."""

JUDGED_ELSEWHERE = frozenset({74, 136, *range(144, 151), 155, 156, 159})
"""Many are transient or do not stop the GPU: the checks `nvlink` and `gpu recovery action` see whether they lasted."""
_FATAL_ACTIONS = frozenset({Action.RESET_GPU, Action.RESTART_BM, Action.RESTART_VM, Action.CHECK_MECHANICALS})
FATAL = frozenset(number for number, xid in XIDS.items() if xid.action in _FATAL_ACTIONS) - JUDGED_ELSEWHERE
"""Xids after which a GPU computes nothing right until a reset or restart."""


def sentence(number: int) -> str:
    """Returns a number with its meaning."""
    known = XIDS.get(number)
    return f"Xid {number} ({known.meaning})" if known else f"Xid {number}"
