"""The schema of a SlurmCluster's outages of nodes, as the operator writes them."""

from typing import Final

from components.control.crds.schema import INT64, TIME, Schema, section, text

_MOST: Final = 250
"""200 that last, and 50 that are over (operator/slurm_operator/decide/nodes/outages.py)."""


def outages() -> Schema:
    """The schema of status.outages."""
    detect = "From the last run in which the check did not fail to the first one in which it failed."
    row = {
        "node": text(64),
        "check": {"description": "The check that failed first.", **text(64)},
        "reason": {"description": "Reason of the first drain, without its prefix.", **text(256)},
        "since": {**TIME, "description": "When the node was drained for the fault."},
        "detectSeconds": {**INT64, "description": detect},
        "drainSeconds": {**INT64, "description": "From that run to the drain."},
        "until": {**TIME, "description": "When the node took jobs again; left out while it does not."},
    }
    return {
        "description": "Nodes that were drained for a fault: the latest 50 that work again, and those that do not.",
        "type": "array",
        "maxItems": _MOST,
        "items": section("", row, ["node", "check", "reason", "since"]),
    }
