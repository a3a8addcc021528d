"""Long checks that a test declares, and their verdicts."""

from __future__ import annotations

import json


def declare(slurm, checks: list[dict[str, object]] | None) -> None:
    """Declare long checks, which the operator knows before whatever follows."""
    patch = json.dumps({"spec": {"longChecks": checks}})
    slurm.kubectl("patch", "slurmcluster", "dev", "--type=merge", "-p", patch).ok()

    def is_known() -> bool:
        there = slurm.get("slurmcluster", "dev")
        return bool(there["status"]["observedGeneration"] == there["metadata"]["generation"])

    slurm.wait("the operator knows them", is_known)


def verdicts_of(slurm, name: str) -> dict[str, int]:
    rows = slurm.get("slurmcluster", "dev")["status"].get("longChecks", [])
    return {row["name"]: row for row in rows}[name].get("verdicts", {})
