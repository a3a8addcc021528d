"""Results of the last run, for the pod's entry, which drains, and for the prolog, which refuses jobs."""

import dataclasses
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from contract import reasons
from node_health import node
from node_health.verdict import Finding, Result, Verdict, worst

ENTRYS_OWN = reasons.Check.JAIL
"""The entry itself drains while this check fails, and sees its recovery before the next run."""


def as_json(results: Sequence[Result]) -> str:
    """All results with their overall verdict, as one JSON object."""
    checks = [{"check": result.check, **dataclasses.asdict(result.finding)} for result in results]
    return json.dumps({"verdict": worst(result.finding.verdict for result in results), "checks": checks})


def from_json(text: str) -> list[Result]:
    """Reads what `as_json` wrote."""
    return [
        Result(check["check"], Finding(Verdict(check["verdict"]), check["evidence"]))
        for check in json.loads(text)["checks"]
    ]


def write(results: Sequence[Result], file: Path = node.RESULTS, unfit: Path = node.UNFIT) -> None:
    """Writes the results, and the reason if the node must take no job."""
    why = [f"{cause}: {evidence}" for cause, evidence in drain_causes(results).items() if evidence is not None]
    if why:
        node.put(unfit, "; ".join(why) + "\n")
    else:
        unfit.unlink(missing_ok=True)
    node.put(file, as_json(results))


def warnings(results: Sequence[Result]) -> Mapping[str, str]:
    """Warnings, which never drain: check → evidence."""
    return {result.check: result.finding.evidence for result in results if result.finding.verdict is Verdict.WARNING}


def drain_causes(results: Sequence[Result]) -> Mapping[str, str | None]:
    """Causes of a drain: start of its reason → evidence, or None for a check that passed.

    A check with an unknown result is missing. It neither drains nor lifts a drain.
    """
    return {
        f"{reasons.HEALTH} {result.check}": result.finding.evidence if result.finding.verdict is Verdict.FAIL else None
        for result in results
        if result.check != ENTRYS_OWN and result.finding.verdict is not Verdict.UNKNOWN
    }
