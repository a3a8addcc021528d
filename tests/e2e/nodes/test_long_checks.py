"""Long checks on request, after a drain, and before a node takes jobs: the operator's jobs on real nodes."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from typing import Any

import pytest

from components.config.nodes.long_checks import LongCheck
from components.control.long_checks import script
from contract import names
from tests.e2e.nodes import measuring_tools
from tests.e2e.nodes.declared_checks import declare, verdicts_of

BAD = "/scratch/bad"
"""A file of one node alone, which the check runs there."""
FAILS = "exit 1"
EATS = "exec dd if=/dev/zero of=/dev/null bs=1200M count=1"
"""It wants more memory than the node's jobs have."""
CHECK = {
    "name": "site",
    "partition": "main",
    "nodeSets": ["cpu"],
    "everySeconds": 86_400,
    "timeLimitMinutes": 1,
    "sharePercent": 100,
    "passes": 1,
    "drains": True,
    "script": f"#!/bin/sh\n[ ! -e {BAD} ] || exec sh {BAD}\n",
}
REQUEST = "check.pulumi-slurm.dev/site"
SECONDS = 300
"""For a node that is drained, tried again and back: ten looks of the operator and a job."""
pytestmark = pytest.mark.timeout(1800)


def ask(slurm, text: str) -> None:
    slurm.kubectl("annotate", "--overwrite", "slurmcluster", "dev", f"{REQUEST}={text}").ok()


def reason(slurm, node: str) -> str:
    return slurm.sh(f"scontrol -o show node {node} | sed -n 's/.* Reason=//p'").ok().partition(" [")[0]


def verdicts(slurm) -> dict[str, int]:
    return verdicts_of(slurm, CHECK["name"])


def spoil(slurm, how: str) -> None:
    slurm.on_pod("cpu-1", f"echo '{how}' >/run/jail{BAD}").ok()


@pytest.fixture(scope="module")
def check(slurm) -> Iterator[None]:
    declare(slurm, [CHECK])
    try:
        slurm.wait("each node has passed", lambda: verdicts(slurm) == {"PASS": 2}, SECONDS)
        yield
    finally:
        slurm.kubectl("annotate", "slurmcluster", "dev", f"{REQUEST}-")
        slurm.on_pod("cpu-1", f"rm -f /run/jail{BAD}")
        slurm.on_pod("slurm-controller-0", "scontrol update nodename=cpu-1 state=undrain")
        declare(slurm, None)
        slurm.wait("all take jobs", slurm.all_idle, SECONDS)


def failed_lookalikes(slurm) -> list[str]:
    """Jobs with a check's name that failed on cpu-1: a user's, and one of root of the jail, who may become nobody."""
    failing = f"sbatch --parsable -J {names.LONG_CHECK_PREFIX}site -w cpu-1 -o /dev/null --wrap 'exit 1'"
    assert slurm.sh(failing.replace("sbatch", f"sbatch --uid={names.LONG_CHECK_USER_ID}")).status != 0
    jobs = [slurm.sh(failing).ok(), slurm.sh(f"cd /; sudo -u nobody {failing}").ok()]

    def failed(job: str) -> bool:
        return "JobState=FAILED" in slurm.on_pod("slurm-controller-0", f"scontrol show job {job}").ok()

    slurm.wait("both fail", lambda: all(map(failed, jobs)), SECONDS)
    return jobs


def test_a_node_is_tested_on_request_drained_if_it_fails_and_returns_when_it_passes(slurm, check, record_property):
    """Jobs that look like the check's accuse nobody: no id of theirs was noted."""
    lookalikes = failed_lookalikes(slurm)
    spoil(slurm, EATS)
    asked = time.monotonic()
    ask(slurm, "cpu-1@1")
    slurm.wait("a drain", lambda: slurm.nodes()["cpu-1"] == "drained", SECONDS)
    record_property("seconds to drain", round(time.monotonic() - asked))
    accused = re.fullmatch(r"pulumi-slurm:health long site: job (\d+) OUT_OF_MEMORY", reason(slurm, "cpu-1"))
    assert accused, reason(slurm, "cpu-1")
    assert accused[1] not in lookalikes
    slurm.on_pod("cpu-1", f"rm /run/jail{BAD}").ok()
    asked = time.monotonic()
    ask(slurm, "cpu-1@2")
    slurm.wait("it takes jobs again", slurm.all_idle, SECONDS)
    record_property("seconds to return", round(time.monotonic() - asked))
    answers = slurm.told("LongCheckAnswered")
    assert any(answer.startswith("long check site on request: cpu-1: FAIL (job ") for answer in answers), answers
    assert "long check site on request: cpu-1: PASS" in answers
    assert verdicts(slurm) == {"PASS": 3, "FAIL": 1}, "lookalikes do not count"


def test_nodes_that_come_back_are_tested_before_they_take_jobs(slurm, check):
    declare(slurm, [{**CHECK, "beforeJobs": True}])
    failed = verdicts(slurm)["FAIL"]
    machine = slurm.get("pod", "cpu-1")["spec"]["nodeName"]
    slurm.kubectl("cordon", machine).ok()
    try:
        slurm.wait("a drain", lambda: set(slurm.nodes().values()) == {"drained"}, SECONDS)
        spoil(slurm, FAILS)
    finally:
        slurm.kubectl("uncordon", machine).ok()

    def only_the_bad_one_is_drained() -> bool:
        return slurm.nodes() == {"cpu-0": "idle", "cpu-1": "drained"} and verdicts(slurm)["FAIL"] == failed + 1

    slurm.wait("the good one takes jobs, the bad one does not", only_the_bad_one_is_drained, SECONDS)
    assert slurm.sh("srun -n1 hostname").ok() == "cpu-0"
    assert "health long site" in slurm.sh("scontrol -o show node cpu-1").ok()
    slurm.on_pod("cpu-1", f"rm /run/jail{BAD}").ok()
    slurm.on_pod("slurm-controller-0", "scontrol update nodename=cpu-1 state=undrain").ok()
    slurm.wait("all take jobs", slurm.all_idle, SECONDS)


SCRATCH = "/home/scratch"
SHORTER = {"times=1000": "times=200", "--loops=4": "--loops=1", "--time 20": "--time 2"}
"""Measurements of builtins take less time so. In full length they are in tests/image/long_checks."""


@pytest.fixture
def tools(slurm) -> Iterator[None]:
    """Have the programs that a site installs from Debian's packages, and a folder to write to."""
    with measuring_tools.installed(slurm):
        slurm.sh(f"sudo mkdir -m 1777 {SCRATCH}").ok()
        yield
        slurm.sh(f"sudo rmdir {SCRATCH}").ok()


def measured(name: str, **wanted: Any) -> dict[str, object]:
    """Return a builtin as it is declared, which measures for a shorter time."""
    text = script(LongCheck(name=name, partition="main", **{"least": 1, **wanted}))
    for long, short in SHORTER.items():
        text = text.replace(long, short)
    return {**CHECK, "name": name, "nodes": wanted.get("nodes", 1), "timeLimitMinutes": 3, "script": text}


def test_measurements_of_builtins_pass_or_fail_by_their_least(slurm, check, tools):
    """With the real tools, and the jail's own MPI. A check that fails on all nodes accuses none of them."""
    declared = [
        measured("memory", builtin="memory-bandwidth"),
        measured("disk", builtin="disk", directory=SCRATCH),
        measured("network", builtin="network", nodes=2),
        measured("mpi", builtin="mpi-ping-pong", nodes=2),
        measured("never", builtin="mpi-ping-pong", nodes=2, least=1_000_000),
    ]
    for short in SHORTER.values():
        assert any(short in str(row["script"]) for row in declared), short
    declare(slurm, [CHECK, *declared])
    expected = {
        "memory": {"PASS": 2},
        "disk": {"PASS": 2},
        "network": {"PASS": 1},
        "mpi": {"PASS": 1},
        "never": {"FAIL": 1},
    }

    def all_said() -> bool:
        said = {name: verdicts_of(slurm, name) for name in expected}
        assert said == expected, said
        return True

    slurm.wait("their verdicts", all_said, SECONDS)
    told = "long check never failed on some of: cpu-0, cpu-1; too few other nodes take jobs to find the bad one"
    slurm.wait("the suspects are named", lambda: told in slurm.condition("Degraded")["message"])
    slurm.wait("none is drained", slurm.all_idle)
    declare(slurm, [CHECK])
