"""The kernel's messages since boot, as far as its ring buffer reaches. An unprivileged pod has no /dev/kmsg."""

import os
import re
import stat
from dataclasses import dataclass

from node_health.check import DoesNotApplyError, Machine

KMSG = "/dev/kmsg"
LONGEST_RECORD = 8192
"""Buffer for one record: a read gives EINVAL when it is too small (Documentation/ABI/testing/dev-kmsg)."""


OUT_OF_MEMORY = (
    ("/sys/fs/cgroup/memory.events.local", "oom"),
    ("/sys/fs/cgroup/memory/memory.oom_control", "oom_kill"),
)
"""File and key of the pod's cgroup, version 2, then 1. A job that reaches its own limit has a cgroup of its own."""


@dataclass(frozen=True, slots=True)
class Message:
    """A record of the log: what it says, and when it was written, in seconds since boot."""

    text: str
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Log:
    """The log.

    Attributes:
        messages: the records; None if the pod has no access to the log.
        refused: why a log that is there can't be read.
        uptime: seconds since boot.
        pod_full: how often the pod ran out of memory.
    """

    messages: tuple[Message, ...] | None = ()
    refused: str = ""
    uptime: float = 0.0
    pod_full: int = 0

    @property
    def read(self) -> tuple[Message, ...]:
        """The messages.

        Raises:
            DoesNotApplyError: the pod has no access to the log.
            OSError: it can't be read.
        """
        if self.refused:
            raise OSError(self.refused)
        if self.messages is None:
            raise DoesNotApplyError(f"the pod has no {KMSG}")
        return self.messages

    def recent(self, seconds: float) -> tuple[Message, ...]:
        """The messages of the last seconds."""
        return tuple(message for message in self.read if self.uptime - message.seconds <= seconds)


def look(machine: Machine) -> Log:
    """Reads all records."""
    try:
        log = os.open(machine.path(KMSG), os.O_RDONLY | os.O_NONBLOCK)
    except FileNotFoundError:
        return Log(None, pod_full=out_of_memory(machine))
    except OSError as error:
        return Log((), f"the kernel's log can't be read ({KMSG}: {error.strerror})")
    try:
        # A file stands for the device in a fake tree: a read of it ends in the middle of a line.
        records = _records(log) if stat.S_ISCHR(os.fstat(log).st_mode) else _lines(log)
    finally:
        os.close(log)
    return Log(tuple(_message(record) for record in records), "", _uptime(machine), out_of_memory(machine))


def out_of_memory(machine: Machine) -> int:
    """Returns how often the pod ran out of memory, 0 if its cgroup does not count that."""
    counts = [
        re.search(rf"^{key} (\d+)$", machine.text(file), re.MULTILINE)
        for file, key in OUT_OF_MEMORY
        if machine.path(file).exists()
    ]
    return next((int(count[1]) for count in counts if count), 0)


def _records(log: int) -> list[bytes]:
    records: list[bytes] = []
    while True:
        try:
            record = os.read(log, LONGEST_RECORD)
        except BrokenPipeError:  # The record was overwritten. The next read continues after it.
            continue
        except BlockingIOError:
            return records
        if not record:
            return records
        records.append(record)


def _lines(log: int) -> list[bytes]:
    with os.fdopen(os.dup(log), "rb") as file:
        return file.read().splitlines()


def _message(record: bytes) -> Message:
    # "6,1234,5678901,-;text": level, sequence, microseconds since boot, flags.
    facts, _, text = record.decode(errors="replace").partition(";")
    fields = facts.split(",")
    micros = int(fields[2]) if len(fields) > 2 and fields[2].isdigit() else 0
    return Message(text.partition("\n")[0], micros / 1e6)


def _uptime(machine: Machine) -> float:
    try:
        return float(machine.text("/proc/uptime").split()[0])
    except (OSError, ValueError):
        return 0.0
