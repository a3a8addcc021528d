"""The pod's mount table (proc(5), /proc/self/mountinfo)."""

import re
from dataclasses import dataclass

from node_health.check import Machine

MOUNTINFO = "/proc/self/mountinfo"
_OCTAL = re.compile(r"\\([0-7]{3})")


@dataclass(frozen=True, slots=True)
class Mount:
    """A mount: where, its type, and its options and those of its file system."""

    point: str
    kind: str
    options: frozenset[str]


def look(machine: Machine) -> dict[str, Mount]:
    """Returns the mounts by mount point; of several on one point the last, which is seen."""
    mounts: dict[str, Mount] = {}
    for line in machine.text(MOUNTINFO).splitlines():
        before, _, after = line.partition(" - ")
        fields, rest = before.split(), after.split()
        point = _OCTAL.sub(lambda match: chr(int(match[1], 8)), fields[4])
        options = frozenset([*fields[5].split(","), *rest[-1].split(",")])
        mounts[point] = Mount(point, rest[0], options)
    return mounts
