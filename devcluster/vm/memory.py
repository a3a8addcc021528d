"""Memory that a guest may have: what the machine has, limits of this process's control groups, mappings."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from devcluster.machine.progress import StepFailed, say

MEMINFO = Path("/proc/meminfo")
OWN_GROUPS = Path("/proc/self/cgroup")
HIERARCHIES = Path("/sys/fs/cgroup")
UNLIMITED = "max"
MOST_MAPPINGS = Path("/proc/sys/vm/max_map_count")
"""The kernel's setting: mappings that one process may have."""


@dataclass(frozen=True, slots=True)
class Bound:
    """A bound of the memory that a new process can take.

    Args:
        where: whose bound it is, after "memory".
        size: in bytes.
        advice: what somebody does who needs more.
    """

    where: str
    size: int
    advice: str


def bounds() -> Iterator[Bound]:
    """Yield the machine's bound, and that of each control group around this process that has one."""
    available = [line.split()[1] for line in MEMINFO.read_text().splitlines() if line.startswith("MemAvailable:")]
    for kibibytes in available:
        yield Bound("of this machine", int(kibibytes) << 10, "end other programs, or take a larger machine")
    for group, size in limits(OWN_GROUPS.read_text(), HIERARCHIES):
        yield Bound(f"of the control group {group}", size, "raise its limit (of a container: its memory)")


def limits(membership: str, hierarchies: Path) -> Iterator[tuple[Path, int]]:
    """Yield the control groups around a process that limit memory, each with its limit in bytes.

    Args:
        membership: the process's groups, as /proc/PID/cgroup has them (cgroups(7)).
        hierarchies: where they are mounted.
    """
    for row in membership.splitlines():
        _, controllers, path = row.split(":", 2)
        if "memory" in controllers.split(","):
            top, name = hierarchies / "memory", "memory.limit_in_bytes"
        elif not controllers:
            top, name = hierarchies, "memory.max"
        else:
            continue
        own = top / path.lstrip("/")
        # A container that sees its own group alone has it at the top, whatever the row says.
        for group in (own, *own.parents):
            file = group / name
            if group.is_relative_to(top) and file.is_file() and (limit := file.read_text().strip()) != UNLIMITED:
                yield group, int(limit)


def allow_mappings(wanted: int) -> None:
    """Raise this machine's bound of mappings if it is lower.

    A process of the guest is one of this machine. Each of its pages may be a mapping of its own there. Without room for
    another the guest's kernel tries the same page for ever.

    Raises:
        StepFailed: the bound is lower, and cannot be raised from here.
    """
    bound = int(MOST_MAPPINGS.read_text())
    if bound >= wanted:
        return
    try:
        MOST_MAPPINGS.write_text(str(wanted))
    except OSError as error:
        raise StepFailed(
            f"the guest takes {wanted} mappings for a process, and vm.max_map_count of this machine is {bound} "
            f"({error.strerror}): set it by `sysctl -w vm.max_map_count={wanted}`"
        ) from error
    say(f"  vm.max_map_count of this machine is {wanted} from now on (it was {bound}): the guest needs it")
