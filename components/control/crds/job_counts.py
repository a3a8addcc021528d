"""The schema of a SlurmCluster's counts of jobs, as the operator writes them and a preview reads them."""

from typing import Final

from components.control.crds.schema import TIME, Schema, described, section

_SPAN: Final = "a value, or least-largest for a span of values,"
_ORDINALS: Final = "an ordinal, or least-largest for a span of ordinals,"
_JOBS: Final[Schema] = {"jobs": described("integer", "Number of jobs.")}


def _by(key: str, description: str, of: str = "jobs") -> Schema:
    words = f"{description}: {key} → number of {of}."
    return {**described("object", words), "additionalProperties": {"type": "integer"}}


def _listed(description: str, item: Schema) -> Schema:
    return {**described("array", description), "items": item}


def _partition() -> Schema:
    limits = {"limits": _by(f"{_SPAN} in minutes, or UNLIMITED", "Time limits of these jobs")}
    sets = _by("node set", "Node sets on which they run; a job counts in each of its sets")
    asked = {
        "nodes": _by(_SPAN, "Nodes that they ask for"),
        "cpus": _by(_SPAN, "CPUs that they need on each node"),
        "memory": _by(f"{_SPAN} in MiB", "Memory that they need on each node"),
        "accounts": _by("account, or * for all others,", "Their accounts"),
        "qos": _by("QOS, or * for all others,", "Their QOS"),
    }
    return section(
        "",
        {
            "name": {"type": "string"},
            "running": section("Jobs that run in it.", {**_JOBS, **limits, "nodeSets": sets}),
            "waiting": section("Jobs that wait in it.", {**_JOBS, **limits, **asked}),
        },
        ["name"],
    )


def _node_set() -> Schema:
    until = "When the last of them reaches its time limit; left out if one has no limit."
    highest = section(
        "",
        {
            "first": described("integer", "Lowest ordinal."),
            "last": described("integer", "Highest ordinal."),
            **_JOBS,
            "until": {**TIME, "description": until},
        },
    )
    return section(
        "",
        {
            "name": {"type": "string"},
            "replicas": described("integer", "Wanted number of nodes."),
            "cpus": described("integer", "CPUs of a node."),
            "memory": described("integer", "Memory of a node for jobs, in MiB."),
            "busy": _by(_ORDINALS, "Nodes that have jobs", of="nodes"),
            "nodes": _listed("Running jobs, each counted at the highest of its nodes in the set.", highest),
        },
        ["name"],
    )


def job_counts() -> Schema:
    """The schema of status.jobs."""
    return section(
        "Counts of jobs, from which `pulumi preview` tells what an edit means for them. Their size has a bound.",
        {
            "countedAt": {**TIME, "description": "When the jobs were counted. Counts that stay get a new time, too."},
            "unknown": described("string", "Why jobs are not counted."),
            "unread": described("integer", "Jobs that are yet to be counted."),
            "partitions": _listed("Partitions with jobs.", _partition()),
            "partitionsLeftOut": described("integer", "Partitions that have fewer jobs than the listed ones."),
            "nodeSets": _listed("Node sets.", _node_set()),
        },
        ["countedAt"],
    )
