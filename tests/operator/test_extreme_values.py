"""Promises about the smallest and largest values that the CRDs take: a pass decides with them, and tells them."""

from __future__ import annotations

import copy
import datetime
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from slurm_operator.decide.cluster import status
from slurm_operator.decide.cluster.checks import long_checks
from slurm_operator.decide.cluster.checks.ledger import Latest, Ledger, Verdict
from slurm_operator.decide.node_sets import k8s_nodes, node_set, records, remediate, window
from slurm_operator.decide.nodes import hanging_jobs
from slurm_operator.decide.nodes.workers import NodeSetState
from slurm_operator.parse.resources import parse_cluster, parse_node_set
from slurm_operator.state.kubernetes import K8sNode, Workload
from slurm_operator.state.slurm import FullListing, SeenQuietJob, SlurmNode

from components.control.crds import files
from contract import reasons
from tests.operator.states.fixed_names import FIXED_NAMES
from tests.operator.states.sets import NOW, node, pod

LONG_AGO = NOW - datetime.timedelta(hours=2)
CRDS = {crd["spec"]["names"]["kind"]: crd for crd in files.definitions()}
Path = tuple[str, ...]
UNBOUNDED_BEFORE = ("afterSeconds", "everySeconds")
"""Numbers without a maximum before edition 15 of the CRDs."""


def spec_of(kind: str) -> dict[str, Any]:
    (version,) = CRDS[kind]["spec"]["versions"]
    schema: dict[str, Any] = version["schema"]["openAPIV3Schema"]["properties"]["spec"]
    return schema


def numbers(schema: Mapping[str, Any], path: Path = ()) -> Iterator[tuple[Path, Mapping[str, Any]]]:
    """Yield each number of a spec with its schema; `*` stands for the items of a list."""
    if schema.get("type") == "integer" or schema.get("x-kubernetes-int-or-string"):
        yield path, schema
    for key, inner in schema.get("properties", {}).items():
        yield from numbers(inner, (*path, key))
    if "items" in schema:
        yield from numbers(schema["items"], (*path, "*"))


def ends(kind: str) -> Iterator[tuple[Path, int]]:
    """Yield each number with its least and its largest value; resources of older editions have some that are larger."""
    for path, schema in numbers(spec_of(kind)):
        yield path, schema["minimum"]
        yield path, schema.get("maximum", 2**31 - 1)
        if path[-1] in UNBOUNDED_BEFORE:
            yield path, 2**63 - 1


def with_value(spec: dict[str, Any], path: Path, value: object) -> dict[str, Any]:
    changed = copy.deepcopy(spec)
    place: Any = changed
    for key in path[:-1]:
        place = place[0] if key == "*" else place.setdefault(key, {})
    place[path[-1]] = value
    return changed


NODE_SET: dict[str, Any] = {
    "cluster": "test",
    "statefulSet": "cpu",
    "replicas": 2,
    "removal": {"jobs": "deadline", "deadlineSeconds": 60},
    "update": {"maxUnavailable": 1, "deadlineSeconds": 60, "window": {"start": "Sun 03:00", "durationSeconds": 600}},
    "reactions": {"restart": True, "replace": True},
}


def decide_about(spec: dict[str, Any]) -> None:
    """Decide about a set with an outdated node, an unfit one and one that leaves, and tell of it."""
    read = parse_node_set({"metadata": {"name": "cpu"}, "spec": spec})
    pods = {f"cpu-{n}": pod(f"cpu-{n}", created=LONG_AGO, k8s_node="m", revision="old", uid="7") for n in range(3)}
    workload = Workload("cpu", 3, 3, "7", revision="new")
    size = NodeSetState(read, workload, pods, NOW, k8s_nodes={"m": K8sNode(away_since=LONG_AGO)}, reservations=())
    unfit: dict[str, Any] = {"reason": f"{reasons.JAIL}: stale", "reason_user": "root", "reason_set": LONG_AGO}
    leaves: dict[str, Any] = {"reason": reasons.SCALE_IN, "reason_user": "slurm", "reason_set": LONG_AGO}
    nodes = {
        "cpu-0": node("cpu-0"),
        "cpu-1": SlurmNode("cpu-1", frozenset({"IDLE", "DRAIN"}), **unfit),
        "cpu-2": SlurmNode("cpu-2", frozenset({"MIXED", "DRAIN"}), allocated_cpus=1, **leaves),
    }
    state = size.seen(nodes, FullListing(nodes, (), records.named((), ())), ())
    decided = node_set.decide(state)
    assert not decided.defects
    counts, _ = status.node_set(state)
    assert counts.wanted == read.replicas
    assert decided.plan.restarts is not None
    waiting = frozenset({"cpu-0"})
    for told in (k8s_nodes.held(state), remediate.findings(state), window.findings(state, waiting)):
        assert isinstance(told, list)


@pytest.mark.parametrize(("path", "value"), ends("NodeSet"), ids=str)
def test_a_node_set_is_decided_about_whatever_number_it_has(path: Path, value: int) -> None:
    decide_about(with_value(NODE_SET, path, value))


@pytest.mark.parametrize("start", ["9999-12-31T23:59Z", "0001-01-01T00:00Z", "Sat 23:59"])
@pytest.mark.parametrize("seconds", [600, 604800])
def test_a_window_may_be_at_the_end_of_the_calendar(start: str, seconds: int) -> None:
    decide_about(with_value(NODE_SET, ("update", "window"), {"start": start, "durationSeconds": seconds}))


CLUSTER: dict[str, Any] = {
    "revision": "r1",
    **FIXED_NAMES,
    "longChecks": [
        {"name": "disk", "partition": "main", "nodeSets": ["cpu"], "everySeconds": 600, "timeLimitMinutes": 1}
        | {"sharePercent": 100, "drains": True, "script": "#!/bin/sh\n"}
    ],
    "hangs": [{"partition": "main", "afterSeconds": 600, "requeues": True}],
}


@pytest.mark.parametrize(("path", "value"), ends("SlurmCluster"), ids=str)
def test_so_is_what_a_cluster_says_of_checks_and_of_jobs_that_hang(path: Path, value: int) -> None:
    read = parse_cluster({"metadata": {"name": "test"}, "spec": with_value(CLUSTER, path, value)})
    pods = {"cpu-0": pod("cpu-0")}
    nodes = {"cpu-0": SlurmNode("cpu-0", frozenset({"IDLE"}))}
    set_of = parse_node_set({"metadata": {"name": "cpu"}, "spec": NODE_SET})
    state = NodeSetState(set_of, Workload("cpu", 1, 1, "7"), pods, NOW).seen(nodes)
    ledger = Ledger(latest={("disk", "cpu-0"): Latest(Verdict.PASS, LONG_AGO)})
    long_checks.decide(read.long_checks, {"cpu": state}, ledger, ledger, {}, NOW, nodes, (), {})
    quiet = SeenQuietJob(1, frozenset({"RUNNING"}), "main", frozenset({"cpu-0"}))
    known = hanging_jobs.Ledger()
    since = {1: {"cpu-0": LONG_AGO}}
    decided = hanging_jobs.decide(read.hangs, since, {1: quiet}, known, known, nodes, NOW)
    assert bool(decided.ledger.jobs) == (value <= 7200 or "afterSeconds" not in path)


def test_each_number_of_a_spec_is_tried() -> None:
    assert {path[-1] for path, _ in ends("NodeSet")} >= {"replicas", "afterSeconds", "maxUnavailable", "perHour"}
    assert {path[-1] for path, _ in ends("SlurmCluster")} >= {"everySeconds", "afterSeconds", "nodes", "passes"}
