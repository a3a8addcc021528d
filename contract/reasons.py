"""Reasons that one program writes and another acts on: of drains in Slurm, and of conditions in Kubernetes."""

from enum import StrEnum
from typing import Final


class Check(StrEnum):
    """The health checks of a node, in the order in which they are told."""

    JAIL = "jail"
    SPACE = "space"
    MEMORY = "memory"
    CPUS = "cpus"
    GPUS = "gpus"
    KERNEL_LOG = "kernel log"
    USER_NAMESPACES = "user namespaces"


# Drains.
PREFIX: Final = "pulumi-slurm:"
"""Every drain reason of ours starts with it; only a drain that we set is ever lifted by us."""
SCALE_IN: Final = f"{PREFIX}scale-in"
UPDATE: Final = f"{PREFIX}update"
DEADLINE_PASSED: Final = ", its deadline has passed"
"""Ends the reason of a drain of ours once the node's jobs were taken from it."""
REPAIR: Final = f"{PREFIX}repair "
"""What the operator's drain for a repair begins with; the node's own reason follows, without its prefix."""
NEW: Final = f"{PREFIX}new"
"""What a node registers with: it takes no job before it is checked."""
NODE: Final = f"{PREFIX}node "
"""What the operator's drains on account of the Kubernetes node begin with."""
JAIL: Final = f"{PREFIX}jail"
"""What a node drains itself for while jail probes fail."""
HEALTH: Final = f"{PREFIX}health"
"""What drains for a failed check begin with; then a space and the check's name, a colon and the evidence."""
UNFIT: Final = (JAIL, f"{HEALTH} ")
"""What a node drains itself for; it lifts such a drain itself."""
HARDWARE: Final = tuple(f"{HEALTH} {check}: " for check in (Check.GPUS, Check.KERNEL_LOG, Check.MEMORY, Check.CPUS))
"""Health checks that speak of the machine; what the others find would be the same on another one."""
NOT_RESPONDING: Final = "Not responding"
"""Slurm's own reason of a node that went DOWN since it was silent: nobody's word."""
REBOOTS: Final = ("reboot issued", "reboot timed out", "reboot complete")
"""What Slurm adds to the reason of a node that `scontrol reboot` was asked for."""
WARNING: Final = f"{PREFIX}warning "
"""What a node's field Extra begins with: a warning of its health checks, which drains nothing."""
NO_PROBE_YET: Final = "no jail probe is done yet"

# Conditions.
CONFIGURATION_REFUSED: Final = "ConfigurationRefused"
"""slurmctld would not start with the wanted files; waiting does not repair it."""
UPDATE_PAUSED: Final = "UpdatePaused"
UPDATE_WAITS_FOR_JOBS: Final = "UpdateWaitsForJobs"
UPDATE_WAITS_FOR_WINDOW: Final = "UpdateWaitsForWindow"
UPDATE_FAILED: Final = "UpdateFailed"
"""A `pulumi up` ended before it had declared all."""
LEDGER_MISSING: Final = "LedgerMissing"
