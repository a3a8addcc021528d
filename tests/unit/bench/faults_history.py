"""A history of a run of faults that kept all promises, for tests to spoil."""

from __future__ import annotations

import copy
import json
from typing import Any

from bench.faults.verdict import history, judge

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
    seen = {"pods": pods, "conditions": conditions, "holder": HOLDER, "unready": [], "node_problems": []}
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
        {"record": "printed", "name": "canary-x-1", "lines": ["begin 1000030", "step 1 1000060", "end 1000090"]},
        {"record": "finished", "at": BEGAN + LAST},
    ]


def each(rows: list[Row], record: str, first: float = 0, last: float = LAST) -> list[Row]:
    """Records of a kind within some seconds, for a test to change."""
    return [row for row in rows if row["record"] == record and first <= row["at"] - BEGAN < last]


def without(rows: list[Row], record: str, first: float = 0, last: float = LAST) -> list[Row]:
    gone = each(rows, record, first, last)
    return [row for row in rows if row not in gone]


def judged(rows: list[Row]) -> list[judge.Violation]:
    return judge.judge(history.parse(map(json.dumps, rows)))


def rules(rows: list[Row]) -> set[str]:
    return {violation.rule for violation in judged(rows)}


def canary_fails(rows: list[Row]) -> list[Row]:
    for row in each(rows, "slurm", 90):
        row["jobs"][0]["state"] = "NODE_FAIL"
    return rows


def canary_never_ends(rows: list[Row]) -> list[Row]:
    for row in each(rows, "slurm", 90):
        row["jobs"][0] |= {"state": "RUNNING"}
    next(row for row in rows if row["record"] == "account")["state"] = "RUNNING"
    return rows


def as_fault(rows: list[Row], kind: str, target: str = "") -> list[Row]:
    """The same run with a fault of which nobody has to tell."""
    next(row for row in rows if row["record"] == "begin").update(kind=kind, target=target)
    return rows


def drain_is_lifted(rows: list[Row]) -> list[Row]:
    for row in each(rows, "slurm", 40, 50):
        row["nodes"]["cpu-0"]["states"] = ["IDLE"]
    return rows
