"""The judge finds each kind of broken promise in a history, and nothing in one that kept them all."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from bench.faults.verdict import judge
from tests.unit.bench.faults_history import (
    BEGAN,
    FAULT_AT,
    FAULT_OVER,
    LAST,
    OTHER,
    Row,
    as_fault,
    canary_fails,
    canary_never_ends,
    clean,
    drain_is_lifted,
    each,
    judged,
    rules,
    without,
)


def test_a_history_that_kept_all_promises_is_clean() -> None:
    assert judged(clean()) == []


# Each takes the clean history and spoils it.


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


def slurmctld_does_not_come_back(rows: list[Row]) -> list[Row]:
    return as_fault(without(rows, "slurm", FAULT_OVER, FAULT_OVER + judge.TOLD_SECONDS + 2), "slurmctld-killed")


def slurmdbd_does_not_come_back(rows: list[Row]) -> list[Row]:
    for row in each(rows, "kubernetes"):
        ready = row["at"] - BEGAN < FAULT_OVER
        row["pods"]["slurm-accounting-0"] = {**row["pods"]["cpu-0"], "component": "accounting", "ready": ready}
    return as_fault(rows, "slurmdbd-killed")


def a_node_is_not_heard_of_again(rows: list[Row]) -> list[Row]:
    for row in each(rows, "slurm", FAULT_OVER):
        row["nodes"]["cpu-1"]["states"] = ["DOWN", "NOT_RESPONDING"]
    return as_fault(rows, "slurmd-killed", "cpu-1")


def a_kubernetes_node_stays_away(rows: list[Row]) -> list[Row]:
    for row in each(rows, "kubernetes", FAULT_OVER):
        row["node_problems"] = ["Kubernetes node dev is not ready"]
    return as_fault(rows, "kubelet-stopped")


def the_api_server_does_not_come_back(rows: list[Row]) -> list[Row]:
    return as_fault(without(rows, "kubernetes", FAULT_OVER), "api-server-stopped")


def somebody_elses_words_outlive_him(rows: list[Row]) -> list[Row]:
    for row in each(rows, "kubernetes", FAULT_OVER, FAULT_OVER + judge.TOLD_SECONDS + 2):
        row["conditions"]["NodeSet/cpu"]["message"] = ["", "", "somebody else's words 7"]
    return as_fault(rows, "status-contested")


def a_deep_queue_leaves_the_status_unknown(rows: list[Row]) -> list[Row]:
    for row in each(rows, "kubernetes", FAULT_AT, FAULT_OVER + judge.TOLD_SECONDS + 2):
        row["conditions"]["SlurmCluster/dev"]["Available"] = ["Unknown", "RestUnreachable", "no answer in time"]
    return as_fault(rows, "queue-deep")


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


def the_kubernetes_node_stays_cordoned(rows: list[Row]) -> list[Row]:
    for row in each(rows, "kubernetes", 90):
        row["node_problems"] = ["Kubernetes node dev is cordoned"]
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


PERSON, WORKER = "a person's drain changes", "a worker pod ends under a job"
HOLDS, TOLD, HEALTHY = "another than the holder acts", "not told", "not healthy after the faults"
SEEN, FAILED, OVER = "not seen", "a fault failed", "not over"
BROKEN: list[tuple[Callable[[list[Row]], list[Row]], str]] = [
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
    (slurmctld_does_not_come_back, OVER),
    (slurmdbd_does_not_come_back, OVER),
    (a_node_is_not_heard_of_again, OVER),
    (a_kubernetes_node_stays_away, OVER),
    (the_api_server_does_not_come_back, OVER),
    (somebody_elses_words_outlive_him, OVER),
    (a_deep_queue_leaves_the_status_unknown, OVER),
    (still_degraded, HEALTHY),
    (degraded_again_after_all_was_well, HEALTHY),
    (degraded_for_more_than_five_minutes, HEALTHY),
    (a_node_stays_drained, HEALTHY),
    (the_words_of_somebody_else_stay, HEALTHY),
    (a_node_stays_away, HEALTHY),
    (a_removed_node_stays, HEALTHY),
    (a_workload_stays_unready, HEALTHY),
    (the_kubernetes_node_stays_cordoned, HEALTHY),
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


def a_fault_that_nobody_tells_has_passed(rows: list[Row]) -> list[Row]:
    return as_fault(rows, "slurmd-killed", "cpu-1")


def slurmdbd_came_back(rows: list[Row]) -> list[Row]:
    for row in each(rows, "kubernetes", FAULT_OVER + 20):
        row["pods"]["slurm-accounting-0"] = {**row["pods"]["cpu-0"], "component": "accounting"}
    return as_fault(rows, "slurmdbd-killed")


ALLOWED = [
    a_fault_that_nobody_tells_has_passed,
    slurmdbd_came_back,
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
