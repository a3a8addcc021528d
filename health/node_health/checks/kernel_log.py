"""What the kernel told of GPUs (Xid) and of memory since the machine started, as far as its ring buffer reaches.

A pod without privilege has no /dev/kmsg, and then nobody knows.
"""

import os
import re
from collections.abc import Iterable
from pathlib import Path

from node_health.verdict import Finding, Verdict

KMSG = Path("/dev/kmsg")
FATAL_XIDS = frozenset({48, 64, 79, 95, 110, 119, 120, 140})
"""After these a GPU needs a reset or the machine a restart: double bit error, row remapping failed, fallen off the bus,
uncontained memory error, security fault, GSP timeout and error, unrecovered memory error (NVIDIA, "Xid Errors")."""
LONGEST_RECORD = 8192
"""Documentation/ABI/testing/dev-kmsg: a read returns one record, or EINVAL when the buffer is too small."""

_XID = re.compile(r"NVRM: Xid \((?:PCI:)?([0-9a-fA-F:.]+)\): (\d+)")
_OUT_OF_MEMORY = re.compile(r"\bOut of memory: Killed process")
"""Of the whole machine. A job that reaches its own limit is "Memory cgroup out of memory", and is nobody's fault."""


def look(file: Path = KMSG) -> list[str] | str:
    """Returns the messages, or why they can't be read."""
    try:
        log = os.open(file, os.O_RDONLY | os.O_NONBLOCK)
    except OSError as error:
        return f"{file}: {error.strerror}"
    messages: list[str] = []
    with os.fdopen(log, "rb", buffering=0) as records:
        while True:
            try:
                record = os.read(records.fileno(), LONGEST_RECORD)
            except BrokenPipeError:  # Overwritten meanwhile; the next read goes on behind it.
                continue
            except BlockingIOError:
                return messages
            if not record:
                return messages
            messages.append(record.decode(errors="replace").partition(";")[2])


def judge(messages: Iterable[str] | str) -> Finding:
    """FAIL after a fatal Xid, WARNING after another one or when the machine ran out of memory."""
    if isinstance(messages, str):
        return Finding(Verdict.UNKNOWN, f"the kernel's log can't be read ({messages})")
    seen = list(messages)
    xids = list(dict.fromkeys((int(match[2]), match[1]) for line in seen if (match := _XID.search(line))))
    if fatal := [f"Xid {xid} of GPU {gpu}" for xid, gpu in xids if xid in FATAL_XIDS]:
        return Finding(Verdict.FAIL, ", ".join(fatal))
    killed = sum(1 for line in seen if _OUT_OF_MEMORY.search(line))
    told = [f"Xid {xid} of GPU {gpu}" for xid, gpu in xids]
    told += [f"the machine ran out of memory and killed {killed} processes"] if killed else []
    return (
        Finding(Verdict.WARNING, "; ".join(told))
        if told
        else Finding(Verdict.PASS, f"{len(seen)} messages, none of harm")
    )
