"""A real HorizontalPodAutoscaler makes nodes for a job that waits for them, and takes none from a job that runs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.operator import autoscaling_page, external_metrics_pod

NAMESPACE = "monitoring"
REPLICAS = "pulumi-slurm:nodeSets[0].replicas"
AUTOSCALER = autoscaling_page.of_kind("HorizontalPodAutoscaler")
# Longer than the 20 s between counts, as the page wants it, without a Prometheus's interval.
AUTOSCALER["spec"]["behavior"]["scaleUp"]["stabilizationWindowSeconds"] = 40
RULE = autoscaling_page.adapter_rule()
SECONDS = 300


def size(slurm) -> tuple[int, int]:
    """Return how many nodes the set wants, and how many it has."""
    found = slurm.get("nodeset", "cpu")
    return found["spec"]["replicas"], found["status"]["replicas"]


def metric(slurm) -> list[str]:
    """The values that the autoscaler sees, by the API server."""
    name = RULE["name"]["as"]
    path = f"/apis/external.metrics.k8s.io/v1beta1/namespaces/slurm/{name}"
    answer = json.loads(slurm.kubectl("get", "--raw", path).ok())
    return [each["value"] for each in answer["items"]]


def counts(slurm) -> list[float | None]:
    """Return how many nodes work, and how many nodes waiting jobs ask for."""
    return external_metrics_pod.terms(slurm, NAMESPACE, RULE["metricsQuery"])


def submit(slurm, name: str, *options: str) -> str:
    """A job that runs until its user has made a file, and writes last that it ended well."""
    script = f"while [ ! -e ~/{name}.end ]; do sleep 1; done; echo well"
    return slurm.sh(f"sbatch --parsable {' '.join(options)} -t 60 -o ~/{name}.out --wrap '{script}'").ok()


def state(slurm, job: str) -> str:
    return slurm.sh(f"squeue -h -t all -j {job} -o %T").ok()


def end(slurm, name: str, job: str) -> None:
    slurm.sh(f"touch ~/{name}.end").ok()
    slurm.wait(f"{name} has ended well", lambda: state(slurm, job) == "COMPLETED", 60)
    assert slurm.sh(f"cat ~/{name}.out").ok() == "well"


def autoscaler(slurm) -> str:
    """Return the conditions of the HorizontalPodAutoscaler, for the report of a failure."""
    conditions = slurm.get("hpa", AUTOSCALER["metadata"]["name"])["status"].get("conditions", [])
    return "; ".join(f"{each['type']} {each['status']}: {each['message']}" for each in conditions)


@pytest.fixture
def without_a_number(slurm) -> Iterator[None]:
    """The set's number is nobody's; afterwards the program says the former one again."""
    declared = slurm.pulumi("config", "get", "--path", REPLICAS).ok()
    try:
        slurm.pulumi("config", "rm", "--path", REPLICAS).ok()
        slurm.pulumi("up", "--yes", "--skip-preview").ok()
        yield
    finally:
        slurm.sh("scancel --me; rm -f ~/wide.* ~/narrow.*")
        slurm.pulumi("config", "set", "--path", REPLICAS, declared).ok()
        slurm.pulumi("up", "--yes", "--skip-preview").ok()
        slurm.wait("as many nodes as before", lambda: size(slurm) == (int(declared),) * 2, SECONDS)
        slurm.wait("all take jobs", slurm.all_idle, SECONDS)


@pytest.fixture
def scaled(slurm, without_a_number, tmp_path: Path) -> Iterator[dict[str, Any]]:
    """The page's autoscaler, whose one number is smaller, and the fake adapter with the page's rule."""
    name = AUTOSCALER["metadata"]["name"]
    arguments = NAMESPACE, tmp_path / "pki", RULE["name"]["as"], RULE["metricsQuery"]
    *items, leads_there = external_metrics_pod.objects(slurm, *arguments)
    bundle = {"apiVersion": "v1", "kind": "List", "items": items}

    def answers() -> list[str]:
        assert external_metrics_pod.is_led_to(slurm, NAMESPACE)
        try:
            return metric(slurm)
        except AssertionError as unmet:
            raise AssertionError(str(unmet), external_metrics_pod.said(slurm, NAMESPACE)) from None

    try:
        # The namespace of each object is in it.
        slurm.kubectl("apply", "-n", NAMESPACE, "-f", "-", text=json.dumps(bundle)).ok()
        pod = f"pod/{external_metrics_pod.NAME}"
        slurm.kubectl("wait", "-n", NAMESPACE, "--for=condition=Ready", pod, "--timeout=180s", seconds=200).ok()
        slurm.kubectl("apply", "-f", "-", text=json.dumps(leads_there)).ok()
        slurm.wait("the API server leads to the adapter", answers, SECONDS)
        slurm.kubectl("apply", "-f", "-", text=json.dumps(AUTOSCALER)).ok()
        yield AUTOSCALER["spec"]
    finally:
        slurm.kubectl("delete", "hpa", name, "--ignore-not-found")
        # An APIService without its server would hold up the deletion of every namespace.
        slurm.kubectl("delete", "apiservice", external_metrics_pod.API_SERVICE, "--ignore-not-found")
        slurm.kubectl("delete", "namespace", NAMESPACE, "--ignore-not-found", seconds=120)


@pytest.mark.timeout(1800)
def test_nodes_come_for_a_job_that_waits_and_go_when_nothing_waits_under_another_job(slurm, scaled):
    fewest = scaled["minReplicas"]
    slurm.wait("the fewest nodes", lambda: size(slurm) == (fewest, fewest) and slurm.all_idle(), SECONDS)
    assert "ScalingActive True" in autoscaler(slurm)

    narrow = submit(slurm, "narrow", "-N1")
    slurm.wait("a job has the only node", lambda: state(slurm, narrow) == "RUNNING", 60)
    wide = submit(slurm, "wide", "-N2")
    slurm.wait("two more nodes are wanted", lambda: metric(slurm) == ["3"], 90)
    assert state(slurm, wide) == "PENDING"
    slurm.wait("the job on two nodes runs", lambda: state(slurm, wide) == "RUNNING", SECONDS)
    slurm.wait("three nodes work, and nothing waits", lambda: counts(slurm) == [3, 0], 90)
    assert size(slurm) == (3, 3), autoscaler(slurm)
    assert state(slurm, narrow) == "RUNNING"

    end(slurm, "wide", wide)
    slurm.wait("the other two nodes have left", lambda: size(slurm) == (fewest, fewest), SECONDS)
    assert state(slurm, narrow) == "RUNNING"
    end(slurm, "narrow", narrow)
