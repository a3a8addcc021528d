"""Promises about pods that do not work: their own words are told where people look first."""

from __future__ import annotations

import dataclasses
import datetime

import pytest
from slurm_operator import report
from slurm_operator.findings import Condition
from slurm_operator.parse.pods import parse_pod
from slurm_operator.state.kubernetes import Pod

from contract.conditions import Reason
from tests.operator.states.seen_clusters import BOTH, CLUSTER, NOW, judge, node, nodes, workload, world


def test_what_keeps_pods_from_starting_is_told_in_their_words() -> None:
    seen = world()
    pulling = Pod("cpu-1", "worker", ready=False, running=False, trouble="ImagePullBackOff: no such image")
    ending = dataclasses.replace(pulling, name="cpu-9", terminating=True)
    found, _ = judge(dataclasses.replace(seen, pods=dict(seen.pods) | {"cpu-1": pulling, "cpu-9": ending}), BOTH)
    assert found["Degraded"] == Condition(
        "Degraded", "True", Reason.POD_NOT_STARTING, "cpu-1: ImagePullBackOff: no such image"
    )


def test_the_sentence_that_people_see_first_tells_the_cause() -> None:
    seen = world()
    pulling = dataclasses.replace(seen.pods["cpu-1"], ready=False, trouble="ImagePullBackOff: no such image")
    found, _ = judge(dataclasses.replace(seen, pods=dict(seen.pods) | {"cpu-1": pulling}), nodes(node("cpu-0")))
    cause = "cpu-1 not yet registered and usable (cpu-1: ImagePullBackOff: no such image)"
    assert report.headline(found.values()) == f"node set cpu: {cause}"
    stuck = Pod("slurm-login-0", "login", ready=False, running=False, trouble="Unschedulable: no node has 2 CPUs")
    workloads = dict(seen.workloads) | {"slurm-login": workload("slurm-login", 1, 0)}
    found, _ = judge(dataclasses.replace(seen, pods=dict(seen.pods) | {stuck.name: stuck}, workloads=workloads), BOTH)
    assert "(slurm-login-0: Unschedulable: no node has 2 CPUs)" in report.headline(found.values())


def test_a_further_set_of_login_nodes_counts_as_login_nodes_do_with_its_own_pods_words() -> None:
    sets = dataclasses.replace(CLUSTER, login_sets=("slurm-login-data",))
    seen = world(cluster=sets)
    found, _ = judge(seen, BOTH)
    words = "there is no StatefulSet slurm-login-data"
    assert (found["Available"].status, found["Available"].reason, found["Available"].message) == (
        *("False", "LoginNotReady"),
        words,
    )
    rows = {"slurm-login-data-0": "login-set", "slurm-login-0": "login"}
    stuck = {name: Pod(name, part, ready=False, running=False, trouble=f"of {name}") for name, part in rows.items()}
    workloads = dict(seen.workloads) | {"slurm-login-data": workload("slurm-login-data", 1, 0)}
    found, _ = judge(dataclasses.replace(seen, pods=dict(seen.pods) | stuck, workloads=workloads), BOTH)
    told = "StatefulSet slurm-login-data: 0 of 1 ready in the current generation"
    assert found["Available"].message == f"{told} (slurm-login-data-0: of slurm-login-data-0)"
    all_there = dataclasses.replace(seen, workloads=dict(seen.workloads) | {"slurm-login-data": workload("x")})
    assert judge(all_there, BOTH)[0]["Available"].status == "True"


def test_only_the_last_attempt_to_populate_speaks() -> None:
    first = Pod("slurm-jail-a", "jail", ready=False, running=False, created=NOW, trouble="the volume is full")
    second = dataclasses.replace(first, name="slurm-jail-b", created=NOW + datetime.timedelta(hours=1), trouble="")
    seen = world()
    told = judge(dataclasses.replace(seen, pods=dict(seen.pods) | {first.name: first}), BOTH)[0]["Degraded"]
    assert (told.reason, told.message) == ("PopulateFailed", "slurm-jail-a: the volume is full")
    both = dict(seen.pods) | {first.name: first, second.name: second}
    assert judge(dataclasses.replace(seen, pods=both), BOTH)[0]["Degraded"].status == "False"


@pytest.mark.parametrize(
    ("pod_status", "trouble"),
    [
        ({"phase": "Running"}, ""),
        (
            {
                "conditions": [
                    {
                        "type": "PodScheduled",
                        "status": "False",
                        "reason": "Unschedulable",
                        "message": "0/1 nodes: no cpu",
                    }
                ]
            },
            "Unschedulable: 0/1 nodes: no cpu",
        ),
        (
            {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}]},
            "SchedulingGated",
        ),
        (
            {
                "initContainerStatuses": [
                    {"name": "i", "state": {"waiting": {"reason": "ErrImagePull", "message": "x"}}}
                ]
            },
            "container i: ErrImagePull: x",
        ),
        (
            {
                "containerStatuses": [
                    {
                        "name": "c",
                        "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 10s"}},
                        "lastState": {"terminated": {"message": "fatal: no key\n"}},
                    }
                ]
            },
            "container c: CrashLoopBackOff: back-off 10s / fatal: no key",
        ),
        (
            {
                "phase": "Failed",
                "containerStatuses": [
                    {"name": "p", "state": {"terminated": {"exitCode": 1, "message": "the image has no shell"}}}
                ],
            },
            "the image has no shell",
        ),
        *(
            (
                {"containerStatuses": [{"name": "c", "state": {"waiting": {"reason": reason} if reason else {}}}]},
                trouble,
            )
            for reason, trouble in (
                *(("ContainerCreating", ""), ("PodInitializing", ""), ("", "")),
                ("SignatureValidationFailed", "container c: SignatureValidationFailed"),
                ("PostStartHookError", "container c: PostStartHookError"),
            )
        ),
    ],
)
def test_a_pods_trouble_is_read(pod_status: dict[str, object], trouble: str) -> None:
    assert parse_pod({"metadata": {"name": "p"}, "status": pod_status}).trouble == trouble
