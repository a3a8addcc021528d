"""Reads what a long check's job reports in its Comment, and compares it with the job's end.

A report adds evidence to a verdict. It makes no failure a PASS, and drains nothing.
"""

from __future__ import annotations

import re
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from contract import check_reports

WARNING = "WARNING: "
"""Start of the evidence of a node that passed with a warning."""
_Number = Annotated[float, Meta(ge=0, le=check_reports.LARGEST)]


class Report(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A report that fits the schema in docs/long-check-report.schema.json."""

    verdict: Literal["PASS", "WARNING", "FAIL", "UNKNOWN"]
    measured: _Number | msgspec.UnsetType = msgspec.UNSET
    least: _Number | msgspec.UnsetType = msgspec.UNSET
    unit: Annotated[str, Meta(pattern=check_reports.UNIT)] | msgspec.UnsetType = msgspec.UNSET
    evidence: Annotated[str, Meta(pattern=check_reports.EVIDENCE)] | msgspec.UnsetType = msgspec.UNSET

    @property
    def passes(self) -> bool:
        """True for a verdict that goes with a job that completed. One below what it had to reach is no PASS."""
        if self.verdict == "PASS" and self.measured is not msgspec.UNSET and self.least is not msgspec.UNSET:
            return self.measured >= self.least
        return self.verdict in ("PASS", "WARNING")

    @property
    def words(self) -> str:
        """Return the evidence as words such as `215 GB/s of at least 400; the slowest of 8 GPUs`."""
        parts = []
        if self.measured is not msgspec.UNSET:
            unit = "" if self.unit is msgspec.UNSET else f" {self.unit}"
            least = "" if self.least is msgspec.UNSET else f" of at least {self.least:.10g}"
            parts.append(f"{self.measured:.10g}{unit}{least}")
        return "; ".join([*parts, *([] if self.evidence is msgspec.UNSET else [self.evidence])])


def read(comment: str) -> Report | str | None:
    """Return the report in a job's Comment; None without one, and why it is refused, which quotes nothing of it."""
    if not comment.startswith("{"):
        return None
    if len(comment.encode(errors="replace")) > check_reports.MOST_BYTES:
        return f"it has more than {check_reports.MOST_BYTES} bytes"
    try:
        return msgspec.json.decode(comment, type=Report)
    except msgspec.ValidationError as error:
        at = re.search(rf"\$\.({'|'.join(Report.__struct_fields__)})`$", str(error))
        return f"{at[1] if at else 'a field'} is not as the schema says"
    except (msgspec.DecodeError, UnicodeError):
        return "it is no JSON"


def passed(report: Report | str | None) -> tuple[bool, str]:
    """Return whether a job that completed has passed, and what it reported."""
    if report is None:
        return True, ""
    if isinstance(report, str):
        return True, _refused(report)
    if not report.passes:
        return False, f"it exited with 0{_contradicts(report)}"
    return True, f"{WARNING if report.verdict == 'WARNING' else ''}{report.words}"


def beside(report: Report | str | None, verdict: str) -> str:
    """Return what a job that did not pass reported, as the end of a sentence.

    Args:
        report: what read() returned.
        verdict: what the job's end says, FAIL or UNKNOWN.
    """
    if report is None:
        return ""
    if isinstance(report, str):
        return f"; {_refused(report)}"
    if report.verdict != verdict:
        return _contradicts(report)
    return f": {report.words}" if report.words else ""


def _contradicts(report: Report) -> str:
    return f", though it reported {report.verdict}{f': {report.words}' if report.words else ''}"


def _refused(why: str) -> str:
    return f"its report counts for nothing: {why}"
