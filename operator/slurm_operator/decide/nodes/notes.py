"""Reads what nodes have noted in their field Extra (contract/node_notes.py)."""

from __future__ import annotations

import dataclasses
import datetime
import re
from collections.abc import Mapping
from typing import Final

from contract.node_notes import BEGINNINGS, CHECKS, FAILED, MOST_CHECKS, QUIET
from contract.reasons import WARNING

_TIME: Final = r"[\dT:-]+Z"
_NOTE: Final = re.compile(
    rf"(?:{FAILED}(?P<check>[^,;]+), (?:well at (?P<well>{_TIME}), )?found at (?P<first_failed>{_TIME})(?:; |$))?"
    rf"(?:{QUIET}(?P<quiet>\d+ since {_TIME}(?:, \d+ since {_TIME})*)(?:; |$))?"
    rf"(?:{CHECKS}(?P<checks>[^;]+)(?:; |$))?"
    rf"(?:{WARNING}(?P<warned>.*))?",
    re.DOTALL,
)
_VERDICT: Final = re.compile(r"(WARNING|UNKNOWN|FAIL) ([a-z ]{1,40})(?:, |$)")
_TOOK: Final = re.compile(r"took (\d{1,2}) s(?: \(([a-z ]{1,40})\))?$")


@dataclasses.dataclass(frozen=True, slots=True)
class Note:
    """The note of a node.

    Attributes:
        check: the check that fails; empty if none does.
        well: time of the last run in which it did not fail; None without one.
        first_failed: time of the first run in which it failed; None if none does.
        quiet: job → since when it is quiet on this node.
        verdicts: check → verdict, of checks that did not pass.
        seconds: how long the longest run of late took; 0 if none was slow.
        slowest: the check that took longest in it; empty in the note of an earlier release.
        warned: what checks warn of.
    """

    check: str = ""
    well: datetime.datetime | None = None
    first_failed: datetime.datetime | None = None
    quiet: Mapping[int, datetime.datetime] = dataclasses.field(default_factory=dict)
    verdicts: Mapping[str, str] = dataclasses.field(default_factory=dict)
    seconds: int = 0
    slowest: str = ""
    warned: str = ""


def read(extra: str) -> Note:
    """Read a node's Extra; what somebody else wrote there is an empty note."""
    said = _NOTE.match(extra) if extra.startswith(BEGINNINGS) else None
    if said is None:
        return Note()
    try:
        return _note(said)
    except ValueError:  # A job's number or a time that is none.
        return Note()


def _note(said: re.Match[str]) -> Note:
    pairs = (pair.split(" since ") for pair in (said["quiet"] or "").split(", ") if pair)
    jobs = {int(job): datetime.datetime.fromisoformat(since) for job, since in pairs}
    of_check = (said["check"] or "", _moment(said["well"]), _moment(said["first_failed"]))
    verdicts = {check: verdict for verdict, check in _VERDICT.findall(said["checks"] or "")[:MOST_CHECKS]}
    took = _TOOK.search(said["checks"] or "")
    slow = (int(took[1]), took[2] or "") if took else (0, "")
    return Note(*of_check, jobs, verdicts, *slow, said["warned"] or "")


def _moment(text: str | None) -> datetime.datetime | None:
    return datetime.datetime.fromisoformat(text) if text else None
