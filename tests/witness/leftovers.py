"""Processes that the witnesses of a walk left behind, as this machine sees them, whatever pod they are in."""

from __future__ import annotations

import os
import re
import select
import signal
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

PROCESSES = Path("/proc")
END_SECONDS = 10


@dataclass(frozen=True)
class Left:
    """A process.

    Args:
        number: as this machine counts.
        space: the namespace of its processes, as /proc/PID/ns/pid reads.
        label: of the line that began it, if it shows one.
        name: of its program.
    """

    number: int
    space: str
    label: str
    name: str

    def __str__(self) -> str:
        return f"{self.label or 'a witness without a label'}: {self.name} lives in {self.space}"


@dataclass(frozen=True)
class Leftovers:
    """A walk's processes: those with its mark, and all of the witness's own programs.

    A process shows the mark by its environment or by its command line. Not every option of Slurm's leaves one of them,
    and none changes which program it is.

    Args:
        seed: begins each label of the walk.
        programs: the witness's, as this machine sees them.
    """

    seed: int
    programs: Sequence[Path]

    def found(self, but_in: Collection[str] = ()) -> list[Left]:
        """Those that live.

        Args:
            but_in: namespaces of processes in which they may.
        """
        files = {_identity(program) for program in self.programs if program.exists()}
        return [each for each in self._all(files) if each.space not in but_in]

    def end(self) -> None:
        """Kills them all, and returns when they have ended."""
        for each in self.found():
            with suppress(ProcessLookupError):
                process = os.pidfd_open(each.number)
                signal.pidfd_send_signal(process, signal.SIGKILL)
                select.select([process], [], [], END_SECONDS)
                os.close(process)

    def _all(self, files: Collection[tuple[int, int]]) -> Iterator[Left]:
        mark = re.compile(rb"(?:^|\0)(?:WITNESS|label)=(%d-[^\0]*)" % self.seed)
        for folder in PROCESSES.glob("[0-9]*"):
            with suppress(OSError):  # It has ended meanwhile, or is the kernel's.
                shown = mark.search((folder / "environ").read_bytes() + b"\0" + (folder / "cmdline").read_bytes())
                if shown or _identity(folder / "exe") in files:
                    label = shown[1].decode(errors="replace") if shown else ""
                    space = str((folder / "ns/pid").readlink())
                    yield Left(int(folder.name), space, label, (folder / "comm").read_text().strip())


def _identity(file: Path) -> tuple[int, int]:
    facts = file.stat()
    return facts.st_dev, facts.st_ino
