"""Promises about deleting NodeSets: no job is killed unless that is asked for, and nothing is left behind."""

from __future__ import annotations

import dataclasses
import datetime
from pathlib import Path
from typing import Any

import pytest
from slurm_operator.decide.node_sets import deletion
from slurm_operator.decide.nodes.workers import NodeSetState
from slurm_operator.findings import Finding
from slurm_operator.parse.resources import parse_node_set
from slurm_operator.state.kubernetes import Pod, Workload
from slurm_operator.state.resources import NodeSet, RemovalPolicy
from slurm_operator.state.slurm import Nodes, SlurmJob, SlurmNode, Unknown

from tests.operator.fakes.fake_slurmrestd import FakeSlurmrestd
from tests.operator.states.sets import NOW, job, leaving, node, pod
from tests.operator.worlds.world import World, custom, operator, until

GOING = NodeSet("cpu", "test", "cpu", 0, finalizer_url="http://slurm-rest:6820", deleting=True)
BLIND = Unknown("RestUnreachable", "no answer in time")
ASKS = dataclasses.replace(job(7, "PENDING"), names=frozenset({"cpu-0"}))


def judge(
    size: int,
    pods: list[Pod],
    nodes: list[SlurmNode] | Unknown,
    jobs: list[SlurmJob] | Unknown | None = None,
    *,
    node_set: NodeSet = GOING,
    exists: bool = True,
    cluster_stays: bool = True,
) -> deletion.RemoveFinalizer | Finding:
    workload = Workload("cpu", size, size, "7") if exists else None
    state = NodeSetState(node_set, workload, {each.name: each for each in pods}, NOW)
    seen: Nodes | Unknown = nodes if isinstance(nodes, Unknown) else {each.name: each for each in nodes}
    known = jobs if isinstance(jobs, Unknown) else tuple(jobs or ())
    return deletion.judge(state.seen(seen, jobs=known), cluster_stays=cluster_stays)


@pytest.mark.parametrize(
    ("reason", "words", "seen"),
    [
        ("WaitingForJobs", "waits for the end of job 7 (cpu-0)", {"jobs": [job(7, "RUNNING", "cpu-0")]}),
        ("WaitingForJobs", "job 7 (cpu-0)", {"jobs": [job(7, "SUSPENDED", "cpu-0"), job(8, "RUNNING", "gpu-0")]}),
        ("WaitingForJobs", "force-delete=true", {"jobs": [job(7, "COMPLETING", "cpu-0")]}),
        ("Draining", "its 1 nodes", {"nodes": [node("cpu-0")]}),
        ("Draining", "its 1 nodes", {"nodes": [leaving("cpu-0")]}),
        ("DeletionHeld", "no answer in time", {"nodes": BLIND}),
        ("DeletionHeld", "force-delete=true", {"nodes": BLIND, "cluster_stays": False}),
        ("PodsEnding", "cpu-0", {"size": 0}),
        ("PodsWithoutStatefulSet", "cpu-0", {"size": 0, "exists": False}),
        ("RecordsLeft", "records of cpu-0, which stay", {"size": 0, "pods": []}),
        ("RecordsLeft", "names their nodes: job 7 (waits)", {"size": 0, "pods": [], "jobs": [ASKS]}),
        ("DeletionHeld", "records", {"size": 0, "pods": [], "nodes": BLIND}),
    ],
)
def test_a_node_set_waits_and_says_for_what(reason: str, words: str, seen: dict[str, Any]) -> None:
    usual: dict[str, Any] = {"size": 1, "pods": [pod("cpu-0")], "nodes": [leaving("cpu-0")]}
    found = judge(**(usual | seen))
    assert isinstance(found, Finding)
    assert found.reason == reason
    assert words in found.message


@pytest.mark.parametrize(
    "seen",
    [
        {"nodes": [node("gpu-0")]},
        {"nodes": [], "exists": False},
        {"nodes": [leaving("cpu-0")], "cluster_stays": False},
        {"nodes": BLIND, "cluster_stays": False},
    ],
)
def test_a_node_set_goes_when_nothing_of_it_is_left(seen: dict[str, Any]) -> None:
    found = judge(0, [], **seen)
    assert isinstance(found, deletion.RemoveFinalizer)
    assert (found.workload is not None) == seen.get("exists", True), "its StatefulSet goes first"


def test_force_goes_at_once_and_takes_the_pods_with_it() -> None:
    forced = dataclasses.replace(GOING, forced=True)
    found = judge(1, [pod("cpu-0")], BLIND, [job(7, "RUNNING", "cpu-0")], node_set=forced)
    assert isinstance(found, deletion.RemoveFinalizer)
    assert found.workload is not None


def test_what_a_deadline_does_and_when_is_said() -> None:
    policy = dataclasses.replace(GOING, removal=RemovalPolicy(3600))
    drained = dataclasses.replace(leaving("cpu-0", "MIXED", cpus=1), reason_set=NOW - datetime.timedelta(seconds=600))
    for record, when in ((drained, "at 2026-01-01 00:50:00 UTC"), (node("cpu-0", "MIXED", cpus=1), "3600 s after the")):
        found = judge(1, [pod("cpu-0")], [record], [job(7, "RUNNING", "cpu-0")], node_set=policy)
        assert isinstance(found, Finding)
        assert f"job 7 (cpu-0), but {when}" in found.message


def test_what_became_of_jobs_is_said() -> None:
    again, ended = dataclasses.replace(job(7, "RUNNING", "cpu-0"), requeues=True), job(8, "RUNNING", "cpu-0")
    elsewhere = job(9, "RUNNING", "cpu-1")
    assert deletion.fates([again, ended, elsewhere], "cpu-0") == "requeued 7; ended 8, which may not be requeued"
    unknown = deletion.fates(Unknown("TooManyJobs", "there are too many"), "cpu-0")
    assert unknown == "those that may be are requeued, the others ended (there are too many)"


def test_nodes_are_named_when_their_jobs_are_not_known() -> None:
    unknown = Unknown("TooManyJobs", "there are too many")
    found = judge(1, [pod("cpu-0")], [node("cpu-0", "MIXED", cpus=1)], unknown)
    assert isinstance(found, Finding)
    assert found.reason == "WaitingForJobs"
    assert "waits for the end of the jobs on cpu-0" in found.message


@pytest.mark.parametrize(("jobs", "forced"), [("wait", False), ("deadline", False), ("force", True)])
def test_only_the_policy_force_asks_nobody(jobs: str, forced: bool) -> None:
    body = custom("NodeSet", "cpu", {"cluster": "test", "statefulSet": "cpu", "removal": {"jobs": jobs}})
    assert parse_node_set(body).forced is forced


def gone(world: World) -> bool:
    return "cpu" not in world.names("nodesets") + world.names("statefulsets")


@pytest.mark.apiserver
def test_the_command_that_kills_the_jobs_names_the_namespace_of_the_node_set() -> None:
    metadata = {"name": "cpu", "namespace": "hpc", "deletionTimestamp": "2026-01-01T00:00:00Z"}
    going = parse_node_set({"metadata": metadata, "spec": {"cluster": "test", "statefulSet": "cpu"}})
    state = NodeSetState(going, Workload("cpu", 1, 1, "7"), {}, NOW).seen(Unknown("RestUnreachable", "no answer"))
    waits = deletion.judge(state, cluster_stays=True)
    assert isinstance(waits, Finding)
    assert waits.message.endswith("kubectl -n hpc annotate nodeset cpu pulumi-slurm.dev/force-delete=true")


def test_a_deleted_node_set_waits_for_its_job_and_leaves_nothing(running_operator: World) -> None:
    world = running_operator
    world.wait("Available", "True")
    job_id = world.slurm.run_job("cpu-1")
    world.delete("nodesets", "cpu")
    told = world.wait("Available", "False", "WaitingForJobs", plural="nodesets", name="cpu")
    assert f"waits for the end of job {job_id} (cpu-1)" in told["message"]
    assert world.get("nodesets", "cpu")["status"]["message"] == told["message"], "it is what people see first"
    assert world.wait("Progressing", "True", "WaitingForJobs")["message"] == told["message"]
    assert world.condition("Available")["status"] == "True", "what leaves does not block the cluster"
    until(lambda: ("WaitingForJobs", told["message"]) in world.events(), "it has its Event")
    assert world.size() == 2
    world.slurm.end_job(job_id)
    until(lambda: gone(world), "the node set and its StatefulSet go")
    assert (world.slurm.killed, world.slurm.nodes) == ([], {})


@pytest.mark.apiserver
def test_a_deletion_goes_on_after_the_cluster_is_gone_and_the_operator_began_anew(
    cluster: World, tmp_path: Path, kubeconfig: Path, port: int
) -> None:
    cluster.declare()
    with operator(cluster, tmp_path, kubeconfig, port):
        cluster.wait("Available", "True")
    assert cluster.names("leases") == [], "an operator that ends leaves no Lease"
    job_id = cluster.slurm.run_job("cpu-0")
    cluster.delete("slurmclusters", "test")
    cluster.delete("nodesets", "cpu")
    with operator(cluster, tmp_path, kubeconfig, port):
        cluster.wait("Available", "False", "WaitingForJobs", plural="nodesets", name="cpu")
        until(lambda: cluster.size() == 1, "what is idle goes already")
        cluster.slurm.end_job(job_id)
        until(lambda: gone(cluster), "the node set and its StatefulSet go")
    assert cluster.slurm.killed == []


@pytest.mark.apiserver
def test_a_deletion_is_held_while_slurm_cannot_be_seen_until_it_is_forced(
    running_operator: World, slurm: FakeSlurmrestd
) -> None:
    world = running_operator
    world.wait("Available", "True")
    slurm.refuse()
    world.delete("slurmclusters", "test")
    world.delete("nodesets", "cpu")
    told = world.wait("Available", "False", "DeletionHeld", plural="nodesets", name="cpu")
    command = f"kubectl -n {world.namespace} annotate nodeset cpu pulumi-slurm.dev/force-delete=true"
    assert command in told["message"]
    assert world.size() == 2
    world.patch("nodesets", "cpu", {"metadata": {"annotations": {"pulumi-slurm.dev/force-delete": "true"}}})
    until(lambda: gone(world), "it goes, and its pods with the StatefulSet")


@pytest.mark.apiserver
def test_at_the_deadline_jobs_are_requeued_or_ended_with_words_and_the_node_set_goes(running_operator: World) -> None:
    world = running_operator
    world.wait("Available", "True")
    first, last = world.slurm.run_job("cpu-0"), world.slurm.run_job("cpu-1", requeue=False)
    world.slurm.drain("cpu-0", "bad disk", "root")
    world.patch("nodesets", "cpu", {"spec": {"removal": {"jobs": "deadline", "deadlineSeconds": 1}}})
    world.delete("nodesets", "cpu")
    told = "took the jobs of cpu-1, its deadline has passed: "
    until(lambda: world.size() == 1, "the node that we drained goes")
    expected = ("RequeueJobs", f"{told}ended {last}, which may not be requeued")
    until(lambda: expected in world.events(), "its Event says what became of the job")
    assert world.slurm.killed == [last]
    record = world.slurm.nodes["cpu-0"]
    assert (record["reason"], world.slurm.jobs[first]["job_state"]) == ("bad disk", ["RUNNING"]), "not ours to take"
    world.slurm.end_job(first)
    until(lambda: gone(world), "the node set and its StatefulSet go")


@pytest.mark.apiserver
def test_the_policy_force_ends_pods_without_asking_slurm(running_operator: World, slurm: FakeSlurmrestd) -> None:
    world = running_operator
    world.wait("Available", "True")
    world.patch("nodesets", "cpu", {"spec": {"removal": {"jobs": "force"}}})
    slurm.refuse()
    world.delete("nodesets", "cpu")
    until(lambda: gone(world), "it goes, and its pods with the StatefulSet")
