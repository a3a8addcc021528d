"""What the last run found, for the pod's entry, which drains, and for the prolog, which refuses."""

import dataclasses
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from contract import reasons
from node_health import node
from node_health.verdict import Finding, Result, Verdict, worst

ENTRYS_OWN = reasons.Check.JAIL
"""The entry drains for it by itself, and knows sooner than the next run when it works again."""


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
    """Writes the results down, and why the node takes no job, if it must not."""
    why = [f"{cause}: {evidence}" for cause, evidence in drain_causes(results).items() if evidence is not None]
    if why:
        node.put(unfit, "; ".join(why) + "\n")
    else:
        unfit.unlink(missing_ok=True)
    node.put(file, as_json(results))


def warnings(results: Sequence[Result]) -> Mapping[str, str]:
    """What is told and never drains: check → evidence."""
    return {result.check: result.finding.evidence for result in results if result.finding.verdict is Verdict.WARNING}


def drain_causes(results: Sequence[Result]) -> Mapping[str, str | None]:
    """What speaks for a drain: what its reason begins with, and the evidence; None for a check that passed.

    A check of which nothing is known is missing: it neither drains nor lifts a drain.
    """
    return {
        f"{reasons.HEALTH} {result.check}": result.finding.evidence if result.finding.verdict is Verdict.FAIL else None
        for result in results
        if result.check != ENTRYS_OWN and result.finding.verdict is not Verdict.UNKNOWN
    }
