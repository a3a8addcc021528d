"""The sampler of faults reads Slurm, Kubernetes and logs; the command says why it needs a dev cluster."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import pytest

from bench.faults import canaries, command, sampler, slurm_probe
from bench.faults.__main__ import parser
from bench.faults.verdict import history


def options(*words: str) -> argparse.Namespace:
    return parser().parse_args(words)


@pytest.mark.parametrize(
    ("words", "names"),
    [
        ("", []),
        ("cpu-0", ["cpu-0"]),
        ("cpu-[0-2]", ["cpu-0", "cpu-1", "cpu-2"]),
        ("cpu-[0,2-3],gpu-1,h[08-10]", ["cpu-0", "cpu-2", "cpu-3", "gpu-1", "h08", "h09", "h10"]),
    ],
)
def test_a_host_list_is_read_as_slurm_means_it(words: str, names: list[str]) -> None:
    assert slurm_probe.hosts(words) == names


def test_jobs_with_nodes_and_canaries_are_seen_and_no_others() -> None:
    said = (
        "12_0|RUNNING|cpu-0|1764000000|1764000600|canary-x-1\n"
        "13|PENDING||N/A|N/A|canary-x-2\n"
        "14|PENDING||N/A|N/A|waiting-3\n"
        "15|RUNNING|cpu-[0-1]|1764000000|N/A|a|b\n"
    )
    assert slurm_probe.jobs(said, history.CANARY) == [
        {
            "id": "12_0", "name": "canary-x-1", "state": "RUNNING", "nodes": ["cpu-0"], "start": 1764000000.0,
            "end": 1764000600.0,
        },
        {"id": "13", "name": "canary-x-2", "state": "PENDING", "nodes": [], "start": 0.0, "end": 0.0},
        {"id": "15", "name": "a|b", "state": "RUNNING", "nodes": ["cpu-0", "cpu-1"], "start": 1764000000.0, "end": 0.0},
    ]  # fmt: skip


def test_a_node_has_an_author_only_with_a_reason() -> None:
    drained = {"name": "cpu-0", "state": ["IDLE", "DRAIN"], "reason": "bad-fan", "reason_set_by_user": "admin"}
    idle = {"name": "cpu-1", "state": ["IDLE"], "reason": "", "reason_set_by_user": "root"}
    assert slurm_probe.nodes(json.dumps({"nodes": [drained, idle]})) == {
        "cpu-0": {"states": ["IDLE", "DRAIN"], "reason": "bad-fan", "user": "admin"},
        "cpu-1": {"states": ["IDLE"], "reason": "", "user": ""},
    }


def pod(**changes: Any) -> dict[str, Any]:
    metadata = {"name": "cpu-0", "uid": "u", "labels": {"app.kubernetes.io/component": "worker"}}
    ready = [{"type": "Ready", "status": "True"}]
    status = {"phase": "Running", "conditions": ready, "containerStatuses": [{"restartCount": 2}]}
    return {"metadata": metadata, "status": {**status, **changes}}


def test_a_look_at_kubernetes_keeps_what_the_judge_reads() -> None:
    conditions = [{"type": "Available", "status": "True", "reason": "Ready", "message": "well"}]
    custom = {
        "kind": "NodeSet",
        "metadata": {"name": "cpu"},
        "status": {"conditions": conditions, "message": "all well"},
    }
    row = {
        "pods": sampler.pods([pod()]),
        "conditions": sampler.conditions([custom]),
        "holder": "one",
        "unready": [],
        "node_problems": [],
    }
    seen = history.kubernetes({"at": 1.0, **json.loads(json.dumps(row))})
    assert seen.pods == {"cpu-0": history.Pod("u", "worker", ready=True, ending=False, restarts=2)}
    assert seen.lines() == [
        "NodeSet/cpu Available=True Ready well",
        "NodeSet/cpu message=  all well",
        "Lease holder=one",
    ]


def test_a_pod_that_ran_to_its_end_is_none() -> None:
    assert sampler.pods([pod(phase="Succeeded"), pod(phase="Failed")]) == {}


def workload(ready: int, observed: int = 3) -> dict[str, Any]:
    status = {"readyReplicas": ready, "observedGeneration": observed}
    return {"metadata": {"name": "slurm-login", "generation": 3}, "spec": {"replicas": 1}, "status": status}


def test_a_workload_is_ready_with_all_pods_of_its_current_generation() -> None:
    assert sampler.unready("StatefulSet", [workload(1)]) == []
    assert sampler.unready("StatefulSet", [workload(0)]) == ["StatefulSet slurm-login: 0 of 1 pods are ready"]
    assert sampler.unready("StatefulSet", [workload(1, observed=2)]) != []


def test_a_cordon_and_a_lost_kubernetes_node_are_seen() -> None:
    def k8s_node(ready: str, **spec: bool) -> dict[str, Any]:
        conditions = [{"type": "Ready", "status": ready}]
        return {"metadata": {"name": "dev"}, "spec": spec, "status": {"conditions": conditions}}

    assert sampler.node_problems([k8s_node("True")]) == []
    assert sampler.node_problems([k8s_node("True", unschedulable=True)]) == ["Kubernetes node dev is cordoned"]
    assert sampler.node_problems([k8s_node("Unknown")]) == ["Kubernetes node dev is not ready"]


def test_a_log_line_has_the_time_that_the_kubelet_gave_it() -> None:
    said = "2026-11-25T09:00:00.123456789Z 2026-11-25 INFO slurm_operator.execute: Drain: x\nno time\n"
    assert [*sampler.log_lines(said)] == [
        ("2026-11-25T09:00:00.123456+00:00", "2026-11-25 INFO slurm_operator.execute: Drain: x")
    ]


def test_an_event_is_one_line() -> None:
    about = {"kind": "Pod", "name": "cpu-0"}
    event = {"type": "Normal", "reason": "Started", "message": "Started\ncontainer", "involvedObject": about}
    assert sampler.event_line(event) == "Event Normal Started Pod/cpu-0 Started container"


@pytest.mark.parametrize("form", canaries.FORMS, ids=lambda form: form.name)
def test_a_canary_says_where_it_begins_and_ends(form: canaries.Form) -> None:
    lines = canaries.script(form)
    assert lines.index("say begin") < lines.index("srun") < lines.index("say end")


def test_there_is_a_requeueable_canary_a_short_array_and_a_long_step() -> None:
    assert any("--requeue" in form.options for form in canaries.FORMS)
    assert any(form.tasks > 1 and form.seconds <= 5 for form in canaries.FORMS)
    assert any(form.seconds >= 45 for form in canaries.FORMS)


def test_without_a_dev_cluster_one_sentence_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PULUMI_SLURM_STATE", str(tmp_path))
    monkeypatch.setattr(command, "clean_up_when_killed", lambda: None)
    assert command.main(options("--seed", "1")) == command.NOT_RUN
    assert capsys.readouterr().err == "error: there is no instance dev: run 'make up' first\n"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--minutes", "1"], "a schedule takes 2 minutes at least"),
        (["--judge", "nowhere.jsonl"], "No such file or directory: 'nowhere.jsonl'"),
        (["--name", "No"], "instance name 'No'"),
    ],
)
def test_bad_input_is_refused_in_a_sentence(
    words: list[str], said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command, "clean_up_when_killed", lambda: None)
    assert command.main(options(*words)) == command.NOT_RUN
    assert said in capsys.readouterr().err


def test_a_plan_is_printed_without_a_cluster(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(options("--seed", "5", "--minutes", "4", "--plan")) == command.KEPT
    assert "#1 " in capsys.readouterr().out
