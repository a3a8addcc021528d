"""The examples of docs/autoscaling.md agree with each other; what the fake of the adapter shares with the real one."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from typing import Any

import jsonschema
import pytest

from tests.e2e.operator import autoscaling_page
from tests.e2e.operator import fake_external_metrics as fake

NOON = datetime.datetime(2026, 11, 25, 12, tzinfo=datetime.UTC)
TEXT = """\
# TYPE pulumi_slurm_pending_nodes gauge
pulumi_slurm_pending_nodes{partition="main"} 2.0
pulumi_slurm_pending_nodes{partition="side"} 9.0
pulumi_slurm_allocated_nodes{node_set="cpu"} 1.0
"""
QUERY = autoscaling_page.adapter_rule()["metricsQuery"]

# k8s.io/metrics, pkg/apis/external_metrics/v1beta1/types.go: JSON names; only those without omitempty are required.
REQUIRED = {"metricName", "metricLabels", "timestamp", "value"}
OPTIONAL = {"kind", "apiVersion", "window"}

NUMBER: dict[str, Any] = {"type": "integer", "minimum": 0}
TEXT_VALUE = {"type": "string", "minLength": 1}


def fields(required: str, **known: dict[str, Any]) -> dict[str, Any]:
    """The schema of an object that has no other fields."""
    return {"type": "object", "required": required.split(), "properties": known, "additionalProperties": False}


# https://keda.sh/docs/latest/scalers/prometheus/: all of a trigger's metadata are strings.
KEDA_PROMETHEUS = fields(
    "serverAddress query threshold",
    serverAddress={"type": "string", "pattern": "^https?://[^/]+$"},
    query=TEXT_VALUE,
    threshold={"type": "string", "pattern": r"^[0-9]+(\.[0-9]+)?$"},
    activationThreshold={"type": "string", "pattern": r"^[0-9]+(\.[0-9]+)?$"},
    ignoreNullValues={"enum": ["true", "false"]},
    unsafeSsl={"enum": ["true", "false"]},
    **dict.fromkeys(("namespace", "customHeaders", "queryParameters", "timeout", "authModes"), TEXT_VALUE),
)
# https://keda.sh/docs/latest/reference/scaledobject-spec/
KEDA_SCALED_OBJECT = fields(
    "apiVersion kind metadata spec",
    apiVersion={"const": "keda.sh/v1alpha1"},
    kind={"const": "ScaledObject"},
    metadata={"type": "object", "required": ["name"]},
    spec=fields(
        "scaleTargetRef triggers",
        scaleTargetRef=fields("name", **dict.fromkeys(("apiVersion", "kind", "name"), TEXT_VALUE)),
        **dict.fromkeys(("pollingInterval", "cooldownPeriod", "initialCooldownPeriod"), NUMBER),
        **dict.fromkeys(("idleReplicaCount", "minReplicaCount", "maxReplicaCount"), NUMBER),
        fallback=fields("failureThreshold replicas", failureThreshold=NUMBER, replicas=NUMBER),
        advanced=fields(
            "",
            restoreToOriginalReplicaCount={"type": "boolean"},
            horizontalPodAutoscalerConfig=fields("", name=TEXT_VALUE, behavior={"type": "object"}),
        ),
        triggers={
            "type": "array",
            "minItems": 1,
            "items": fields(
                "type metadata",
                type={"const": "prometheus"},
                metadata=KEDA_PROMETHEUS,
                name=TEXT_VALUE,
                metricType={"enum": ["AverageValue", "Value", "Utilization"]},
                useCachedMetrics={"type": "boolean"},
                authenticationRef=fields("name", name=TEXT_VALUE, kind=TEXT_VALUE),
            ),
        },
    ),
)


def test_an_answer_has_the_fields_of_an_external_metric_value_list() -> None:
    answer = fake.values("wanted", 3.0, NOON)

    assert (answer["kind"], answer["apiVersion"]) == ("ExternalMetricValueList", "external.metrics.k8s.io/v1beta1")
    assert answer.keys() == {"kind", "apiVersion", "metadata", "items"}
    (item,) = answer["items"]
    assert REQUIRED <= item.keys() <= REQUIRED | OPTIONAL
    assert (item["metricName"], item["timestamp"], item["value"]) == ("wanted", "2026-11-25T12:00:00Z", "3")


@pytest.mark.parametrize(("value", "written"), [(0.0, "0"), (20.0, "20"), (0.5, "500m"), (1.25, "1250m")])
def test_values_are_quantities_of_kubernetes(value: float, written: str) -> None:
    assert fake.quantity(value) == written


def test_discovery_names_the_metric_in_namespaces() -> None:
    (resource,) = fake.resources("wanted")["resources"]
    assert (resource["name"], resource["namespaced"], resource["verbs"]) == ("wanted", True, ["get"])


def test_the_pages_query_adds_working_nodes_and_those_that_are_waited_for() -> None:
    assert fake.total(TEXT, fake.terms(QUERY)) == 3


def test_a_sum_with_a_series_that_is_absent_has_no_value() -> None:
    """As in a deep queue: the autoscaler leaves the number as it is."""
    text = "\n".join(line for line in TEXT.splitlines() if "pending" not in line)

    assert fake.total(text, fake.terms(QUERY)) is None
    assert fake.values("wanted", None, NOON)["items"] == []


def test_what_the_fake_cannot_ask_is_refused() -> None:
    with pytest.raises(ValueError, match="sums of series alone"):
        fake.terms("sum(a) - sum(b)")


def test_the_autoscaler_asks_for_the_metric_that_the_rule_serves_and_so_does_keda() -> None:
    spec = autoscaling_page.of_kind("HorizontalPodAutoscaler")["spec"]
    scaled = autoscaling_page.of_kind("ScaledObject")["spec"]

    (metric,) = spec["metrics"]
    assert metric["external"]["metric"]["name"] == autoscaling_page.adapter_rule()["name"]["as"]
    (trigger,) = scaled["triggers"]
    assert trigger["metadata"]["query"] == QUERY
    assert trigger["metadata"]["threshold"] == metric["external"]["target"]["averageValue"]
    assert scaled["scaleTargetRef"] == spec["scaleTargetRef"]
    assert scaled["advanced"]["horizontalPodAutoscalerConfig"]["behavior"] == spec["behavior"]


def without_threshold(scaled: dict[str, Any]) -> None:
    del scaled["spec"]["triggers"][0]["metadata"]["threshold"]


def a_number(scaled: dict[str, Any]) -> None:
    scaled["spec"]["triggers"][0]["metadata"]["threshold"] = 1


def another_word(scaled: dict[str, Any]) -> None:
    scaled["spec"]["minReplicas"] = scaled["spec"].pop("minReplicaCount")


def test_the_scaled_object_is_one_that_keda_documents() -> None:
    scaled = autoscaling_page.of_kind("ScaledObject")

    jsonschema.validate(scaled, KEDA_SCALED_OBJECT)
    assert scaled["spec"]["minReplicaCount"] < scaled["spec"]["maxReplicaCount"]
    assert scaled["metadata"] == autoscaling_page.of_kind("HorizontalPodAutoscaler")["metadata"]


@pytest.mark.parametrize("mistake", [without_threshold, a_number, another_word])
def test_a_scaled_object_that_keda_would_refuse_is_found(mistake: Callable[[dict[str, Any]], None]) -> None:
    scaled = autoscaling_page.of_kind("ScaledObject")
    mistake(scaled)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(scaled, KEDA_SCALED_OBJECT)
