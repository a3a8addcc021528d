"""The judge finds each kind of broken promise in a history, and nothing in one that kept them all."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bench.faults import command, history, judge, report
from bench.faults.history import History
from bench.faults.kinds import KINDS

Row = dict[str, Any]
BEGAN = 1_000_000.0
LAST = 420
HOLDER, OTHER = "slurm-operator-a1-0badcafe", "slurm-operator-b2-0badcafe"
FAULT_AT, FAULT_OVER = 20.0, 80.0


def kubernetes(at: float) -> Row:
    well = {"Available": ["True", "Ready", "all is well"], "Degraded": ["False", "AsWanted", "nothing is wrong"]}
    pods = {
        f"cpu-{number}": {"uid": f"u{number}", "component": "worker", "ready": True, "ending": False, "restarts": 0}
        for number in range(2)
    }
    conditions = {"SlurmCluster/dev": well, "NodeSet/cpu": well}
    seen = {"pods": pods, "conditions": conditions, "holder": HOLDER, "unready": [], "machines": []}
    return {"record": "kubernetes", "at": BEGAN + at, **copy.deepcopy(seen)}


def slurm(at: float) -> Row:
    """One canary runs on cpu-1 from second 30 to 90."""
    nodes = {f"cpu-{number}": {"states": ["IDLE"], "reason": "", "user": ""} for number in range(2)}
    if FAULT_AT < at < FAULT_OVER:
        nodes["cpu-0"] = {"states": ["IDLE", "DRAIN"], "reason": "bad-fan-1", "user": "admin"}
    jobs = []
    if at > 10:
        runs, ended = at >= 30, at >= 90
        state = "COMPLETED" if ended else "RUNNING" if runs else "PENDING"
        times = {"start": BEGAN + 30 if runs else 0, "end": BEGAN + 90 if runs else 0}
        nodes_of_job = ["cpu-1"] if runs else []
        jobs.append({"id": "7", "name": "canary-x-1", "state": state, "nodes": nodes_of_job, **times})
    return {"record": "slurm", "at": BEGAN + at, "nodes": nodes, "jobs": jobs}


def clean() -> list[Row]:
    """A run in which an administrator drained cpu-0 for a minute, and in which all promises were kept."""
    looks = [row for at in range(0, LAST, 2) for row in (kubernetes(at), slurm(at + 1))]
    for row in looks:
        if row["record"] == "kubernetes" and FAULT_AT + 2 < row["at"] - BEGAN < FAULT_OVER:
            told = ["True", "DrainedByPeople", "drained by admin: cpu-0 (bad-fan-1)"]
            row["conditions"]["NodeSet/cpu"]["DrainedByPeople"] = told
    fault = {"number": 1, "kind": "person-drained", "target": "cpu-0", "began": BEGAN + FAULT_AT}
    note = {"reason": "bad-fan-1", "user": "admin"}
    said = "2026-11-25 09:00:00,000 INFO slurm_operator.execute: Drain: drained cpu-1: it is to be removed"
    return [
        {"record": "run", "at": BEGAN, "seed": 7, "minutes": 2, "planned": 1, "nodes": ["cpu-0", "cpu-1"]},
        {"record": "canary", "at": BEGAN + 10, "name": "canary-x-1", "tasks": 1, "sure": True},
        {"record": "begin", **fault},
        {"record": "begun", "number": 1, "done": BEGAN + FAULT_AT, "note": note},
        {"record": "end", "number": 1, "over": BEGAN + FAULT_OVER},
        {"record": "log", "at": BEGAN + 50.5, "pod": "slurm-operator-a1", "text": said},
        {"record": "event", "at": BEGAN + 5, "text": "Event Normal Heal SlurmCluster/dev restored it"},
        *looks,
        {"record": "account", "id": "7", "state": "COMPLETED", "name": "canary-x-1"},
        {"record": "printed", "name": "canary-x-1", "lines": ["begin", "step 1", "end"]},
        {"record": "finished", "at": BEGAN + LAST},
    ]


def judged(rows: list[Row]) -> list[judge.Violation]:
    return judge.judge(history.parse(map(json.dumps, rows)))


def rules(rows: list[Row]) -> set[str]:
    return {violation.rule for violation in judged(rows)}


def each(rows: list[Row], record: str, first: float = 0, last: float = LAST) -> list[Row]:
    """Records of a kind within some seconds, for a test to change."""
    return [row for row in rows if row["record"] == record and first <= row["at"] - BEGAN < last]


def without(rows: list[Row], record: str, first: float = 0, last: float = LAST) -> list[Row]:
    gone = each(rows, record, first, last)
    return [row for row in rows if row not in gone]


def test_a_history_that_kept_all_promises_is_clean() -> None:
    assert judged(clean()) == []


# Each takes the clean history and spoils it.


def canary_fails(rows: list[Row]) -> list[Row]:
    for row in each(rows, "slurm", 90):
        row["jobs"][0]["state"] = "NODE_FAIL"
    return rows


def canary_fails_by_accounting_alone(rows: list[Row]) -> list[Row]:
    rows = without(rows, "slurm", 88, LAST - 60)
    for row in each(rows, "slurm", 88):
        row["jobs"] = []
    next(row for row in rows if row["record"] == "account")["state"] = "CANCELLED"
    return rows


def canary_never_ends(rows: list[Row]) -> list[Row]:
    for row in each(rows, "slurm", 90):
        row["jobs"][0] |= {"state": "RUNNING"}
    next(row for row in rows if row["record"] == "account")["state"] = "RUNNING"
    return rows


def canary_is_lost(rows: list[Row]) -> list[Row]:
    for row in each(rows, "slurm"):
        row["jobs"] = []
    return [row for row in rows if row["record"] != "account"]


def a_task_is_lost(rows: list[Row]) -> list[Row]:
    next(row for row in rows if row["record"] == "canary")["tasks"] = 2
    return rows


def canary_runs_twice(rows: list[Row]) -> list[Row]:
    next(row for row in rows if row["record"] == "printed")["lines"] = ["begin", "begin", "step 1", "end"]
    return rows


def canary_does_not_come_to_its_end(rows: list[Row]) -> list[Row]:
    next(row for row in rows if row["record"] == "printed")["lines"] = ["begin", "step 1"]
    return rows


def canary_printed_nothing(rows: list[Row]) -> list[Row]:
    return [row for row in rows if row["record"] != "printed"]


def drain_is_lifted(rows: list[Row]) -> list[Row]:
    for row in each(rows, "slurm", 40, 50):
        row["nodes"]["cpu-0"]["states"] = ["IDLE"]
    return rows


def reason_is_overwritten(rows: list[Row]) -> list[Row]:
    for row in each(rows, "slurm", 40, 50):
        row["nodes"]["cpu-0"]["reason"] = "pulumi-slurm:update"
    return rows


def author_is_overwritten(rows: list[Row]) -> list[Row]:
    for row in each(rows, "slurm", 40, 50):
        row["nodes"]["cpu-0"]["user"] = "slurm"
    return rows


def drained_record_goes(rows: list[Row]) -> list[Row]:
    for row in each(rows, "slurm", 40, 50):
        del row["nodes"]["cpu-0"]
    return rows


def pod_is_another_under_a_job(rows: list[Row]) -> list[Row]:
    for row in each(rows, "kubernetes", 60):
        row["pods"]["cpu-1"]["uid"] = "new"
    return rows


def pod_is_gone_under_a_job(rows: list[Row]) -> list[Row]:
    for row in each(rows, "kubernetes", 60, 64):
        del row["pods"]["cpu-1"]
    return rows


def pod_is_told_to_end_under_a_job(rows: list[Row]) -> list[Row]:
    for row in each(rows, "kubernetes", 60, 64):
        row["pods"]["cpu-1"]["ending"] = True
    return rows


def container_starts_anew_under_a_job(rows: list[Row]) -> list[Row]:
    for row in each(rows, "kubernetes", 60):
        row["pods"]["cpu-1"]["restarts"] = 1
    return rows


def pod_ends_under_a_job_that_slurm_never_ends(rows: list[Row]) -> list[Row]:
    for row in each(rows, "kubernetes", 120, 124):
        row["pods"]["cpu-1"]["ending"] = True
    return canary_never_ends(rows)


def another_acts(rows: list[Row]) -> list[Row]:
    for row in each(rows, "kubernetes", 40):
        row["holder"] = OTHER
    return rows


def nothing_is_told(rows: list[Row]) -> list[Row]:
    for row in each(rows, "kubernetes"):
        row["conditions"]["NodeSet/cpu"].pop("DrainedByPeople", None)
    return rows


def it_is_told_too_late(rows: list[Row]) -> list[Row]:
    for row in each(rows, "kubernetes", 0, FAULT_AT + judge.TOLD_SECONDS + 1):
        row["conditions"]["NodeSet/cpu"].pop("DrainedByPeople", None)
    for row in each(rows, "kubernetes", FAULT_AT + judge.TOLD_SECONDS + 1, 90):
        row["conditions"]["NodeSet/cpu"]["DrainedByPeople"] = ["True", "DrainedByPeople", "admin: cpu-0 (bad-fan-1)"]
    return rows


def still_degraded(rows: list[Row]) -> list[Row]:
    for row in each(rows, "kubernetes", 100):
        row["conditions"]["SlurmCluster/dev"]["Degraded"] = ["True", "NodesDown", "cpu-0 is down"]
    return rows


def degraded_again_after_all_was_well(rows: list[Row]) -> list[Row]:
    for row in each(rows, "kubernetes", LAST - 4):
        row["conditions"]["SlurmCluster/dev"]["Degraded"] = ["True", "NodesDown", "cpu-0 is down"]
    return rows


def the_words_of_somebody_else_stay(rows: list[Row]) -> list[Row]:
    for row in each(rows, "kubernetes", 90):
        row["conditions"]["NodeSet/cpu"]["message"] = ["", "", "somebody else's words 7"]
    return rows


def degraded_for_more_than_five_minutes(rows: list[Row]) -> list[Row]:
    for row in each(rows, "kubernetes", 100, FAULT_OVER + judge.HEALTHY_SECONDS + 10):
        row["conditions"]["SlurmCluster/dev"]["Degraded"] = ["True", "NodesDown", "cpu-0 is down"]
    return rows


def a_node_stays_drained(rows: list[Row]) -> list[Row]:
    for row in each(rows, "slurm", 90):
        row["nodes"]["cpu-1"] = {"states": ["IDLE", "DRAIN"], "reason": "pulumi-slurm:scale-in", "user": "slurm"}
    return rows


def a_node_stays_away(rows: list[Row]) -> list[Row]:
    for row in each(rows, "slurm", 90):
        del row["nodes"]["cpu-0"]
    return rows


def a_removed_node_stays(rows: list[Row]) -> list[Row]:
    for row in each(rows, "slurm", 90):
        row["nodes"]["cpu-2"] = {"states": ["DOWN"], "reason": "", "user": ""}
    return rows


def a_workload_stays_unready(rows: list[Row]) -> list[Row]:
    for row in each(rows, "kubernetes", 90):
        row["unready"] = ["StatefulSet slurm-login: 0 of 1 pods are ready"]
    return rows


def the_machine_stays_cordoned(rows: list[Row]) -> list[Row]:
    for row in each(rows, "kubernetes", 90):
        row["machines"] = ["Kubernetes node dev is cordoned"]
    return rows


def nobody_holds_the_lease_in_the_end(rows: list[Row]) -> list[Row]:
    for row in each(rows, "kubernetes", 90):
        row["holder"] = ""
    return rows


def nobody_looks_afterwards(rows: list[Row]) -> list[Row]:
    return without(without(rows, "kubernetes", FAULT_OVER), "slurm", FAULT_OVER)


def blind_for_a_while(rows: list[Row]) -> list[Row]:
    return without(rows, "kubernetes", 100, 100 + judge.BLIND_SECONDS + 4)


def blind_for_slurm(rows: list[Row]) -> list[Row]:
    return without(rows, "slurm", 92, 92 + judge.BLIND_FOR_SLURM_SECONDS + 4)


def a_fault_did_not_begin(rows: list[Row]) -> list[Row]:
    next(row for row in rows if row["record"] == "begun")["trouble"] = "there is no such pod"
    return rows


def a_fault_did_not_end(rows: list[Row]) -> list[Row]:
    next(row for row in rows if row["record"] == "end")["trouble"] = "its end failed"
    return rows


def there_was_no_fault(rows: list[Row]) -> list[Row]:
    return [row for row in rows if row["record"] not in ("begin", "begun", "end")]


def a_fault_never_came(rows: list[Row]) -> list[Row]:
    rows[0]["planned"] = 2
    return rows


def there_was_no_canary(rows: list[Row]) -> list[Row]:
    return [row for row in rows if row["record"] != "canary"]


CANARY, PERSON, WORKER = "a canary ends but well", "a person's drain changes", "a worker pod ends under a job"
HOLDS, TOLD, HEALTHY = "another than the holder acts", "not told", "not healthy after the faults"
SEEN, FAILED = "not seen", "a fault failed"
BROKEN: list[tuple[Callable[[list[Row]], list[Row]], str]] = [
    (canary_fails, CANARY),
    (canary_fails_by_accounting_alone, CANARY),
    (canary_never_ends, CANARY),
    (canary_is_lost, CANARY),
    (a_task_is_lost, CANARY),
    (canary_runs_twice, CANARY),
    (canary_does_not_come_to_its_end, CANARY),
    (canary_printed_nothing, CANARY),
    (drain_is_lifted, PERSON),
    (reason_is_overwritten, PERSON),
    (author_is_overwritten, PERSON),
    (drained_record_goes, PERSON),
    (pod_is_another_under_a_job, WORKER),
    (pod_is_gone_under_a_job, WORKER),
    (pod_is_told_to_end_under_a_job, WORKER),
    (container_starts_anew_under_a_job, WORKER),
    (pod_ends_under_a_job_that_slurm_never_ends, WORKER),
    (another_acts, HOLDS),
    (nothing_is_told, TOLD),
    (it_is_told_too_late, TOLD),
    (still_degraded, HEALTHY),
    (degraded_again_after_all_was_well, HEALTHY),
    (degraded_for_more_than_five_minutes, HEALTHY),
    (a_node_stays_drained, HEALTHY),
    (the_words_of_somebody_else_stay, HEALTHY),
    (a_node_stays_away, HEALTHY),
    (a_removed_node_stays, HEALTHY),
    (a_workload_stays_unready, HEALTHY),
    (the_machine_stays_cordoned, HEALTHY),
    (nobody_holds_the_lease_in_the_end, HEALTHY),
    (nobody_looks_afterwards, HEALTHY),
    (blind_for_a_while, SEEN),
    (blind_for_slurm, SEEN),
    (a_fault_did_not_begin, FAILED),
    (a_fault_did_not_end, FAILED),
    (there_was_no_fault, FAILED),
    (a_fault_never_came, FAILED),
    (there_was_no_canary, SEEN),
]


@pytest.mark.parametrize(("spoil", "rule"), BROKEN, ids=[spoil.__name__ for spoil, _ in BROKEN])
def test_each_broken_promise_is_found(spoil: Callable[[list[Row]], list[Row]], rule: str) -> None:
    assert rule in rules(spoil(clean()))


def unsure_submission_never_seen(rows: list[Row]) -> list[Row]:
    return [*rows, {"record": "canary", "at": BEGAN + 20, "name": "canary-x-2", "tasks": 1, "sure": False}]


def pod_ends_after_its_job(rows: list[Row]) -> list[Row]:
    for row in each(rows, "kubernetes", 100, 110):
        row["pods"]["cpu-1"]["ending"] = True
    return rows


def idle_worker_goes(rows: list[Row]) -> list[Row]:
    for row in each(rows, "kubernetes", 40, 60):
        del row["pods"]["cpu-0"]
    return rows


def lease_moves_right_after_a_change(rows: list[Row]) -> list[Row]:
    for row in each(rows, "kubernetes", 51):
        row["holder"] = OTHER
    return rows


def lease_moved_right_before_a_change(rows: list[Row]) -> list[Row]:
    next(row for row in rows if row["record"] == "log")["pod"] = "slurm-operator-b2"
    return lease_moves_right_after_a_change(rows)


def slurm_is_away_for_a_minute(rows: list[Row]) -> list[Row]:
    return without(rows, "slurm", 30, 90)


def degraded_for_two_minutes(rows: list[Row]) -> list[Row]:
    for row in each(rows, "kubernetes", 30, 200):
        row["conditions"]["SlurmCluster/dev"]["Degraded"] = ["True", "NodesDown", "cpu-0 is down"]
    return rows


def a_condition_is_only_told_by_an_event(rows: list[Row]) -> list[Row]:
    fault = next(row for row in rows if row["record"] == "begin")
    fault |= {"kind": "login-deleted", "target": ""}
    text = "Event Warning AvailableFalse SlurmCluster/dev StatefulSet slurm-login: 0 of 1 ready"
    return [*rows, {"record": "event", "at": BEGAN + FAULT_AT + 4, "text": text}]


ALLOWED = [
    unsure_submission_never_seen,
    pod_ends_after_its_job,
    idle_worker_goes,
    lease_moves_right_after_a_change,
    lease_moved_right_before_a_change,
    slurm_is_away_for_a_minute,
    degraded_for_two_minutes,
    a_condition_is_only_told_by_an_event,
]


@pytest.mark.parametrize("change", ALLOWED, ids=lambda change: change.__name__)
def test_what_no_promise_forbids_is_no_violation(change: Callable[[list[Row]], list[Row]]) -> None:
    assert judged(change(clean())) == []


def test_the_order_of_records_does_not_matter() -> None:
    rows = canary_fails(clean())
    looks = [row for row in rows if row["record"] in ("kubernetes", "slurm", "event", "log")]
    others = [row for row in rows if row not in looks]
    assert judged([*others, *reversed(looks)]) == judged(rows)


def test_the_verdict_names_each_fault_each_violation_and_all_of_it() -> None:
    found = history.parse(map(json.dumps, drain_is_lifted(clean())))
    told = report.verdict(found, judge.judge(found))
    assert "#1 person-drained (cpu-0): told after" in told[0]
    assert "a person's drain changes: cpu-0 is IDLE, 'bad-fan-1' by admin" in told[1]
    assert told[-1] == "seed 7: 1 faults of 1 kinds, 1 canaries: VIOLATED 1 times"
    assert len(told) == 3


@pytest.mark.parametrize(("spoil", "status"), [(list, command.KEPT), (canary_fails, command.VIOLATED)])
def test_the_exit_status_is_the_verdict(
    spoil: Callable[[list[Row]], list[Row]], status: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "run.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in spoil(clean())))
    assert command.judged(file) == status
    assert ("VIOLATED" in capsys.readouterr().out) == bool(status)


@pytest.mark.parametrize("content", ["", "nonsense\n", '{"record": "slurm"}\n', '{"record": "tea"}\n', "[]\n"])
def test_a_file_of_somebody_else_is_refused_in_a_sentence(content: str, tmp_path: Path) -> None:
    file = tmp_path / "other.jsonl"
    file.write_text(content)
    with pytest.raises(ValueError, match=re.escape(str(file))):
        history.read(file)


LINES = {
    "operator-killed": f"Lease holder={OTHER}",
    "operator-stopped": f"Lease holder={OTHER}",
    "slurmrestd-killed": "Event Normal Started Pod/slurm-rest-6d5f-x Started container slurmrestd",
    "slurmrestd-stopped": "SlurmCluster/dev Available=Unknown RestUnreachable slurmrestd does not answer",
    "slurmctld-deleted": "Event Normal Killing Pod/slurm-controller-0 Stopping container controller",
    "slurmctld-stopped": "Event Warning AvailableUnknown SlurmCluster/dev slurmctld does not answer",
    "slurmdbd-stopped": "SlurmCluster/dev Degraded=True AccountingNotReady accounting: slurmdbd is not ready yet",
    "database-deleted": "Event Normal Killing Pod/slurm-database-0 Stopping container database",
    "login-deleted": "SlurmCluster/dev Available=False LoginNotReady StatefulSet slurm-login: 0 of 1 ready",
    "object-edited": "Event Normal Heal SlurmCluster/dev restored Service slurm-rest: spec.selector (by python-httpx)",
    "object-deleted": "Event Normal Heal SlurmCluster/dev restored Service slurm-rest, which was deleted",
    "template-edited": "Event Normal Heal SlurmCluster/dev restored Service slurm-rest: spec.template",
    "workers-orphaned": "Event Normal Heal SlurmCluster/dev restored Service slurm-rest, which was deleted",
    "scaled-out": "NodeSet/cpu ScaledOutsidePulumi=True ReplicasDiffer kubectl asked for 3 nodes",
    "scaled-in": "NodeSet/cpu ScaledOutsidePulumi=True ReplicasDiffer kubectl asked for 1 nodes",
    "person-drained": "NodeSet/cpu DrainedByPeople=True DrainedByPeople drained by admin: cpu-0 (bad-fan-1)",
    "person-failed": "SlurmCluster/dev DrainedByPeople=True DrainedByPeople drained by admin: cpu-0 (bad-fan-1)",
    "check-failed": "NodeSet/cpu Degraded=True NodesDrained drained: cpu-0 (pulumi-slurm:health space: /tmp has less)",
    "machine-cordoned": "NodeSet/cpu Degraded=True NodesDrained drained: cpu-0 (pulumi-slurm:node dev is cordoned)",
}


def test_each_kind_that_has_to_be_told_is_told_by_its_own_words_alone() -> None:
    note = {"holder": HOLDER, "reason": "bad-fan-1"}
    patterns = {name: kind.told_by("Service slurm-rest", note) for name, kind in KINDS.items()}
    telling = {name: pattern for name, pattern in patterns.items() if pattern}
    assert set(telling) == set(LINES)
    assert [name for name, pattern in telling.items() if not pattern.search(LINES[name])] == []
    calm = History(kubernetes=[history.kubernetes({k: v for k, v in kubernetes(0).items() if k != "record"})])
    quiet = [line for seen in calm.kubernetes for line in seen.lines()]
    assert [name for name, pattern in telling.items() if any(map(pattern.search, quiet))] == []
