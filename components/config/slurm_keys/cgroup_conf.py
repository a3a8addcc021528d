"""Each key of cgroup.conf: which key or cgroupOptions sets it, why this program does, or why nobody does."""

import re
from typing import Annotated, Final

from pydantic import AfterValidator, BeforeValidator

from components.config.slurm_keys.line_keys import LineKeys
from components.config.slurm_keys.slurm_options import quoted_text

_NO_SYSTEMD: Final = "there is no systemd in a pod"
_LIMITED: Final = "every job here has a limit of memory (SelectTypeParameters=CR_Core_Memory)"

KEYS: Final = LineKeys(
    of="cgroup.conf",
    at="slurm",
    typed={"CgroupPlugin": "cgroupPlugin", "ConstrainCores": "constrainCores"},
    owned={
        "CgroupMountpoint": "a pod has its groups at /sys/fs/cgroup",
        "CgroupSlice": _NO_SYSTEMD,
        "IgnoreSystemd": _NO_SYSTEMD,
        "IgnoreSystemdOnFailure": _NO_SYSTEMD,
        "SystemdTimeout": _NO_SYSTEMD,
        "EnableControllers": "slurmd itself hands controllers to the groups of jobs",
        "EnableExtraControllers": "nodeSets[].resources.processes needs the controller pids",
        "ConstrainRAMSpace": "a job could end its whole node without it; see slurm.cgroupPlugin",
        "ConstrainDevices": "it is set where a node set has GPUs",
    },
    refused={
        "AllowedRAMSpace": "jobs would get more or less memory than slurmctld gave them, and more ends the whole pod",
        "MaxRAMPercent": _LIMITED,
        "MaxSwapPercent": _LIMITED,
    },
    allowed=(
        "AllowedSwapSpace",
        "CgroupJobIdPaths",
        "ConstrainSwapSpace",
        "MemorySwappiness",
        "MinRAMSpace",
        "SignalChildrenProcesses",
    ),
    retired={
        "TaskAffinity": "slurm.options.TaskPlugin: task/affinity does what it did",
        **dict.fromkeys(
            (
                *("AllowedDevicesFile", "AllowedKmemSpace", "CgroupAutomount", "CgroupReleaseAgentDir"),
                *("ConstrainKmemSpace", "MaxKmemPercent", "MinKmemSpace"),
            ),
            "nothing is in its place",
        ),
    },
)

_YES_OR_NO: Final = "yes or no, in quotes"
_WORDS: Final = {
    "AllowedSwapSpace": (r"\d+(\.\d+)?", "a percentage such as 50 or 50.5"),
    "MemorySwappiness": (r"\d|[1-9]\d|100", "a whole number from 0 to 100"),
    "MinRAMSpace": (r"[1-9]\d{0,5}", "a whole number of MiB"),
}
"""Key → what its whole value matches, and what that is in words. The other keys take yes or no."""


def refusal(name: str, value: str) -> str:
    """Return what a value of a key has to be; empty if this one is right."""
    pattern, want = _WORDS.get(name, ("yes|no", _YES_OR_NO))
    return "" if re.fullmatch(pattern, value) else want


OptionName = Annotated[str, AfterValidator(KEYS.check)]
OptionValue = Annotated[str, BeforeValidator(quoted_text)]
