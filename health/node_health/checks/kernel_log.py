"""Reads the kernel's messages about GPUs (Xid) and memory since boot, as far as its ring buffer reaches.

An unprivileged pod has no /dev/kmsg. Then no Xids are found, and the pod's cgroup tells about memory.
"""

import os
import re
from collections.abc import Iterable
from pathlib import Path

from node_health.verdict import Finding, Verdict

KMSG = Path("/dev/kmsg")
FATAL_XIDS = frozenset({48, 64, 79, 95, 110, 119, 120, 140})
"""Xids after which a GPU needs a reset or the machine a restart (NVIDIA, "Xid Errors").

Double bit error, row remapping failed, fallen off the bus; uncontained memory error, security fault; GSP timeout and
error, unrecovered memory error.
"""
LONGEST_RECORD = 8192
"""Buffer for one record: a read gives EINVAL when it is too small (Documentation/ABI/testing/dev-kmsg)."""

OUT_OF_MEMORY = (("memory.events.local", "oom"), ("memory/memory.oom_control", "oom_kill"))
"""File and key of the pod's cgroup, version 2, then 1. A job that reaches its own limit has a cgroup of its own."""

_XID = re.compile(r"NVRM: Xid \((?:PCI:)?([0-9a-fA-F:.]+)\): (\d+)")
_MACHINE_FULL = re.compile(r"\bOut of memory: Killed process")
"""Out of memory of the whole machine. A job at its own limit gives "Memory cgroup out of memory", which is no fault."""


def look(file: Path = KMSG) -> list[str] | str | None:
    """Returns the messages, or why they can't be read; None if the pod has no access to the log."""
    try:
        log = os.open(file, os.O_RDONLY | os.O_NONBLOCK)
    except FileNotFoundError:
        return None
    except OSError as error:
        return f"{file}: {error.strerror}"
    messages: list[str] = []
    with os.fdopen(log, "rb", buffering=0) as records:
        while True:
            try:
                record = os.read(records.fileno(), LONGEST_RECORD)
            except BrokenPipeError:  # The record was overwritten. The next read continues after it.
                continue
            except BlockingIOError:
                return messages
            if not record:
                return messages
            messages.append(record.decode(errors="replace").partition(";")[2])


def out_of_memory(cgroups: Path = Path("/sys/fs/cgroup")) -> int:
    """Returns how often the pod ran out of memory, 0 if its cgroup does not count that."""
    counts = [
        re.search(rf"^{key} (\d+)$", (cgroups / file).read_text(), re.MULTILINE)
        for file, key in OUT_OF_MEMORY
        if (cgroups / file).exists()
    ]
    return next((int(count[1]) for count in counts if count), 0)


def judge(messages: Iterable[str] | str | None, pod_full: int = 0) -> Finding:
    """FAIL after a fatal Xid, WARNING after another one or when the machine or the pod ran out of memory."""
    if isinstance(messages, str):
        return Finding(Verdict.UNKNOWN, f"the kernel's log can't be read ({messages})")
    seen = list(messages or ())
    xids = list(dict.fromkeys((int(match[2]), match[1]) for line in seen if (match := _XID.search(line))))
    if fatal := [f"Xid {xid} of GPU {gpu}" for xid, gpu in xids if xid in FATAL_XIDS]:
        return Finding(Verdict.FAIL, ", ".join(fatal))
    killed = sum(1 for line in seen if _MACHINE_FULL.search(line))
    told = [f"Xid {xid} of GPU {gpu}" for xid, gpu in xids]
    told += [f"the machine ran out of memory and killed {killed} processes"] if killed else []
    told += [f"the pod ran out of memory {pod_full} times"] if pod_full else []
    if told:
        return Finding(Verdict.WARNING, "; ".join(told))
    if messages is None:
        return Finding(Verdict.PASS, f"the pod never ran out of memory; nobody looks for Xids: it has no {KMSG}")
    return Finding(Verdict.PASS, f"{len(seen)} messages, none of harm")
