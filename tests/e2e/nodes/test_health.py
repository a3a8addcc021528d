"""A node that is not fit for jobs is drained with the reason, and takes jobs again later; drains of others stay."""

from __future__ import annotations

import contextlib
import datetime
import json
import shlex
from collections.abc import Iterator
from typing import Any

import pytest

FILL = "dd if=/dev/zero of=/run/jail/tmp/fill bs=1M 2>/dev/null; true"
EMPTY = "rm -f /run/jail/tmp/fill"
CHECK = "/usr/sbin/node-health-program"
"""The program that Slurm starts every few seconds. A test starts it where Slurm's own start is not its subject."""
OURS = "pulumi-slurm:health space: /tmp has less than 2 percent of its 128 MiB free"
SWITCH_OFF = (
    "for name in /usr/sbin/node-health /usr/sbin/node-health-program /usr/local/sbin/python3; do"
    " printf '#!/bin/sh\\nexit 0\\n' > $name && chmod 755 $name; done;"
    " echo /nowhere/switch_off.so > /etc/ld.so.preload;"
    " mkdir -p /run/slurm-node && echo '{\"checks\": []}' > /run/slurm-node/health.json;"
    " pkill -9 node-health; echo tried"
)
"""Root in a job replaces each program, the libraries that every program loads, and the verdict."""
SWITCH_ON = "rm -f /usr/sbin/node-health /usr/sbin/node-health-program /usr/local/sbin/python3 /etc/ld.so.preload"
FOUL_PLAY = (
    "scontrol update nodename=cpu-1 state=fail reason=mine",
    "scontrol update nodename=cpu-1 extra='pulumi-slurm:failed mine, found at 2026-01-01T00:00:00Z'",
    "scontrol update nodename=cpu-1 comment='pulumi-slurm:node mine is not ready'",
    "scontrol reboot asap cpu-1",
    "scontrol create reservation nodes=cpu-1 starttime=now duration=60 users=dev flags=maint",
)
"""A user tries to have another's node drained, noted as unfit, restarted or reserved."""
GATE = "$HOME/gate-of-the-full-job"
FILL_ITS_OWN = (
    "for folder in /tmp /dev/shm; do dd if=/dev/zero of=$folder/fill bs=1M 2>/dev/null;"
    " df --output=pcent $folder | tail -n 1; done;"
    f" touch {GATE}.full; while [ ! -e {GATE} ]; do sleep 0.2; done"
)
INTERVAL_SECONDS = 15
"""`health.interval` of the dev stack."""


def reason(slurm, node: str) -> str:
    return slurm.sh(f"scontrol -o show node {node} | sed -n 's/.* Reason=//p'").ok().partition(" [")[0]


def by_administrator(slurm, *changes: str) -> None:
    slurm.kubectl("exec", "slurm-controller-0", "-c", "controller", "--", "scontrol", "update", *changes).ok()


@contextlib.contextmanager
def full_tmp(slurm, node: str) -> Iterator[None]:
    try:
        slurm.on_pod(node, FILL).ok()
        yield
    finally:
        slurm.on_pod(node, EMPTY).ok()


def test_a_node_that_fails_a_check_is_drained_by_slurms_own_rounds_and_users_can_not_switch_that_off(slurm):
    try:
        assert slurm.sh(f"srun -n1 -w cpu-0 sudo bash -c {shlex.quote(SWITCH_OFF)}").ok() == "tried"
        with full_tmp(slurm, "cpu-0"):
            slurm.wait("a drain with the reason", lambda: reason(slurm, "cpu-0") == OURS, 120)
            assert slurm.sh("srun -n1 hostname").ok() == "cpu-1"
            refused = slurm.on_pod("cpu-0", "/usr/sbin/node-health-prolog")
            assert refused.status != 0
            assert OURS in refused.stderr
        slurm.wait("the drain is lifted", slurm.all_idle, 120)
    finally:
        slurm.sh(f"srun -n1 sudo bash -c {shlex.quote(SWITCH_ON)}").ok()
    assert slurm.sh("srun -n1 -w cpu-0 hostname").ok() == "cpu-0"


@pytest.mark.parametrize("where", ["{}", "srun -n1 -w cpu-0 {}"], ids=["login", "job"])
def test_a_user_says_nothing_about_a_node(slurm, where):
    for line in FOUL_PLAY:
        refused = slurm.sh(where.format(line))
        assert refused.status != 0, line
        assert "Invalid user id" in refused.stderr or "ermission denied" in refused.stderr, refused
    assert "mine" not in slurm.sh("scontrol -o show node cpu-1").ok()
    slurm.wait("its jobs' node is idle, and no other is out of service", slurm.all_idle)


def test_a_job_that_fills_its_own_tmp_and_shared_memory_drains_nothing(slurm):
    """A job fills its own folders, and checks look at the node's."""
    clean = f"rm -f {GATE} {GATE}.full {GATE}.out"
    job = slurm.sh(f"{clean}; sbatch --parsable -w cpu-1 -o {GATE}.out --wrap '{FILL_ITS_OWN}'").ok()
    try:
        slurm.wait("both are full", lambda: slurm.sh(f"test -e {GATE}.full").status == 0, 120)
        said = json.loads(slurm.on_pod("cpu-1", "node-health --json").stdout)["checks"]
        slurm.on_pod("cpu-1", CHECK).ok()
        assert slurm.sh(f"cat {GATE}.out").ok().split() == ["100%", "100%"]
    finally:
        slurm.sh(f"touch {GATE}").ok()
        slurm.wait("it ends", lambda: not slurm.sh(f"squeue -h -j {job}").stdout.strip(), 120)
        slurm.sh(clean)
    by_verdict = {row["check"]: row["verdict"] for row in said}
    assert by_verdict["space"] == "PASS"
    assert "FAIL" not in by_verdict.values(), by_verdict
    slurm.wait("the node is as before", slurm.all_idle)


def test_a_drain_of_an_administrator_outlives_a_failed_check_and_its_end(slurm):
    by_administrator(slurm, "nodename=cpu-1", "state=drain", "reason=a fan is broken")

    def now() -> str:
        return f"{datetime.datetime.now(datetime.UTC):%Y-%m-%dT%H:%M:%SZ}"

    def check_until_told(words: str, since: str) -> None:
        """Slurm's own round may be sooner: the entry tells each change once."""
        slurm.on_pod("cpu-1", CHECK).ok()
        told = ("logs", "cpu-1", f"--since-time={since}")
        slurm.wait("the entry saw it", lambda: words in slurm.kubectl(*told).text)

    try:
        filled = now()
        with full_tmp(slurm, "cpu-1"):
            check_until_told(OURS, filled)
            assert reason(slurm, "cpu-1") == "a fan is broken"
            emptied = now()
        check_until_told("passes again", emptied)
        assert reason(slurm, "cpu-1") == "a fan is broken"
    finally:
        by_administrator(slurm, "nodename=cpu-1", "state=resume")


def test_a_warning_is_noted_on_the_slurm_node_and_drains_nothing(slurm):
    declare = 'cd /run/slurm-node && sed "s/cpus.: {},/cpus\\": {},/" declared.json > x && cat x > declared.json; '
    note = "scontrol -o show node cpu-1 | grep -o ' Extra=.*pulumi-slurm:warning cpus: .* 9 declared'"
    slurm.on_pod("cpu-1", declare.format(1, 9) + CHECK).ok()
    try:
        slurm.wait("the note", lambda: slurm.sh(note).status == 0, 120)
        assert slurm.all_idle()
    finally:
        slurm.on_pod("cpu-1", declare.format(9, 1) + CHECK).ok()
    slurm.wait("no note", lambda: "pulumi-slurm:warning" not in slurm.sh("scontrol -o show node cpu-1").ok(), 120)


def test_an_unfit_node_that_a_new_pod_mends_is_started_anew_and_takes_jobs_again(slurm, record_property):
    """/tmp of the node is made with the pod; nobody empties it here."""

    def uid() -> str:
        return slurm.kubectl("get", "pod", "cpu-1", "-o", "jsonpath={.metadata.uid}", "--ignore-not-found").ok()

    def moment(row: dict[str, str], key: str) -> datetime.datetime:
        return datetime.datetime.fromisoformat(row[key])

    before, declared = uid(), slurm.get("nodeset", "cpu")["spec"]["reactions"]
    began = datetime.datetime.now(datetime.UTC).replace(microsecond=0)
    patience = {"spec": {"reactions": {"restart": True, "afterSeconds": 0}}}
    slurm.kubectl("patch", "nodeset", "cpu", "--type=merge", "-p", json.dumps(patience)).ok()
    try:
        slurm.on_pod("cpu-1", FILL).ok()
        slurm.on_pod("cpu-1", CHECK)  # Sooner than Slurm does; the pod may end under it.
        slurm.wait("a new pod", lambda: uid() not in ("", before), 180)
    finally:
        patience["spec"]["reactions"] = declared
        slurm.kubectl("patch", "nodeset", "cpu", "--type=merge", "-p", json.dumps(patience)).ok()
        if uid() == before:
            slurm.on_pod("cpu-1", EMPTY)
    slurm.wait("it takes jobs again", slurm.all_idle, 180)
    assert slurm.sh("srun -n1 -w cpu-1 hostname").ok() == "cpu-1"
    told = slurm.told("RestartUnfit")
    assert any("cpu-1" in note and OURS in note for note in told), told

    # The status tells the outage with its times, so that they are a number.
    def over() -> list[dict[str, Any]]:
        rows = slurm.get("slurmcluster", "dev")["status"]["outages"]
        return [row for row in rows if row["node"] == "cpu-1" and moment(row, "since") >= began and "until" in row]

    (outage,) = slurm.wait("the outage is over", over)
    assert (outage["check"], outage["reason"]) == ("space", OURS.removeprefix("pulumi-slurm:"))
    repair = (moment(outage, "until") - moment(outage, "since")).total_seconds()
    # The fault was there from `began` on, or some moments later; the last run before it was an interval ago at most.
    assert 0 <= outage["detectSeconds"] <= 2 * INTERVAL_SECONDS
    assert 0 <= outage["drainSeconds"] <= INTERVAL_SECONDS
    assert 0 < repair < 360, "as long as the two waits above"
    measured = {"detect": outage["detectSeconds"], "drain": outage["drainSeconds"], "repair": int(repair)}
    for span, seconds in measured.items():
        record_property(f"seconds to {span}", seconds)
    print(measured)
