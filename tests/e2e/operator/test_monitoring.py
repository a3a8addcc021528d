"""A real Prometheus finds Slurm and the operator by what is declared, and only from where it may."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from components.addons import monitoring
from components.config import parse
from tests.e2e.operator import prometheus_pod

WATCHER, STRANGER = "monitoring", "elsewhere"


def start(slurm, namespace: str) -> prometheus_pod.Prometheus:
    facts = json.loads(slurm.pulumi("config", "--json", "--show-secrets").ok())
    raw = {key.partition(":")[2]: item.get("objectValue", item["value"]) for key, item in facts.items()}
    config = parse({**raw, "monitoring": {"mode": "prometheusOperator"}})
    jobs = prometheus_pod.by_annotations(slurm)
    for each in monitoring.manifests(config):
        jobs += prometheus_pod.by_pod_monitor(slurm, each.body)
    folder = prometheus_pod.program(slurm.cluster.instance.state)
    image = slurm.get("pod", "slurm-controller-0")["spec"]["containers"][0]["image"]
    objects = prometheus_pod.objects(namespace, image, folder, jobs)
    bundle = {"apiVersion": "v1", "kind": "List", "items": objects}
    slurm.kubectl("apply", "-n", namespace, "-f", "-", text=json.dumps(bundle)).ok()
    slurm.kubectl(
        "wait", "-n", namespace, "--for=condition=Ready", "pod/prometheus", "--timeout=180s", seconds=200
    ).ok()
    return prometheus_pod.Prometheus(slurm, namespace)


@pytest.fixture(scope="module")
def started(slurm) -> Iterator[dict[str, prometheus_pod.Prometheus]]:
    """One in the namespace that may scrape, one in another."""
    try:
        yield {namespace: start(slurm, namespace) for namespace in (WATCHER, STRANGER)}
    finally:
        # Waited for: who tries again makes them anew.
        slurm.kubectl("delete", "namespace", WATCHER, STRANGER, "--ignore-not-found", seconds=120)


@pytest.mark.parametrize("job", ["annotations/.*", "podMonitor/.*"])
def test_prometheus_finds_slurms_and_the_operators_series(slurm, started, job):
    watcher = started[WATCHER]
    nodes = f'slurm_nodes{{job=~"{job}"}}'
    slurm.wait("two nodes in Prometheus", lambda: [value for _, value in watcher.values(nodes)] == [2], 90)
    for series in (
        "slurm_jobs",
        "slurm_partitions",
        "slurm_node_cpus",
        "slurm_sched_mean_cycle",
        "pulumi_slurm_lease_held",
    ):
        assert slurm.wait(series, lambda name=series: watcher.values(f'{name}{{job=~"{job}"}}'), 60), series
    passes = f'pulumi_slurm_pass_seconds_count{{job=~"{job}",outcome="done"}}'
    assert slurm.wait("passes", lambda: watcher.values(f"{passes} > 0"), 60)


def test_a_running_job_shows_in_the_series(slurm, started):
    job = slurm.sh("sbatch --parsable --wrap 'sleep 300'").ok()
    try:
        query = 'slurm_jobs_running{job="annotations/slurm-metrics-jobs"}'
        slurm.wait(
            "one running job in Prometheus",
            lambda: any(value == 1 for _, value in started[WATCHER].values(query)),
            90,
        )
    finally:
        slurm.sh(f"scancel {job}").ok()


def test_every_target_is_up(slurm, started):
    def states() -> list[tuple[str, str, str]]:
        return [(each["health"], each["scrapeUrl"], each["lastError"]) for each in started[WATCHER].targets()]

    def settled() -> bool:
        return [health for health, _, _ in states()] == ["up"] * 10

    slurm.wait(f"5 targets by annotations, 5 by PodMonitors: {states()}", settled, 90)


def test_a_scraper_in_another_namespace_is_kept_out(slurm, started):
    """It finds the same targets; that they answer at all is what the one before shows."""
    stranger = started[STRANGER]
    slurm.wait(
        "ten targets, all tried",
        lambda: len(stranger.targets()) == 10 and all(each["health"] != "unknown" for each in stranger.targets()),
        60,
    )
    assert {each["health"] for each in stranger.targets()} == {"down"}
    assert stranger.values("slurm_nodes") == []
