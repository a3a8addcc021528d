"""NVIDIA's error numbers: their meaning, and what to do about them.

Facts: NVIDIA, "Analyzing Xid Errors with the Xid Catalog" (docs.nvidia.com/deploy/xid-errors), columns Description and
"Resolution Bucket (Immediate Action)". A workflow of several steps stands here as its first step.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from node_health.verdict import Action


@dataclass(frozen=True, slots=True)
class Xid:
    """One Xid: its meaning, and NVIDIA's immediate action."""

    meaning: str
    action: Action


XIDS: Mapping[int, Xid] = {
    13: Xid("graphics engine exception", Action.RESTART_APP),
    31: Xid("GPU memory page fault", Action.RESTART_APP),
    43: Xid("GPU stopped processing", Action.IGNORE),
    45: Xid("preemptive cleanup after other errors", Action.IGNORE),
    46: Xid("GPU stopped processing", Action.RESET_GPU),
    48: Xid("double bit ECC error", Action.RESET_GPU),
    54: Xid("auxiliary power is not connected", Action.CHECK_MECHANICALS),
    62: Xid("internal micro-controller halt", Action.RESET_GPU),
    63: Xid("memory remapping event", Action.IGNORE),
    64: Xid("memory remapping failure", Action.RESET_GPU),
    74: Xid("NVLink error", Action.RESET_GPU),
    79: Xid("GPU has fallen off the bus", Action.RESTART_BM),
    92: Xid("high rate of single bit ECC errors", Action.IGNORE),
    94: Xid("contained memory error", Action.RESTART_APP),
    95: Xid("uncontained memory error", Action.RESET_GPU),
    109: Xid("context switch timeout", Action.RESET_GPU),
    110: Xid("security fault", Action.RESET_GPU),
    119: Xid("GSP RPC timeout", Action.RESET_GPU),
    120: Xid("GSP error", Action.RESET_GPU),
    121: Xid("C2C error", Action.IGNORE),
    136: Xid("link training failed", Action.RESET_GPU),
    137: Xid("NVLink privilege error", Action.IGNORE),
    140: Xid("unrecovered ECC error", Action.RESET_GPU),
    143: Xid("GPU initialization error", Action.RESET_GPU),
    **{
        number: Xid(f"NVLink {unit} error", Action.RESET_GPU)
        for number, unit in zip(
            range(144, 151), ("SAW", "RLW", "TLW", "TREX", "NVLPW_CTRL", "NETIR", "MSE"), strict=True
        )
    },
    151: Xid("key rotation error", Action.RESTART_VM),
    154: Xid("recovery action changed", Action.IGNORE),
    155: Xid("NVLink error that software defines", Action.RESET_GPU),
    156: Xid("resource retirement event", Action.RESET_GPU),
    157: Xid("resource retirement failure", Action.IGNORE),
    158: Xid("fatal GPU timeout", Action.RESET_GPU),
}
"""The Xids that a person of a GPU cluster meets; another one is told with its number."""

JUDGED_ELSEWHERE = frozenset({74, 136, *range(144, 151), 155, 156})
"""Many are transient or do not stop the GPU: the checks `nvlink` and `gpu recovery action` see whether they lasted."""
_FATAL_ACTIONS = frozenset({Action.RESET_GPU, Action.RESTART_BM, Action.RESTART_VM, Action.CHECK_MECHANICALS})
FATAL = frozenset(number for number, xid in XIDS.items() if xid.action in _FATAL_ACTIONS) - JUDGED_ELSEWHERE
"""Xids after which a GPU computes nothing right until a reset or restart."""


def sentence(number: int) -> str:
    """Returns a number with its meaning."""
    known = XIDS.get(number)
    return f"Xid {number} ({known.meaning})" if known else f"Xid {number}"
