"""The parts of a check: name, when it applies, how it looks and judges, and the remedy of a failure."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, TypeVar

from contract.reasons import Check as Name
from node_health.node import Declared
from node_health.verdict import Action, Finding

_T = TypeVar("_T")
SECONDS = 8.0
"""Longest time of a check, and of all together. The rest of 10 s is for the start and the output."""


class Applies(StrEnum):
    """Nodes that a check applies to, by their declaration."""

    NODES = "all nodes"
    GPUS = "nodes with GPUs"
    NVIDIA = "nodes with NVIDIA GPUs"
    RDMA = "nodes with RDMA devices"


class Context(StrEnum):
    """The moment at which a check runs. A prolog runs none: it would delay each job by a start of Python."""

    START = "start"
    PERIODIC = "periodic"
    EPILOG = "epilog"


ALWAYS = frozenset(Context)
WITHOUT_JOBS = frozenset({Context.START, Context.PERIODIC})
"""Not right after a job: its processes and files may still be on their way out."""


class DoesNotApplyError(Exception):
    """This machine lacks what the check looks at, and nobody declared that it has it."""


class CannotJudgeError(Exception):
    """Nobody can say whether this is well: the verdict is UNKNOWN, with the exception's words."""


@dataclass(frozen=True, slots=True)
class Machine:
    """The machine as a check may read it: the node's declaration, and files below one root.

    Attributes:
        declared: the node as the configuration declares it.
        root: folder in place of /, such as a fake tree.
        known: what was read in this run and this process already.
    """

    declared: Declared = Declared()  # noqa: RUF009 - one instance for all: Declared is frozen
    root: Path = Path("/")
    known: dict[Any, Any] = field(default_factory=dict, repr=False, compare=False)

    def path(self, absolute: str | Path) -> Path:
        """Returns the path below the root."""
        return self.root / str(absolute).lstrip("/")

    def once(self, look: Callable[["Machine"], _T]) -> _T:
        """Returns what a source reads, which is read once in a run and process."""
        if look not in self.known:
            self.known[look] = look(self)
        known: _T = self.known[look]
        return known

    def text(self, absolute: str | Path) -> str:
        """Returns a file's text without the white space around it.

        Raises:
            OSError: it can't be read.
        """
        return self.path(absolute).read_text(errors="replace").strip()


@dataclass(frozen=True, slots=True)
class Check:
    """One check.

    Attributes:
        name: its name in reports and in reasons of drains.
        look: reads the machine; checks with the same function share what it returned.
        judge: turns that into a finding.
        fails: what FAIL means; empty: it never fails.
        warns: what WARNING means; empty: it never warns.
        remedy: what a person does about it.
        action: the same in NVIDIA's words.
        applies: nodes that it applies to.
        contexts: when it runs.
        seconds: its time box.
        hang_seconds: for how long its question may hang in the kernel, which can't end it, before that is FAIL. Without
            an end where a hang is not this machine's fault, as with storage that all nodes share.
    """

    name: Name
    look: Callable[[Machine], Any]
    judge: Callable[[Any, Machine], Finding]
    fails: str
    warns: str
    remedy: str
    action: Action = Action.NONE
    applies: Applies = Applies.NODES
    contexts: frozenset[Context] = ALWAYS
    seconds: float = SECONDS
    hang_seconds: float = math.inf
