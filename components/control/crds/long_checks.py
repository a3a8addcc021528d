"""The schema of long checks in SlurmClusters: what is declared, and the operator's ledger of their jobs."""

from typing import Final

from components.config.nodes.long_checks import CHECK_NAME, LEAST_EVERY_SECONDS, LongCheck
from components.control.crds.schema import INT32, INT64, TIME, Schema, described, limits, section, text

_OF: Final = LongCheck.model_fields
_NAME: Final = {**text(32), "pattern": f"^{CHECK_NAME}$"}
_NODES: Final = {"type": "array", "maxItems": 10_000, "items": text(64)}


def _listed(description: str, most: int, item: Schema) -> Schema:
    return {"description": description, "type": "array", "maxItems": most, "items": item}


def declared() -> Schema:
    """The schema of spec.longChecks."""
    share = _OF["share_percent"]
    check = {
        "name": {"description": _OF["name"].description, **_NAME},
        "partition": {"description": "Partition to which its jobs are submitted.", **text(63)},
        "nodeSets": _listed("Node sets whose nodes it tests.", 256, text(40)),
        "everySeconds": {
            "description": "Time between two checks of a node.",
            **INT64,
            "minimum": LEAST_EVERY_SECONDS,
        },
        "timeLimitMinutes": {"description": "Time limit of a job.", **INT32, "minimum": 1},
        "sharePercent": {"description": share.description, **INT32, **limits(share)},
        "drains": described("boolean", "Whether a node that fails is drained."),
        "script": {"description": "Batch script of its jobs.", **text(16_384)},
    }
    return _listed("Jobs that test idle nodes.", 16, section("", check, list(check)))


def told() -> Schema:
    """The schema of status.longChecks."""
    job = {
        "id": {"description": "Slurm's id.", **INT64},
        "node": text(64),
        "submitted": TIME,
        "failed": described("string", "Why it failed, from then on until its node is drained for it."),
    }
    checked = {
        "at": TIME,
        "verdict": {"type": "string", "enum": ["PASS", "FAIL", "UNKNOWN", "NONE"]},
        "nodes": _NODES,
    }
    counts = "Verdicts until now: verdict → number of jobs."
    row = {
        "name": _NAME,
        "jobs": _listed("Jobs without a verdict, or whose verdict waits.", 1_000, section("", job, ["id", "node"])),
        "checked": _listed("The latest verdict of each node.", 10_000, section("", checked, list(checked))),
        "verdicts": {**described("object", counts), "additionalProperties": {"type": "integer"}},
    }
    description = "The jobs of long checks, and their verdicts. Only jobs that stand here count."
    return _listed(description, 64, section("", row, ["name"]))
