"""Targets that the program declares for a Prometheus."""

from __future__ import annotations

from typing import Any

import pytest

from components import slurm_cluster
from components.addons import monitoring
from components.config import parse
from components.control import network_policies
from components.slurm.conf import slurm_conf
from contract import names
from tests.unit.samples import SMALL, changed, run_program


def endpoints(raw: dict[str, Any]) -> dict[str, set[tuple[str, int]]]:
    """Paths and ports to scrape by component, whichever way they are told."""
    config = parse(raw)
    ports = {
        (each.body["spec"]["template"]["metadata"]["labels"][names.LABEL_COMPONENT], port["name"]): port[
            "containerPort"
        ]
        for each in slurm_cluster.manifests(config)
        if each.kind in ("StatefulSet", "Deployment")
        for container in each.body["spec"]["template"]["spec"]["containers"]
        for port in container.get("ports", [])
    }
    found: dict[str, set[tuple[str, int]]] = {}
    for each in monitoring.manifests(config):
        if each.kind == "Service":
            component = each.body["spec"]["selector"][names.LABEL_COMPONENT]
            told = each.body["metadata"]["annotations"]
            assert told["prometheus.io/scrape"] == "true"
            assert told["prometheus.io/port"] == str(each.body["spec"]["ports"][0]["targetPort"])
            found.setdefault(component, set()).add((told["prometheus.io/path"], int(told["prometheus.io/port"])))
        else:
            component = each.body["spec"]["selector"]["matchLabels"][names.LABEL_COMPONENT]
            for endpoint in each.body["spec"]["podMetricsEndpoints"]:
                found.setdefault(component, set()).add((endpoint["path"], ports[component, endpoint["port"]]))
    return found


SLURM = {(f"/metrics/{what}", names.SLURMCTLD_PORT) for what in ("jobs", "nodes", "partitions", "scheduler")}
ALL = {"controller": SLURM, "operator": {("/metrics", names.OPERATOR_HEALTH_PORT)}}


@pytest.mark.parametrize("mode", ["annotations", "prometheusOperator"])
def test_both_ways_tell_the_same_endpoints(mode: str) -> None:
    assert endpoints(changed("monitoring.mode", mode)) == ALL


@pytest.mark.parametrize("mode", ["annotations", "prometheusOperator"])
def test_an_operator_of_another_stack_is_left_to_that_stack(mode: str) -> None:
    raw = changed("operator.mode", "existing", changed("monitoring.mode", mode))
    assert endpoints(raw) == {"controller": SLURM}


@pytest.mark.parametrize("mode", ["annotations", "prometheusOperator"])
def test_series_of_users_are_told_only_when_asked_for(mode: str) -> None:
    raw = changed("monitoring.users", True, changed("monitoring.mode", mode))
    assert endpoints(raw)["controller"] - SLURM == {("/metrics/jobs-users-accts", names.SLURMCTLD_PORT)}


def test_off_tells_nothing_serves_nothing_and_lets_nobody_in() -> None:
    config = parse(changed("monitoring.mode", "off"))
    assert monitoring.manifests(config) == []
    assert "MetricsType" not in slurm_conf.slurm_conf(config)
    policies = {each.name: each.body["spec"]["ingress"] for each in network_policies.manifests(config)}
    assert policies[names.OPERATOR] == []
    assert all("namespaceSelector" not in peer for rule in policies[names.CONTROLLER] for peer in rule["from"])


def test_an_empty_list_of_scrapers_lets_nobody_in() -> None:
    config = parse(changed("monitoring.namespaces", []))
    policies = {each.name: each.body["spec"]["ingress"] for each in network_policies.manifests(config)}
    assert policies[names.OPERATOR] == []


@pytest.mark.parametrize("preview", [True, False])
def test_pod_monitors_are_custom_resources_outside_the_ledger(preview: bool) -> None:
    raw = changed("monitoring", {"mode": "prometheusOperator", "labels": {"release": "x"}, "interval": "30s"})
    engine, _ = run_program(raw, preview=preview)
    monitors = [each for each in engine.kubernetes() if each.inputs["kind"] == "PodMonitor"]
    assert {each.name for each in monitors} == {names.CONTROLLER, names.OPERATOR}
    for each in monitors:
        assert each.type == "kubernetes:monitoring.coreos.com/v1:PodMonitor"
        assert "pulumi-slurm:index:Monitoring" in each.urn
        assert each.inputs["metadata"]["labels"]["release"] == "x"
        assert each.inputs["spec"]["namespaceSelector"] == {"matchNames": ["slurm"]}
    assert all(each.held is False for each in monitoring.manifests(parse(raw)))
    assert all(each.held for each in monitoring.manifests(parse(SMALL)))
