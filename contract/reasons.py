"""Reasons that one program writes and another acts on: of drains in Slurm, and of conditions in Kubernetes."""

from enum import StrEnum
from typing import Final


class Check(StrEnum):
    """The health checks of a node, in the order of reports."""

    JAIL = "jail"
    SPACE = "space"
    MEMORY = "memory"
    CPUS = "cpus"
    GPUS = "gpus"
    KERNEL_LOG = "kernel log"
    USER_NAMESPACES = "user namespaces"


# Drains.
PREFIX: Final = "pulumi-slurm:"
"""Prefix of all our drain reasons. We lift only drains that have it."""
SCALE_IN: Final = f"{PREFIX}scale-in"
UPDATE: Final = f"{PREFIX}update"
DEADLINE_PASSED: Final = ", its deadline has passed"
"""End of our drain's reason once the node's jobs were taken from it."""
REPAIR: Final = f"{PREFIX}repair "
"""Start of the operator's reason of a drain for a repair. The node's own reason follows, without its prefix."""
NEW: Final = f"{PREFIX}new"
"""Reason with which a node registers: it takes no job before it is checked."""
NODE: Final = f"{PREFIX}node "
"""Start of the operator's reason of a drain because of the Kubernetes node."""
JAIL: Final = f"{PREFIX}jail"
"""A node's reason to drain itself while jail probes fail."""
HEALTH: Final = f"{PREFIX}health"
"""Start of the reason of a drain for a failed check: then come a space, the check's name, a colon and the finding."""
UNFIT: Final = (JAIL, f"{HEALTH} ")
"""Reasons for which a node drains itself. It lifts such drains itself."""
HARDWARE: Final = tuple(f"{HEALTH} {check}: " for check in (Check.GPUS, Check.KERNEL_LOG, Check.MEMORY, Check.CPUS))
"""Health checks whose fault lies in the Kubernetes node. Other checks would find the same on another one."""
NOT_RESPONDING: Final = "Not responding"
"""Slurm's own reason for a node that went DOWN because it did not respond. No person set it."""
REBOOTS: Final = ("reboot issued", "reboot timed out", "reboot complete")
"""The ending that Slurm adds to the reason of a node that `scontrol reboot` was asked for."""
WARNING: Final = f"{PREFIX}warning "
"""Start of a node's field Extra: a warning of its health checks, which drains nothing."""
NO_PROBE_YET: Final = "no jail probe is done yet"

# Conditions.
CONFIGURATION_REFUSED: Final = "ConfigurationRefused"
"""slurmctld would not start with the desired files. Waiting does not help."""
UPDATE_PAUSED: Final = "UpdatePaused"
UPDATE_WAITS_FOR_JOBS: Final = "UpdateWaitsForJobs"
UPDATE_WAITS_FOR_WINDOW: Final = "UpdateWaitsForWindow"
UPDATE_FAILED: Final = "UpdateFailed"
"""A `pulumi up` ended before it had declared everything."""
LEDGER_MISSING: Final = "LedgerMissing"
