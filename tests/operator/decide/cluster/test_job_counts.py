"""Promises about counts of jobs: they have a bound, never say what is not so, and cost what has changed."""

from __future__ import annotations

import asyncio
import dataclasses
import datetime
import json
from pathlib import Path
from typing import Any

import hypothesis
import jsonschema
import pytest
from hypothesis import strategies as st
from slurm_operator.clients.slurm import job_listing
from slurm_operator.clients.slurm.job_census import JobCensus
from slurm_operator.decide.cluster import job_counts
from slurm_operator.state.kubernetes import Kubernetes
from slurm_operator.state.resources import NodeSet
from slurm_operator.state.slurm import Census, Facts, SlurmJob, SlurmNode, TooDeep, Unknown

from components.control.crds import job_counts as schema
from components.preflight import counted_jobs
from components.preflight.counted_jobs import CountedJobs, NodeSetJobs, NodesJobs, Number
from tests.operator.played.played_listing import Clock, PlayedRest
from tests.operator.states.seen_clusters import NOW, workload, world
from tests.operator.worlds.world import World, operator, until

HOUR = datetime.timedelta(hours=1)


def job(number: int, state: str = "RUNNING", partitions: str = "main", nodes: str = "cpu-0", **more: Any) -> SlurmJob:
    there = frozenset(nodes.split(",")) if state == "RUNNING" else frozenset[str]()
    return SlurmJob(number, frozenset({state}), frozenset(partitions.split(",")), there, **more)


def seen(**sizes: int) -> Kubernetes:
    """Node sets of that many nodes, each node with 4 CPUs and 900 MiB, of which Slurm keeps 100."""
    sets = tuple(NodeSet(name, "test", name, size) for name, size in sizes.items())
    facts = Facts(4, 900, options=(("MemSpecLimit", 100),))
    workloads = {name: dataclasses.replace(workload(name, size), facts=facts) for name, size in sizes.items()}
    return dataclasses.replace(world(), node_sets=sets, workloads=workloads)


def counted(*jobs: SlurmJob | tuple[SlurmJob, int], **sizes: int) -> CountedJobs:
    """Counts as a preview reads them."""
    weighed = tuple(each if isinstance(each, tuple) else (each, 1) for each in jobs)
    counts = job_counts.summary(Census(weighed), seen(**(sizes or {"cpu": 2})), {}, NOW)
    jsonschema.validate(counts, schema.job_counts())
    return counted_jobs.read({"jobs": json.loads(json.dumps(counts))})


def test_a_preview_reads_what_the_operator_counts() -> None:
    read = counted(
        job(1, limit_minutes=60, nodes="cpu-0,cpu-2", ends=NOW + HOUR),
        job(2, nodes="cpu-2,big-mem-1"),
        job(3, nodes="big-mem-0", ends=NOW),
        job(4, "COMPLETING", nodes="cpu-1"),
        (job(5, "PENDING", "main,side", limit_minutes=10, account="bio", qos="long", cpus_per_node=3, node_count=2), 4),
        job(6, "PENDING", account="physics", memory_per_node=500),
        cpu=3,
        **{"big-mem": 2},
    )
    main, side = read.partitions["main"], read.partitions["side"]
    assert (read.counted_at, read.unknown, read.unread) == (NOW, "", 0)
    assert (main.running.jobs, main.waiting.jobs, side.running.jobs, side.waiting.jobs) == (3, 5, 0, 4)
    assert (main.running.limits.between(59), main.running.limits.between(60)) == (Number(3, 3), Number(2, 2))
    assert main.running.node_sets == {"cpu": 2, "big-mem": 2}
    assert (main.waiting.accounts, main.waiting.qos) == ({"bio": 4, "physics": 1}, {"long": 4})
    assert (main.waiting.cpus.between(2), main.waiting.nodes.between(1)) == (Number(4, 4), Number(4, 4))
    assert main.waiting.memory.between(499, 500) == Number(1, 1)
    assert read.node_sets == {
        "cpu": NodeSetJobs(3, 4, 800, (NodesJobs(2, 2, 2, None),)),
        "big-mem": NodeSetJobs(2, 4, 800, (NodesJobs(0, 0, 1, NOW), NodesJobs(1, 1, 1, None))),
    }


LIMITS = st.lists(st.integers(1, 40) | st.none(), max_size=60)


@hypothesis.given(limits=LIMITS, above=st.integers(0, 41))
def test_counts_bound_the_truth_and_are_exact_as_long_as_values_are_few(limits: list[int | None], above: int) -> None:
    read = counted(*(job(number, limit_minutes=limit) for number, limit in enumerate(limits)))
    main = read.partitions.get("main", counted_jobs.PartitionJobs())
    truth = sum(limit is None or limit > above for limit in limits)
    said = main.running.limits.between(above)
    assert said.least <= truth <= said.most
    assert sum(span.jobs for span in main.running.limits.spans) == len(limits)
    assert len(main.running.limits.spans) <= job_counts.MOST_SPANS
    if len({*limits}) <= job_counts.MOST_SPANS:
        assert said.least == said.most


def test_the_size_of_counts_has_a_bound() -> None:
    many = [
        job(
            number,
            "PENDING" if number % 3 else "RUNNING",
            f"partition-{number % 300}",
            f"cpu-{number % 400}",
            limit_minutes=number,
            account=f"account-{number}",
            qos=f"qos-{number}",
            cpus_per_node=number,
            memory_per_node=number,
            node_count=number,
        )
        for number in range(20_000)
    ]
    counts = job_counts.summary(Census(tuple((each, 5) for each in many)), seen(cpu=400), {}, NOW)
    assert len(json.dumps(counts)) < 200_000
    read = counted_jobs.read({"jobs": counts})
    assert (len(read.partitions), read.left_out) == (job_counts.MOST_PARTITIONS, 200)
    assert read.of("partition-299") is None
    waiting = read.partitions["partition-1"].waiting
    assert sum(waiting.accounts.values()) == waiting.jobs


def test_a_queue_that_is_too_deep_is_said_to_be_unknown() -> None:
    deep = TooDeep("TooManyJobs", "the queue is not listed")
    nodes = {name: SlurmNode(name, frozenset({"MIXED"}), allocated_cpus=1) for name in ("cpu-1", "cpu-2", "other")}
    read = counted_jobs.read({"jobs": job_counts.summary(deep, seen(cpu=2), nodes, NOW)})
    assert (read.unknown, read.of("main")) == ("the queue is not listed", None)
    assert read.node_sets["cpu"].replicas == 2
    assert read.node_sets["cpu"].busy.between(0) == Number(2, 2)


def test_counts_that_stay_are_written_again_only_now_and_then() -> None:
    before = job_counts.summary(Census(()), seen(cpu=2), {}, NOW)
    same = job_counts.summary(Census(()), seen(cpu=2), {}, NOW + datetime.timedelta(minutes=9))
    assert job_counts.told(same, before) is before
    late = job_counts.summary(Census(()), seen(cpu=2), {}, NOW + job_counts.REPEATED_AFTER)
    assert job_counts.told(late, before) is late
    other = job_counts.summary(Census(()), seen(cpu=3), {}, NOW)
    assert job_counts.told(other, before) is other
    assert (job_counts.told(None, before), job_counts.told(before, None)) == (before, before)
    assert job_counts.told(None, None) is None


def take(census: JobCensus, rest: PlayedRest) -> Census:
    rest.asked.clear()
    census._listing.begin_pass()
    taken = asyncio.run(census.take(rest, 20))
    assert isinstance(taken, Census), taken
    return taken


def test_a_census_reads_a_job_when_it_is_new_changed_or_old() -> None:
    clock, rest = Clock(), PlayedRest({"7": "PENDING", "8": "RUNNING", "9": "COMPLETED"})
    census = JobCensus(job_listing.JobListing(clock), clock)
    assert {each.job_id for each, _ in take(census, rest).jobs} == {7, 8}
    assert rest.asked == ["states", "7", "8"]
    take(census, rest)
    assert rest.asked == ["states"]
    rest.states |= {"7": "RUNNING", "8": "COMPLETED", "10": "PENDING"}
    taken = take(census, rest)
    assert rest.asked == ["states", "10", "7"]
    assert {each.job_id: "PENDING" in each.states for each, _ in taken.jobs} == {7: False, 10: True}
    clock.now += job_listing.NAMES_SECONDS
    take(census, rest)
    assert rest.asked == ["states", "10", "7"]


def test_a_census_of_many_jobs_takes_several_looks() -> None:
    many = {str(number): "PENDING" for number in range(1000, 1050 + job_listing.MOST_LOOKED_AT)}
    census = JobCensus(job_listing.JobListing())
    rest = PlayedRest(many)
    first = take(census, rest)
    assert (len(first.jobs), first.unread) == (job_listing.MOST_LOOKED_AT, 50)
    second = take(census, rest)
    assert (len(second.jobs), second.unread) == (len(many), 0)


def test_an_array_that_is_too_long_to_read_hides_no_other_job() -> None:
    ended = {f"{number}_{number}": "COMPLETED" for number in range(1000, 1100)}
    rest = PlayedRest({**ended, "5_9": "RUNNING", "7": "RUNNING"})
    rest.lengths["5"] = job_listing.MOST_ALIVE + 1
    taken = take(JobCensus(job_listing.JobListing()), rest)
    assert ([each.job_id for each, _ in taken.jobs], taken.unread) == ([7], 1)


def test_each_waiting_task_of_an_array_counts() -> None:
    rest = PlayedRest({"7_1": "PENDING", "7_2": "PENDING", "7_3": "PENDING", "7": "PENDING"})
    ((_, times),) = take(JobCensus(job_listing.JobListing()), rest).jobs
    assert times == 4


def test_without_an_answer_nothing_is_counted() -> None:
    taken = asyncio.run(JobCensus(job_listing.JobListing()).take(PlayedRest({"13": "RUNNING"}), 20))
    assert isinstance(taken, Unknown)


@pytest.mark.apiserver
def test_the_status_of_a_cluster_has_its_jobs(cluster: World, tmp_path: Path, kubeconfig: Path, port: int) -> None:
    cluster.slurm.run_job("", state="PENDING")
    cluster.declare()
    with operator(cluster, tmp_path, kubeconfig, port):

        def waiting() -> int:
            status = cluster.get("slurmclusters", "test").get("status", {})
            return counted_jobs.read(status).partitions.get("main", counted_jobs.PartitionJobs()).waiting.jobs

        until(lambda: waiting() == 1, "the waiting job is counted")
