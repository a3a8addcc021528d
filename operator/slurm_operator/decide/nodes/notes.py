"""Reads what nodes have noted in their field Extra (contract/node_notes.py)."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from typing import Final

from contract.node_notes import BEGINNINGS, FAILED, QUIET
from contract.reasons import WARNING

_TIME: Final = r"[\dT:-]+Z"
_NOTE: Final = re.compile(
    rf"(?:{FAILED}(?P<check>[^,;]+), (?:well at (?P<well>{_TIME}), )?found at (?P<found>{_TIME})(?:; |$))?"
    rf"(?:{QUIET}(?P<quiet>\d+ since {_TIME}(?:, \d+ since {_TIME})*)(?:; |$))?"
    rf"(?:{WARNING}(?P<warned>.*))?",
    re.DOTALL,
)


@dataclasses.dataclass(frozen=True, slots=True)
class Note:
    """The note of a node.

    Attributes:
        check: the check that fails; empty if none does.
        well: time of the last run in which it did not fail, as of `date -u +%FT%TZ`; empty without one.
        found: time of the first run in which it failed.
        quiet: job → since when it is quiet on this node.
        warned: what checks warn of.
    """

    check: str = ""
    well: str = ""
    found: str = ""
    quiet: Mapping[int, str] = dataclasses.field(default_factory=dict)
    warned: str = ""


def read(extra: str) -> Note:
    """Read a node's Extra; what somebody else wrote there is an empty note."""
    said = _NOTE.match(extra)
    if not extra.startswith(BEGINNINGS) or said is None:
        return Note()
    pairs = (pair.split(" since ") for pair in (said["quiet"] or "").split(", ") if pair)
    jobs = {int(job): since for job, since in pairs}
    return Note(said["check"] or "", said["well"] or "", said["found"] or "", jobs, said["warned"] or "")
