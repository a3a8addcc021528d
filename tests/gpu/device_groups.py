"""Control groups of their own whose processes may not open some device files, on either version of cgroups."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path

from devcluster.vm import device_programs

SECONDS = 60
IN_GROUP = 'echo $$ > "$0/cgroup.procs" && exec "$@"'
OPEN = 'for file in "$@"; do (: < "$file") 2>/dev/null && echo "$file"; done; true'


class Unavailable(Exception):
    """This machine can't have such a group; the text says why."""


class Kind(StrEnum):
    """The kernel refuses a device by a file of the controller, or by an eBPF program. Slurm uses both."""

    V1 = "cgroup v1"
    V2 = "cgroup v2"


class Group:
    """A group; what runs in it is bound by what was denied."""

    def __init__(self, kind: Kind, folder: Path) -> None:
        self._kind = kind
        self._folder = folder

    def deny(self, file: Path) -> None:
        """Refuses a device to the group's processes.

        Raises:
            Unavailable: the kernel refused it.
        """
        number = file.stat().st_rdev
        try:
            if self._kind is Kind.V2:
                device_programs.attach(device_programs.all_but(number), self._folder)
            else:
                (self._folder / "devices.deny").write_text(f"c {os.major(number)}:{os.minor(number)} rwm")
        except OSError as error:
            raise Unavailable(f"{self._kind}: {self._folder} takes no rule for devices: {error}") from error

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        """Runs a command in the group."""
        entered = ["sh", "-c", IN_GROUP, str(self._folder), *command]
        return subprocess.run(entered, capture_output=True, text=True, timeout=SECONDS, check=False)

    def opened(self, files: Sequence[Path]) -> list[Path]:
        """Returns those of some device files that open in the group."""
        done = self.run("sh", "-c", OPEN, "sh", *map(str, files))
        assert done.returncode == 0, done
        return [Path(line) for line in done.stdout.splitlines()]


@contextmanager
def make(kind: Kind) -> Iterator[Group]:
    """A group below this process's own hierarchy; it goes afterwards.

    Raises:
        Unavailable: there is no such hierarchy, or it takes no group.
    """
    folder = _hierarchy(kind) / f"pulumi-slurm-test-{os.getpid()}"
    try:
        folder.mkdir()
    except OSError as error:
        raise Unavailable(f"{kind}: no group can be made: {error}") from error
    try:
        yield Group(kind, folder)
    finally:
        folder.rmdir()


def _hierarchy(kind: Kind) -> Path:
    for line in Path("/proc/self/mounts").read_text().splitlines():
        _, point, system, options, *_ = line.split()
        if system == "cgroup2" if kind is Kind.V2 else system == "cgroup" and "devices" in options.split(","):
            return Path(point)
    raise Unavailable(f"{kind}: no hierarchy for devices is mounted here")
