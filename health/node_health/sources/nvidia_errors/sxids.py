"""Error numbers of NVSwitches up to Hopper's: their meaning, and what to do about them.

Facts: NVIDIA, "Fabric Manager for NVIDIA NVSwitch Systems" (DU-09883-001), its appendix of SXid errors. Whether one is
fatal stands in the driver's message. NVSwitches of Blackwell give Xids 144 to 150 in their place.
"""

from collections.abc import Mapping

from node_health.verdict import Action

_SINGLE_BIT = (
    11012, *range(11021, 11024), 12021, 12023, 15008, 15011, 19049, *range(19055, 19060, 2), *range(19062, 19072, 3),
)  # fmt: skip
_DOUBLE_BIT = (
    11013, *range(11018, 11020), 12022, 12024, 15009, 15012, 19047, 19048, 19054, 19056, 19058, 19060, 19061,
    19063, 19064, 19066, 19067, 19069, 19070, *range(24004, 24007),
)  # fmt: skip

MEANINGS: Mapping[int, str] = {
    **dict.fromkeys((*_SINGLE_BIT, *range(24001, 24004)), "corrected single bit ECC error"),
    **dict.fromkeys(_DOUBLE_BIT, "double bit ECC error"),
    **dict.fromkeys((11020, 12030, 15010), "parity error of control or route"),
    **dict.fromkeys((12025, 12031, 15013), "error of egress or route credits"),
    **dict.fromkeys(range(23001, 23018), "ingress or egress protocol error"),
    10001: "host privilege error",
    10002: "host privilege timeout",
    10003: "unhandled host interrupt",
    10004: "too hot",
    10005: "no longer too hot",
    11001: "invalid ingress command",
    11004: "invalid ingress ACL",
    11009: "invalid ingress VC set",
    12001: "egress crossbar overflow",
    12002: "wrong route of an egress packet",
    12020: "egress sequence error",
    12026: "wrong egress request",
    12027: "wrong egress response",
    12028: "egress privilege error",
    12032: "egress flit type mismatch",
    14017: "TS ATO timeout",
    15001: "route buffer overflow",
    15006: "route transaction overflow",
    19084: "heartbeat timeout",
    20001: "NVLink replay",
    20009: "rate of short NVLink errors",
    20012: "broken or inconsistent NVLink",
    20034: "NVLink went down",
    22003: "Minion halt",
    22011: "Minion error",
    22012: "Minion link NA interrupt",
    22013: "Minion link DLREQ interrupt",
    24007: "source tracking timeout",
}
"""The SXids of the guide; another one is told with its number."""
_ACTIONS: Mapping[int, Action] = {
    10003: Action.RESTART_BM,
    10004: Action.CHECK_MECHANICALS,
    11004: Action.RESTART_VM,
    12028: Action.RESTART_VM,
    19084: Action.RESTART_BM,
    20012: Action.CHECK_MECHANICALS,
    22012: Action.CHECK_MECHANICALS,
}
"""Actions of SXids that the driver may call non-fatal. "Reset all GPUs and NVSwitches" is a restart of the machine."""


def action(number: int, fatal: bool) -> Action:
    """Returns what to do: after a fatal one all GPUs and NVSwitches need a reset."""
    return Action.RESTART_BM if fatal else _ACTIONS.get(number, Action.IGNORE)


def sentence(number: int) -> str:
    """Returns a number with its meaning."""
    return f"SXid {number} ({MEANINGS[number]})" if number in MEANINGS else f"SXid {number}"
