"""Reasons of drains in Slurm, which one program writes and another acts on."""

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
    WRITABLE = "writable"
    SUBMOUNTS = "submounts"
    SHARED_MEMORY = "shared memory"
    NVME = "nvme"
    MEMORY_ERRORS = "memory errors"
    IDLE_MEMORY = "idle memory"
    HUGEPAGES = "hugepages"
    CPU_GOVERNOR = "cpu governor"
    CPU_THROTTLING = "cpu throttling"
    CPU_STEAL = "cpu steal"
    CPU_PINNING = "cpu pinning"
    MACHINE_CHECKS = "machine checks"
    HUNG_TASKS = "hung tasks"
    DRIVE_ERRORS = "drive errors"
    LEFT_PROCESSES = "left processes"
    PROCESS_LIMIT = "process limit"
    CLOCK = "clock"
    DNS = "dns"
    CONTROLLER = "controller"
    NETWORK_STATE = "network state"
    NETWORK_SPEED = "network speed"
    NETWORK_ERRORS = "network errors"
    NETWORK_MTU = "network mtu"
    LINK_FLAPS = "link flaps"
    CGROUPS = "cgroups"
    VERSIONS = "versions"
    SITE_SCRIPTS = "site scripts"
    QUIET_JOBS = "quiet jobs"
    GPU_DRIVER = "gpu driver"
    GPU_MEMORY_ERRORS = "gpu memory errors"
    GPU_ROW_REMAPPING = "gpu row remapping"
    GPU_RECOVERY = "gpu recovery action"
    GPU_THROTTLING = "gpu throttling"
    GPU_CLOCKS = "gpu clocks"
    GPU_POWER = "gpu power"
    GPU_TEMPERATURE = "gpu temperature"
    GPU_PCIE = "gpu pcie"
    GPU_PERSISTENCE = "gpu persistence"
    GPU_PROCESSES = "gpu processes"
    GPU_MIG = "gpu mig"
    DCGM = "dcgm"
    NVLINK = "nvlink"
    NVLINK_ERRORS = "nvlink errors"
    GPU_FABRIC = "gpu fabric"
    GRES = "gres"
    IB_DEVICES = "infiniband devices"
    IB_STATE = "infiniband state"
    IB_RATE = "infiniband rate"
    IB_ERRORS = "infiniband errors"
    IB_FLAPS = "infiniband flaps"
    IB_PARTITIONS = "infiniband partitions"


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
UNTESTED: Final = f"{PREFIX}untested "
"""Start of the operator's reason of a drain until a long check passes for the first time. The check's name follows."""
NODE: Final = f"{PREFIX}node "
"""Start of the operator's reason of a drain because of the Kubernetes node."""
JAIL: Final = f"{PREFIX}jail"
"""A node's reason to drain itself while jail probes fail."""
HEALTH: Final = f"{PREFIX}health"
"""Start of the reason of a drain for a failed check: then come a space, the check's name, a colon and the finding."""
LONG_CHECK: Final = f"{HEALTH} long "
"""Start of the operator's reason of a drain for a failed long check: then come the check's name and the finding."""
UNFIT: Final = (JAIL, f"{HEALTH} ")
"""Reasons for which a node drains itself. It lifts such drains itself."""
HARDWARE: Final = tuple(
    f"{HEALTH} {check}: "
    for check in (
        Check.GPUS,
        Check.KERNEL_LOG,
        Check.MEMORY,
        Check.CPUS,
        Check.NVME,
        Check.MEMORY_ERRORS,
        Check.MACHINE_CHECKS,
        Check.NETWORK_STATE,
        Check.GPU_DRIVER,
        Check.GPU_MEMORY_ERRORS,
        Check.GPU_ROW_REMAPPING,
        Check.GPU_RECOVERY,
        Check.GPU_THROTTLING,
        Check.GPU_TEMPERATURE,
        Check.GPU_PCIE,
        Check.GPU_MIG,
        Check.DCGM,
        Check.NVLINK,
        Check.GPU_FABRIC,
        Check.GRES,
        Check.IB_DEVICES,
        Check.IB_STATE,
        Check.IB_RATE,
        Check.IB_FLAPS,
        Check.IB_PARTITIONS,
    )
)
"""Health checks whose fault lies in the Kubernetes node. Other checks would find the same on another one."""
NOT_RESPONDING: Final = "Not responding"
"""Slurm's own reason for a node that went DOWN because it did not respond. No person set it."""
REBOOT_TIMED_OUT: Final = "reboot timed out"
"""Slurm's own reason for a node that went DOWN because no slurmd registered after `scontrol reboot`."""
REBOOT_ISSUED: Final = "reboot issued"
REBOOT_COMPLETE: Final = "reboot complete"
"""Slurm's own reason for a node that is DOWN after `scontrol reboot nextstate=down`, as a person asked."""
REBOOTS: Final = (REBOOT_ISSUED, REBOOT_TIMED_OUT, REBOOT_COMPLETE)
"""The ending that Slurm adds to the reason of a node that `scontrol reboot` was asked for."""
_LOW = (
    r"gres/\S+ count reported lower than configured \(\d+ < \d+\)"
    r"|Low (socket\*core\*thread count|CPUs|TmpDisk|RealMemory \(reported:\d+ < [\d.]+% of configured:\d+\))"
)
LOW: Final = f"({_LOW})(, ({_LOW}))*"
"""Pattern of Slurm's reason for the drain of a node that registered with less than its record (validate_node_specs)."""
REBOOT_ASAP: Final = "Reboot ASAP"
"""Slurm's reason for the drain of `scontrol reboot ASAP`."""
WARNING: Final = f"{PREFIX}warning "
"""Start of a node's field Extra: a warning of its health checks, which drains nothing."""
NO_PROBE_YET: Final = "no jail probe is done yet"
UNCHECKED: Final = "could not be checked: "
"""Start of the evidence of a check that could not look, in a drain's reason and in Extra."""
