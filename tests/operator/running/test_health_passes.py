"""Promises about outages and jobs that hang in passes of the operator, with a real API server."""

from __future__ import annotations

from typing import Any

import pytest
from node_health import notes

from contract import node_notes
from tests.operator.worlds.world import World, until

LOST = "pulumi-slurm:health gpus: 7 of 8 GPUs answer"


def status(world: World, key: str) -> Any:
    return world.get("slurmclusters", "test").get("status", {}).get(key)


@pytest.mark.apiserver
def test_the_status_tells_of_outages_and_of_jobs_that_hang(running_operator: World) -> None:
    world = running_operator
    world.wait("Available", "True")
    failed = notes.failed("gpus", "2026-11-26T11:59:30Z", "2026-11-26T12:00:00Z")
    with world.slurm.lock:
        world.slurm.nodes["cpu-0"]["extra"] = failed
        world.slurm.drain("cpu-0", LOST, "root")
    (row,) = until(lambda: status(world, "outages"), "the outage is told")
    assert (row["node"], row["check"], row["detectSeconds"]) == ("cpu-0", "gpus", 30)
    assert row["drainSeconds"] >= 0
    with world.slurm.lock:
        world.slurm.nodes["cpu-0"]["extra"] = ""
        world.slurm.undrain("cpu-0")
    until(lambda: "until" in status(world, "outages")[0], "it is over")

    policy = {"partition": "main", "afterSeconds": 3600, "requeues": False}
    world.patch("slurmclusters", "test", {"spec": {"hangs": [policy]}})
    job = world.slurm.run_job("cpu-1")
    with world.slurm.lock:
        world.slurm.nodes["cpu-1"]["extra"] = notes.quiet({job: "2020-01-01T00:00:00Z"})
        world.slurm._changed()
    hangs = until(lambda: status(world, "hangs"), "the hang is told")
    assert [(row["id"], row["nodes"]) for row in hangs["jobs"]] == [(job, ["cpu-1"])]
    assert [(row["node"], row["jobs"]) for row in hangs["suspects"]] == [("cpu-1", 1)]
    said = (
        f"{node_notes.HANGS}no CPU time used, or an old heartbeat, since 2020-01-01T00:00:00Z on cpu-1, told by cpu-1"
    )
    assert world.slurm.jobs[job]["admin_comment"] == said
    assert world.slurm.jobs[job]["job_state"] == ["RUNNING"]
    world.slurm.end_job(job)
    until(lambda: "jobs" not in status(world, "hangs"), "it no longer hangs")
