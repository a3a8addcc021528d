"""The schema of long checks in SlurmClusters: what is declared, and the operator's ledger of their jobs."""

from typing import Final

from components.config.nodes.long_checks import CHECK_NAME, LEAST_EVERY_SECONDS, MOST_NODES, LongCheck
from components.config.values.quantities import LONGEST_SECONDS
from components.config.values.schedules import LONGEST_SCHEDULE, SCHEDULE
from components.control.crds.schema import (
    INT32,
    INT64,
    SECONDS,
    TIME,
    Schema,
    checked,
    described,
    limits,
    section,
    text,
)

_OF: Final = LongCheck.model_fields
_NAME: Final = {**text(32), "pattern": f"^{CHECK_NAME}$"}
_OPTIONAL: Final = ("everySeconds", "schedule", "nodes", "passes", "beforeJobs", "needs", "least")
"""One of two, and fields that SlurmClusters of an older program lack."""
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
            **SECONDS,
            "minimum": LEAST_EVERY_SECONDS,
        },
        "schedule": {
            "description": "In place of everySeconds: a cron line in UTC, at whose ticks nodes become due.",
            **text(LONGEST_SCHEDULE),
            "pattern": f"^{SCHEDULE}$",
        },
        "timeLimitMinutes": {
            "description": "Time limit of a job.",
            **INT32,
            "minimum": 1,
            "maximum": LONGEST_SECONDS // 60,
        },
        "sharePercent": {"description": share.description, **INT32, **limits(share)},
        "nodes": {"description": "Nodes of each job.", **INT32, **limits(_OF["nodes"])},
        "passes": {
            "description": _OF["return_after_passes"].description,
            **INT32,
            **limits(_OF["return_after_passes"]),
        },
        "beforeJobs": described("boolean", _OF["before_jobs"].description or ""),
        "needs": {"description": "The programs that its jobs need in the jail.", **text(4_096)},
        "least": {"description": "What it is to measure, such as 400 GB/s; empty if it measures nothing.", **text(32)},
        "drains": described("boolean", "Whether a node that fails is drained."),
        "script": {"description": "Batch script of its jobs.", **text(16_384)},
    }
    required = [key for key in check if key not in _OPTIONAL]
    one = checked("has(self.everySeconds) != has(self.schedule)", "must have one of everySeconds and schedule")
    return _listed("Jobs that test idle nodes.", 16, section("", check, required, [one]))


def told() -> Schema:
    """The schema of status.longChecks."""
    job = {
        "id": {"description": "Slurm's id.", **INT64},
        "node": text(64),
        "submitted": TIME,
        "others": _listed("Further nodes of the job.", MOST_NODES, text(64)),
        "aim": {
            "description": "Accuses: node is a suspect beside good nodes. Retries: node is drained for the check.",
            "type": "string",
            "enum": ["Accuses", "Retries"],
        },
        "failed": described("string", "Why it failed, from then on until its node is drained for it."),
    }
    checked = {
        "at": TIME,
        "verdict": {"type": "string", "enum": ["PASS", "FAIL", "UNKNOWN", "NONE", "SUSPECT"]},
        "nodes": _NODES,
        "why": described("string", "Why, with what the job reported; up to 100 such texts."),
    }
    requested = {
        "text": {"description": "The text of the annotation.", **text(4_096)},
        "at": TIME,
        "nodes": {"description": "Nodes without a verdict since then.", **_NODES},
    }
    retry = {
        "node": text(64),
        "why": described("string", "The reason of its drain."),
        "passes": {"description": "Jobs in its reservation that passed.", **INT32},
        "givenUp": described("boolean", "Whether it is drained again."),
    }
    counts = "Verdicts until now: verdict → number of jobs."
    row = {
        "name": _NAME,
        "jobs": _listed("Jobs without a verdict, or whose verdict waits.", 1_000, section("", job, ["id", "node"])),
        "checked": _listed(
            "The latest verdict of each node.", 10_000, section("", checked, ["at", "verdict", "nodes"])
        ),
        "retries": _listed("Drained nodes that are tried again.", 1_000, section("", retry, ["node", "why"])),
        "requested": section("What an administrator asked for.", requested, ["text", "at"]),
        "verdicts": {**described("object", counts), "additionalProperties": {"type": "integer"}},
    }
    description = "The jobs of long checks, and their verdicts. Only jobs that stand here count."
    return _listed(description, 64, section("", row, ["name"]))
