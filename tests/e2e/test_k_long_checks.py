"""Long checks on request, after a drain, and before a node takes jobs: the operator's jobs on real nodes."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from components.config.nodes.long_checks import LongCheck
from components.control.long_checks import script

BAD = "/scratch/bad"
"""A file of one node alone makes the check fail there."""
CHECK = {
    "name": "site",
    "partition": "main",
    "nodeSets": ["cpu"],
    "everySeconds": 86_400,
    "timeLimitMinutes": 1,
    "sharePercent": 100,
    "passes": 1,
    "drains": True,
    "script": f"#!/bin/sh\n[ ! -e {BAD} ]\n",
}
REQUEST = "check.pulumi-slurm.dev/site"


def declare(slurm, checks: list[dict[str, object]] | None) -> None:
    patch = json.dumps({"spec": {"longChecks": checks}})
    slurm.kubectl("patch", "slurmcluster", "dev", "--type=merge", "-p", patch).ok()


def verdicts(slurm) -> dict[str, int]:
    return verdicts_of(slurm, CHECK["name"])


def verdicts_of(slurm, name: str) -> dict[str, int]:
    rows = slurm.get("slurmcluster", "dev")["status"].get("longChecks", [])
    return {row["name"]: row for row in rows}[name].get("verdicts", {})


@pytest.fixture(scope="module")
def check(slurm) -> Iterator[None]:
    declare(slurm, [CHECK])
    try:
        slurm.wait("each node has passed", lambda: verdicts(slurm) == {"PASS": 2}, 120)
        yield
    finally:
        slurm.kubectl("annotate", "slurmcluster", "dev", f"{REQUEST}-")
        slurm.on_pod("cpu-1", f"rm -f /run/jail{BAD}")
        slurm.on_pod("slurm-controller-0", "scontrol update nodename=cpu-1 state=undrain")
        declare(slurm, None)
        slurm.wait("all take jobs", slurm.all_idle, 120)


def test_a_node_is_tested_on_request_drained_if_it_fails_and_returns_when_it_passes(slurm, check):
    def ask(text: str) -> None:
        slurm.kubectl("annotate", "--overwrite", "slurmcluster", "dev", f"{REQUEST}={text}").ok()

    def told(reason: str) -> list[str]:
        events = slurm.get("events.events.k8s.io")["items"]
        return [each["note"] for each in events if each["reason"] == reason]

    slurm.on_pod("cpu-1", f"touch /run/jail{BAD}").ok()
    ask("cpu-1@1")
    slurm.wait("a drain", lambda: slurm.nodes()["cpu-1"] == "drained", 120)
    reason = slurm.sh("scontrol -o show node cpu-1 | sed -n 's/.* Reason=//p'").ok()
    assert reason.startswith("pulumi-slurm:health long site: job ")
    slurm.on_pod("cpu-1", f"rm /run/jail{BAD}").ok()
    ask("cpu-1@2")
    slurm.wait("it takes jobs again", slurm.all_idle, 120)
    answers = told("LongCheckAnswered")
    assert any(answer.startswith("long check site on request: cpu-1: FAIL (job ") for answer in answers), answers
    assert "long check site on request: cpu-1: PASS" in answers
    assert verdicts(slurm) == {"PASS": 3, "FAIL": 1}


def test_nodes_that_come_back_are_tested_before_they_take_jobs(slurm, check):
    declare(slurm, [{**CHECK, "beforeJobs": True}])
    failed = verdicts(slurm)["FAIL"]
    machine = slurm.get("pod", "cpu-1")["spec"]["nodeName"]
    slurm.kubectl("cordon", machine).ok()
    try:
        slurm.wait("a drain", lambda: set(slurm.nodes().values()) == {"drained"}, 120)
        slurm.on_pod("cpu-1", f"touch /run/jail{BAD}").ok()
    finally:
        slurm.kubectl("uncordon", machine).ok()

    def only_the_bad_one_is_drained() -> bool:
        return slurm.nodes() == {"cpu-0": "idle", "cpu-1": "drained"} and verdicts(slurm)["FAIL"] == failed + 1

    slurm.wait("the good one takes jobs, the bad one does not", only_the_bad_one_is_drained, 180)
    assert slurm.sh("srun -n1 hostname").ok() == "cpu-0"
    assert "health long site" in slurm.sh("scontrol -o show node cpu-1").ok()
    slurm.on_pod("cpu-1", f"rm /run/jail{BAD}").ok()
    slurm.on_pod("slurm-controller-0", "scontrol update nodename=cpu-1 state=undrain").ok()
    slurm.wait("all take jobs", slurm.all_idle, 120)


def test_mpi_ping_pong_measures_between_two_nodes_with_the_jails_own_mpi(slurm, check):
    ping_pong = LongCheck(name="site", partition="main", builtin="mpi-ping-pong", nodes=2, least=1)
    declare(slurm, [CHECK, {**CHECK, "name": "mpi", "nodes": 2, "script": script(ping_pong)}])
    assert slurm.wait("its verdict", lambda: verdicts_of(slurm, "mpi"), 120) == {"PASS": 1}
