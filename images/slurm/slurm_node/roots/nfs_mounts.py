"""Judges the options of an NFS mount for the jail: pure functions of a mount table."""

from collections.abc import Mapping
from pathlib import Path

from slurm_node.pod.system import points_of

KINDS = ("nfs", "nfs4")
SEEN_WITHIN_SECONDS = 5
"""The delay after which all nodes should see a program, user or file that one node makes."""
DEFAULT_CACHE_SECONDS = 60
"""The time for which a client caches attributes of files and folders that have not changed for long (nfs(5))."""
LOSES_TIMES = "4.2"
"""The version of NFS with which Linux 7.2, as client and server, lost times that a program had set (docs/nfs.md)."""
TIMES_LOST = (
    f"with NFS {LOSES_TIMES} a node of newer Linux may keep file times that a program sets, such as tar, from the"
    " server and other nodes: mount it with nfsvers=4.1"
)


def of(mountinfo: str, volume: Path) -> Mapping[str, str] | None:
    """Returns the options of the NFS mount at a path; None for another file system.

    Args:
        mountinfo: a mount table (proc_pid_mountinfo(5)).
        volume: where the volume is mounted; the last mount there counts.
    """
    result = None
    lines = [line for line in mountinfo.split("\n") if line]
    for point, line in zip(points_of(mountinfo), lines, strict=True):
        if point == volume:
            kind, _, options = line.partition(" - ")[2].split(" ", 2)
            words = (line.split(" ")[5] + "," + options).split(",")
            result = dict(_pair(word) for word in words) if kind in KINDS else None
    return result


def _pair(word: str) -> tuple[str, str]:
    name, _, value = word.partition("=")
    return name, value


def problems(options: Mapping[str, str]) -> list[str]:
    """Returns a sentence for each option that breaks a jail."""
    sentences = []
    if options.get("local_lock", "none") != "none" or "nolock" in options:
        sentences.append(
            "the jail's storage is mounted with nolock or local_lock, so two nodes can change one file at once: mount"
            " it without them"
        )
    if "soft" in options or "softerr" in options:
        sentences.append(
            "the jail's storage is mounted soft, so a slow server loses what jobs write: mount it with hard"
        )
    return sentences


def advice(options: Mapping[str, str]) -> list[str]:
    """Returns a sentence on changes of other nodes that these options show late, and one on times that they lose.

    Args:
        options: as the kernel shows them: it leaves out those with their default value (nfs(5)).
    """
    late = []
    # Measured: a client may remember absent names for longer than any of its cache times.
    if options.get("lookupcache", "all") == "all" and "noac" not in options:
        late.append("a name that it looked for in vain, such as a program, minutes later (lookupcache=positive)")
    if max(_seconds(options, "acregmax"), _seconds(options, "acdirmax")) > SEEN_WITHIN_SECONDS:
        late.append("the size and time of a changed file a minute later (actimeo=3)")
    sentences = [f"with these mount options of the jail's storage a node may see {' and '.join(late)}"] if late else []
    if options.get("vers") == LOSES_TIMES:
        sentences.append(TIMES_LOST)
    return sentences


def _seconds(options: Mapping[str, str], name: str) -> float:
    if "noac" in options:
        return 0
    value = options.get(name, "")
    return float(value) if value.isdecimal() else DEFAULT_CACHE_SECONDS
