"""PropagateResourceLimits and PropagateResourceLimitsExcept: limits that jobs take from where they are submitted."""

from typing import Final

LIMITS: Final = ("AS", "CORE", "CPU", "DATA", "FSIZE", "MEMLOCK", "NOFILE", "NPROC", "RSS", "STACK")
_KNOWN: Final = f"(known: {', '.join(LIMITS)})"
_WANT: Final = {
    "propagateresourcelimits": f"ALL, NONE, or limits such as NOFILE,STACK {_KNOWN}",
    # This program's limits are added to it, and Slurm reads ALL and NONE only where they stand alone.
    "propagateresourcelimitsexcept": f"limits such as MEMLOCK {_KNOWN}; PropagateResourceLimits: NONE propagates none",
}
"""Key in lower case → what it takes."""
_ALONE: Final = {"propagateresourcelimits": ("ALL", "NONE")}


def refusal(key: str, value: str) -> str:
    """Return what a value has to be; empty if Slurm reads it, or the key is another one.

    Slurm reads names in upper case alone (parse_rlimits of slurm_rlimits_info.c).
    """
    names = (word.removeprefix("RLIMIT_") for word in value.split(","))
    is_right = key not in _WANT or value in _ALONE.get(key, ()) or all(name in LIMITS for name in names)
    return "" if is_right else _WANT[key]
