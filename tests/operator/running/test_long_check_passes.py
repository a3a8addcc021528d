"""Promises about long checks in passes of the operator, with a real API server."""

from __future__ import annotations

import time
from typing import Any

import pytest

from contract import names, reasons
from tests.operator.fakes.fake_reservations import moment
from tests.operator.worlds.world import World, until

CHECK = {
    "name": "bandwidth",
    "partition": "main",
    "nodeSets": ["cpu"],
    "schedule": "0 3 1 1 *",
    "timeLimitMinutes": 5,
    "sharePercent": 50,
    "drains": True,
    "least": "200 GB/s",
    "script": "#!/bin/sh\nexit 0\n",
}


def released(world: World) -> list[dict[str, Any]]:
    """Jobs of checks that may begin."""
    with world.slurm.lock:
        mine = [job for job in world.slurm.jobs.values() if job["name"] == "pulumi-slurm-check-bandwidth"]
        return [dict(job) for job in mine if job["job_state"] == ["PENDING"] and not job["hold"]]


@pytest.mark.apiserver
def test_each_idle_node_is_checked_and_one_that_fails_is_drained(running_operator: World) -> None:
    world = running_operator
    world.wait("Available", "True")
    world.patch("slurmclusters", "test", {"spec": {"longChecks": [CHECK]}})
    (first,) = until(lambda: released(world), "a job may begin")
    # Half of two nodes: the other one waits.
    assert (first["required_nodes"], first["user_id"]) == ("cpu-0", names.LONG_CHECK_USER_ID)
    (row,) = world.get("slurmclusters", "test")["status"]["longChecks"]
    assert [job["id"] for job in row["jobs"]] == [first["job_id"]]
    report = '{"verdict":"FAIL","measured":80.5,"least":200,"unit":"GB/s"}'
    world.slurm.fail_job(first["job_id"], 50, report)
    why = f"job {first['job_id']} FAILED, exit status 50: 80.5 GB/s of at least 200"
    expected = f"pulumi-slurm:health long bandwidth: {why}"
    until(lambda: world.slurm.nodes["cpu-0"]["reason"] == expected, "it is drained")
    (second,) = until(lambda: released(world), "the next job may begin")
    assert second["required_nodes"] == "cpu-1"
    world.slurm.end_job(second["job_id"])

    def verdicts() -> dict[str, int]:
        (row,) = world.get("slurmclusters", "test")["status"]["longChecks"]
        found: dict[str, int] = row.get("verdicts", {})
        return found

    until(lambda: verdicts() == {"FAIL": 1, "PASS": 1}, "both count")
    (row,) = world.get("slurmclusters", "test")["status"]["longChecks"]
    assert [group.get("why") for group in row["checked"] if group["nodes"] == ["cpu-0"]] == [why]
    assert "DRAIN" in world.slurm.nodes["cpu-0"]["state"]


@pytest.mark.apiserver
def test_a_drained_node_is_tried_again_in_a_reservation_and_returns_after_its_passes(running_operator: World) -> None:
    world = running_operator
    world.wait("Available", "True")
    with world.slurm.lock:
        world.slurm.drain("cpu-0", "pulumi-slurm:health long bandwidth: job 7 TIMEOUT", names.SLURM_USER)
        world.slurm.nodes["cpu-0"]["reason_changed_at"] = moment(int(time.time()) - 7200)
    # One node at a time: cpu-1 is the only one that is not reserved.
    world.patch("slurmclusters", "test", {"spec": {"longChecks": [{**CHECK, "passes": 2}]}})

    def job() -> Any:
        return next((each for each in released(world) if each["required_nodes"] == "cpu-0"), None)

    for passes in (0, 1):
        retried = until(job, "a job in the reservation may begin")
        assert retried["reservation"] in world.slurm.reservations
        (row,) = world.get("slurmclusters", "test")["status"]["longChecks"]
        (retry,) = row["retries"]
        assert retry.get("passes", 0) == passes
        world.slurm.end_job(retried["job_id"])
    until(lambda: not world.slurm.reservations, "its reservation is gone")
    assert "DRAIN" not in world.slurm.nodes["cpu-0"]["state"]

    def retries() -> Any:
        (row,) = world.get("slurmclusters", "test")["status"]["longChecks"]
        return row.get("retries")

    until(lambda: not retries(), "it is tried no more")


@pytest.mark.apiserver
def test_an_annotation_asks_for_a_check_and_events_tell_its_verdict(running_operator: World) -> None:
    world = running_operator
    world.wait("Available", "True")
    world.patch("slurmclusters", "test", {"spec": {"longChecks": [{**CHECK, "sharePercent": 100}]}})
    for job in until(lambda: len(found := released(world)) == 2 and found, "both are tested"):
        world.slurm.end_job(job["job_id"])

    def row() -> Any:
        (found,) = world.get("slurmclusters", "test")["status"]["longChecks"]
        return found

    def ask(text: str) -> None:
        annotations = {f"{names.CHECK_REQUEST_PREFIX}bandwidth": text}
        world.patch("slurmclusters", "test", {"metadata": {"annotations": annotations}})

    until(lambda: row().get("verdicts") == {"PASS": 2}, "both passed")
    ask("cpu-1,cpu-7")
    refused = "it tests no cpu-7; name nodes that the check tests"
    until(lambda: refused in world.condition("Degraded")["message"], "it is refused")
    ask("cpu-1")
    (job,) = until(lambda: released(world), "the one is tested again")
    assert job["required_nodes"] == "cpu-1"
    assert row()["requested"]["nodes"] == ["cpu-1"]
    world.slurm.end_job(job["job_id"])
    until(lambda: "nodes" not in row()["requested"], "it is answered")
    told = {note for reason, note in world.events() if reason.startswith("LongCheck")}
    assert told == {
        "long check bandwidth is to test cpu-1 as soon as each is idle",
        "long check bandwidth on request: cpu-1: PASS",
    }


@pytest.mark.apiserver
def test_a_new_node_serves_after_its_check_has_passed(running_operator: World) -> None:
    world = running_operator
    world.wait("Available", "True")
    world.patch("slurmclusters", "test", {"spec": {"longChecks": [{**CHECK, "beforeJobs": True, "passes": 2}]}})
    (before,) = until(lambda: released(world), "a job may begin")
    assert before["required_nodes"] == "cpu-0"
    world.slurm.end_job(before["job_id"])
    until(lambda: [each["required_nodes"] for each in released(world)] == ["cpu-1"], "cpu-0 has passed, as an old node")
    with world.slurm.lock:
        world.slurm.drain("cpu-0", reasons.NEW, "root")

    def job() -> Any:
        return next((each for each in released(world) if each.get("reservation")), None)

    tested = until(job, "a job in the reservation may begin")
    assert tested["reservation"] == f"{names.RETRY_PREFIX}cpu-0"
    assert len(released(world)) == 2
    world.slurm.end_job(tested["job_id"])
    until(lambda: not world.slurm.reservations, "its reservation is gone")
    assert "DRAIN" not in world.slurm.nodes["cpu-0"]["state"]
