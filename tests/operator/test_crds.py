"""Promises of the two resources: what cannot be right is refused by the API server, naming the field."""

from __future__ import annotations

import functools
from typing import Any

import pytest
from slurm_operator.clients import informer

from components.control import crd_policy
from components.control import operator as program
from tests.operator.states.fixed_names import FIXED_NAMES
from tests.operator.worlds.world import STRATEGIC, Admin, World, custom, until

pytestmark = pytest.mark.apiserver

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


@pytest.fixture
def empty(admin: Admin, slurm: Any, request: pytest.FixtureRequest) -> World:
    return World(admin, f"crds-{abs(hash(request.node.name)) % 10**8}", slurm.slurm, slurm.url)


NODE_SET = {"cluster": "test", "statefulSet": "cpu", "replicas": 2}
CLUSTER: dict[str, Any] = {"revision": "r1"}
HANGS: dict[str, Any] = {"partition": "main", "afterSeconds": 600, "requeues": True}
CHECK: dict[str, Any] = {
    "name": "disk",
    "partition": "main",
    "nodeSets": ["cpu"],
    "everySeconds": 600,
    "timeLimitMinutes": 1,
    "sharePercent": 100,
    "drains": True,
    "script": "#!/bin/sh\n",
}


@pytest.mark.parametrize(
    ("kind", "name", "spec", "expected"),
    [
        ("NodeSet", "cpu", NODE_SET | {"replicas": -1}, "spec.replicas"),
        ("NodeSet", "cpu", NODE_SET | {"replicas": 10001}, "spec.replicas"),
        ("NodeSet", "cpu", NODE_SET | {"replicas": "two"}, "spec.replicas"),
        ("NodeSet", "cpu", NODE_SET | {"reactions": {"replace": True, "atOnce": 0}}, "spec.reactions.atOnce"),
        ("NodeSet", "cpu", NODE_SET | {"reactions": {"replace": True, "perHour": 0}}, "spec.reactions.perHour"),
        *(
            ("NodeSet", "cpu", NODE_SET | {"update": {"maxUnavailable": wrong}}, "spec.update.maxUnavailable")
            for wrong in (0, -1, 10001, "0%", "150%", "x", "3", "025%")
        ),
        *(
            ("NodeSet", "cpu", NODE_SET | {"update": {"window": wrong}}, f"spec.update.window{field}")
            for wrong, field in (
                ({"start": "Sunn 03:00", "durationSeconds": 3600}, ".start"),
                ({"start": "Sun 24:00", "durationSeconds": 3600}, ".start"),
                ({"start": "2026-02-30T03:00Z", "durationSeconds": 3600}, ".start"),
                ({"start": "Sun 03:00", "durationSeconds": 599}, ".durationSeconds"),
                ({"start": "Sun 03:00", "durationSeconds": 604801}, ".durationSeconds"),
                ({"start": "Sun 03:00"}, ".durationSeconds"),
                ({"durationSeconds": 3600}, ".start"),
            )
        ),
        ("NodeSet", "cpu", NODE_SET | {"features": "avx512"}, "spec.features"),
        ("NodeSet", "cpu", NODE_SET | {"features": ["avx512,big"]}, "spec.features[0]"),
        ("NodeSet", "cpu", NODE_SET | {"reactions": {"afterSeconds": 315_360_001}}, "spec.reactions.afterSeconds"),
        ("NodeSet", "cpu", NODE_SET | {"statefulSet": "CPU"}, "spec.statefulSet"),
        ("NodeSet", "cpu", NODE_SET | {"statefulSet": "slurm-controller"}, "must be the node set's own"),
        ("NodeSet", "gpu", NODE_SET, "spec.statefulSet must be the node set's own, of the same name"),
        ("NodeSet", "cpu", NODE_SET | {"removal": {"jobs": "never"}}, "spec.removal.jobs"),
        ("NodeSet", "cpu", NODE_SET | {"removal": {"jobs": "deadline"}}, "deadlineSeconds belongs to jobs deadline"),
        ("NodeSet", "cpu", NODE_SET | {"removal": {"deadlineSeconds": 5}}, "deadlineSeconds belongs to jobs deadline"),
        ("NodeSet", "cpu", {"cluster": "test"}, "spec.statefulSet"),
        ("NodeSet", "cpu", {"statefulSet": "cpu"}, "spec.cluster"),
        ("NodeSet", "cpu", NODE_SET | {"cluster": "a.b"}, "spec.cluster"),
        ("NodeSet", "a.b", NODE_SET, "metadata.name must be a DNS label"),
        ("NodeSet", "slurm-x", NODE_SET, "must not start with 'slurm-'"),
        ("NodeSet", "n" * 41, NODE_SET, "at most 40 characters"),
        ("SlurmCluster", "test", {}, "spec.revision"),
        ("SlurmCluster", "test", {"revision": ""}, "spec.revision"),
        ("SlurmCluster", "test", CLUSTER | {"rest": {"url": "slurm-rest:6820"}}, "spec.rest.url"),
        ("SlurmCluster", "test", CLUSTER | {"rest": {"url": "http://x/y"}}, "spec.rest.url"),
        ("SlurmCluster", "test", CLUSTER | {"login": "No Name"}, "spec.login"),
        ("SlurmCluster", "test", CLUSTER | {"hangs": [HANGS | {"afterSeconds": 315_360_001}]}, "hangs[0].afterSeconds"),
        ("SlurmCluster", "test", CLUSTER | {"longChecks": [CHECK | {"everySeconds": 315_360_001}]}, ".everySeconds"),
        ("SlurmCluster", "test", CLUSTER | {"longChecks": [CHECK | {"timeLimitMinutes": 5_256_001}]}, "timeLimitMin"),
        ("SlurmCluster", "test", CLUSTER | {"loginSets": "slurm-login-data"}, "spec.loginSets"),
        ("SlurmCluster", "test", CLUSTER | {"wantedConfig": "slurm-config"}, "must be two ConfigMaps"),
    ],
)
def test_a_wrong_resource_is_refused_with_its_field(
    empty: World, kind: str, name: str, spec: dict[str, Any], expected: str
) -> None:
    with pytest.raises(RuntimeError, match=r"422|400") as refused:
        empty.create(f"{kind.lower()}s", custom(kind, name, spec))
    assert expected in str(refused.value)


@pytest.mark.parametrize("strict", ["Strict"])
def test_an_unknown_key_is_refused_when_asked_to(empty: World, strict: str) -> None:
    path = f"{empty.path('nodesets')}?fieldValidation={strict}"
    with pytest.raises(RuntimeError, match=r"unknown field \"spec.replica\""):
        empty.admin.call("POST", path, custom("NodeSet", "cpu", NODE_SET | {"replica": 3}))


@pytest.mark.parametrize("field", ["statefulSet", "cluster"])
def test_what_a_node_set_belongs_to_cannot_be_changed(empty: World, field: str) -> None:
    empty.create("nodesets", custom("NodeSet", "cpu", NODE_SET))
    with pytest.raises(RuntimeError, match=rf"spec\.{field}.*is immutable"):
        empty.patch("nodesets", "cpu", {"spec": {field: "other"}})


def test_defaults_are_the_fixed_names(empty: World) -> None:
    spec = empty.create("slurmclusters", custom("SlurmCluster", "test", CLUSTER))["spec"]
    assert spec == {"revision": "r1", **FIXED_NAMES}


@pytest.mark.parametrize("room", [1, 10000, "1%", "25%", "100%"])
def test_an_update_may_take_a_number_or_a_percentage_of_nodes(empty: World, room: int | str) -> None:
    made = empty.create("nodesets", custom("NodeSet", "cpu", NODE_SET | {"update": {"maxUnavailable": room}}))
    assert made["spec"]["update"]["maxUnavailable"] == room


@pytest.mark.parametrize(("start", "seconds"), [("Sun 03:00", 604_800), ("2026-12-05T03:00Z", 1_209_600)])
def test_updates_may_have_a_window(empty: World, start: str, seconds: int) -> None:
    window = {"start": start, "durationSeconds": seconds}
    made = empty.create("nodesets", custom("NodeSet", "cpu", NODE_SET | {"update": {"window": window}}))
    assert made["spec"]["update"]["window"] == window


def test_a_node_set_can_be_scaled_by_number(empty: World) -> None:
    empty.create("nodesets", custom("NodeSet", "cpu", NODE_SET))
    empty.scale(7)
    assert empty.get("nodesets", "cpu")["spec"]["replicas"] == 7
    with pytest.raises(RuntimeError, match=r"spec\.replicas"):
        empty.scale(20000)


COUNTS = {"ready": 7, "wanted": 6, "idle": 5, "allocated": 4, "drained": 3, "down": 8, "draining": 9, "updated": 2}
SINCE = "2026-01-01T00:00:00Z"
OF_A_SET = {"readyReplicas": 7, "idle": 5, "allocated": 4, "drained": 3, "down": 8, "draining": 9, "updated": 2}


@pytest.mark.parametrize(
    ("kind", "name", "spec", "status", "row"),
    [
        (
            *("SlurmCluster", "test", CLUSTER, {"nodes": COUNTS}),
            {"Ready": 7, "Wanted": 6, "Idle": 5, "Allocated": 4, "Drained": 3, "Down": 8, "Draining": 9, "Updated": 2},
        ),
        (
            *("NodeSet", "cpu", NODE_SET, OF_A_SET),
            {"Wanted": 2, "Ready": 7, "Idle": 5, "Allocated": 4, "Drained": 3, "Down": 8, "Draining": 9, "Updated": 2},
        ),
    ],
)
def test_columns_tell_how_it_is(
    empty: World, kind: str, name: str, spec: dict[str, Any], status: dict[str, Any], row: dict[str, int]
) -> None:
    plural = f"{kind.lower()}s"
    empty.create(plural, custom(kind, name, spec))
    available = {"type": "Available", "status": "True", "reason": "Ready", "message": "", "lastTransitionTime": SINCE}
    empty.patch(plural, name, {"status": {**status, "message": "all well", "conditions": [available]}}, "status")
    table = empty.admin.client.get(
        empty.path(plural), headers={"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}
    ).json()
    titles = [column["name"] for column in table["columnDefinitions"]]
    shown = dict(zip(titles, table["rows"][0]["cells"], strict=True))
    assert shown | row | {"Name": name, "Message": "all well"} == shown
    assert titles == ["Name", "Available", *row, "Message", "Age"]
    assert shown["Available"] == "True"


def test_an_older_program_takes_nothing_from_a_crd_and_is_told_so(admin: Admin) -> None:
    crds = [each.name for each in program.crd_manifests()]
    for each in crd_policy.manifests(crds):
        kind = f"/apis/admissionregistration.k8s.io/v1/{informer.plural(each.kind)}"
        path, apply = f"{kind}/{each.name}", {"Content-Type": "application/apply-patch+yaml"}
        admin.call("PATCH", path, dict(each.body), headers=apply, params={"fieldManager": "pulumi-slurm"})

    def answer(crd: str, edition: str | None) -> str:
        """Return what a program of that edition is told; None is one that does not know of editions."""
        path, change = f"{CRDS}/{crd}", {"metadata": {"annotations": {crd_policy.EDITION: edition}}}
        try:
            admin.call("PATCH", path, change, headers=STRATEGIC, params={"dryRun": "All"})
        except RuntimeError as refused:
            return str(refused)
        return ""

    for crd in crds:
        words = until(functools.partial(answer, crd, None), "the policy is in force")
        assert "this is edition 0 of the CRD, and a newer release of the program has brought edition 17" in words
        assert answer(crd, "17") == answer(crd, "18") == ""
