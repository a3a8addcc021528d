"""The schema of jobs that hang in SlurmClusters: what is declared, and what the operator found."""

from typing import Final

from components.config.nodes.hangs import LEAST_AFTER_SECONDS
from components.control.crds.schema import INT64, SECONDS, TIME, Schema, described, section, text

_MOST_JOBS: Final = 100
_MOST_SUSPECTS: Final = 50
_JOB: Final = {
    "id": {"description": "Slurm's id.", **INT64},
    "partition": text(63),
    "since": {**TIME, "description": "Since when it is quiet on all of its nodes."},
    "nodes": {"description": "Its nodes.", "type": "array", "maxItems": 10_000, "items": text(64)},
    "requeued": described("boolean", "Whether it is queued again; it is released without these nodes."),
}


def _listed(description: str, most: int, item: Schema) -> Schema:
    return {"description": description, "type": "array", "maxItems": most, "items": item}


def declared() -> Schema:
    """The schema of spec.hangs."""
    partition = {
        "partition": {"description": "Partition of Slurm.", **text(63)},
        "afterSeconds": {
            "description": "A job that is quiet for so long hangs.",
            **SECONDS,
            "minimum": LEAST_AFTER_SECONDS,
        },
        "requeues": described("boolean", "Whether a job that hangs is queued again, if it may be."),
    }
    return _listed("Partitions whose jobs are looked at.", 256, section("", partition, list(partition)))


def told() -> Schema:
    """The schema of status.hangs."""
    suspect = {
        "node": text(64),
        "jobs": described("integer", "Jobs that hung there, also together with other nodes."),
        "last": {**TIME, "description": "When the last of them was found."},
    }
    lists = {
        "jobs": _listed("Jobs that hang.", _MOST_JOBS, section("", _JOB, ["id", "partition", "since", "nodes"])),
        "suspects": _listed(
            "Nodes on which jobs hung, most often first.", _MOST_SUSPECTS, section("", suspect, list(suspect))
        ),
    }
    return section("Jobs that hang, and the nodes on which that happens often.", lists)
