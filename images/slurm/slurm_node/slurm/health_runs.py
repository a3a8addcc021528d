"""Tells how often Slurm runs a node's health checks, by the configuration that slurmd fetched."""

import re

from slurm_node.slurm.configless_cache import logical_lines

INTERVALS = 10
"""Intervals without a run, after which runs have stopped."""
LEAST_SECONDS = 600.0
"""A shorter silence means nothing: slurmctld starts the runs, and may be away for some minutes."""


def longest_silence(slurm_conf: str) -> float | None:
    """Returns after how many seconds without a run the runs have stopped.

    None where a node's state decides whether it is checked at all (slurm.conf(5), HealthCheckNodeState).
    """
    said = {key.lower(): value for line in logical_lines(slurm_conf) for key, value in _WORD.findall(line)}
    seconds = int(said.get("healthcheckinterval", "0"))
    if not seconds or "ANY" not in said.get("healthchecknodestate", "ANY").upper().split(","):
        return None
    return max(INTERVALS * seconds, LEAST_SECONDS)


_WORD = re.compile(r"^\s*(HealthCheckInterval|HealthCheckNodeState)\s*=\s*(\S+)", re.IGNORECASE)
