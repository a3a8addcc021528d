"""Objects come, change, and go as declared; what the API server would not take is an error, not a silent change."""

from __future__ import annotations

import textwrap

import pytest

from tests.provider.stacks import Stack

pytestmark = pytest.mark.apiserver

CONFIG_MAP = 'k.core.v1.ConfigMap("a", metadata={{"name": "a", "namespace": namespace}}, data={data}, opts=options)'


def config_map(data: dict[str, str]) -> str:
    return CONFIG_MAP.format(data=data)


def test_an_object_changes_in_place_where_it_may_and_is_replaced_where_not(stack: Stack) -> None:
    path = f"/api/v1/namespaces/{stack.namespace}/configmaps/a"
    stack.program(config_map({"key": "one"}))
    stack.up()
    uid = stack.cluster.get(path)["metadata"]["uid"]
    stack.program(config_map({"key": "two"}), enable_config_map_mutable=True)
    assert stack.steps() == {"cluster": "update", "a": "update"}
    stack.up()
    changed = stack.cluster.get(path)
    assert (changed["data"], changed["metadata"]["uid"]) == ({"key": "two"}, uid)
    stack.program(config_map({"key": "three"}))
    stack.up()
    replaced = stack.cluster.get(path)
    assert replaced["data"] == {"key": "three"}
    assert replaced["metadata"]["uid"] != uid
    stack.pulumi("preview", "--expect-no-changes")
    stack.pulumi("destroy", "--yes", "--skip-preview")
    assert stack.cluster.get(path)["code"] == 404


UNKNOWN_FIELD = """
    spec = {"serviceName": "a", "selector": {"matchLabels": {"a": "a"}}, "replcas": 1,
            "template": {"metadata": {"labels": {"a": "a"}}, "spec": {"containers": [{"name": "a", "image": "a"}]}}}
    k.apps.v1.StatefulSet("unknown", metadata={"name": "a", "namespace": namespace}, spec=spec, opts=options)
"""


@pytest.mark.standin_only("the official plugin drops unknown fields without a word")
def test_unknown_fields_are_errors(stack: Stack) -> None:
    stack.program(UNKNOWN_FIELD)
    for command in ("preview",), ("up", "--yes", "--skip-preview"):
        assert 'unknown field "spec.replcas"' in stack.fails(*command)
    assert stack.cluster.get(f"/apis/apps/v1/namespaces/{stack.namespace}/statefulsets/a")["code"] == 404


def test_missing_namespaces_and_existing_objects_are_errors(stack: Stack) -> None:
    path = f"/api/v1/namespaces/{stack.namespace}/configmaps"
    stack.cluster.call("POST", path, {"metadata": {"name": "a"}, "data": {"other": "kept"}})
    nowhere = """
        k.core.v1.ConfigMap("nowhere", metadata={"name": "b", "namespace": "nowhere"}, opts=options)
    """
    stack.program(textwrap.dedent(config_map({"key": "one"})) + textwrap.dedent(nowhere))
    output = stack.fails("up", "--yes", "--skip-preview", "--continue-on-error")
    assert 'configmaps "a" already exists' in output
    assert 'namespaces "nowhere" not found' in output
    stack.program(config_map({"key": "one"}), upsert_existing_objects=True)
    stack.up()
    assert stack.cluster.get(f"{path}/a")["data"] == {"key": "one", "other": "kept"}


def test_an_object_waits_for_its_namespace_and_its_kind_to_be_made(stack: Stack) -> None:
    # Nothing in the program says that the one needs the other: creation is tried again for some seconds.
    group = f"{stack.namespace}.example"
    stack.program(f"""
        k.apiextensions.CustomResource("thing", api_version="{group}/v1", kind="Thing",
            metadata={{"name": "thing", "namespace": namespace}}, spec={{"size": 3}}, opts=options)
        k.apiextensions.CustomResource("wide", api_version="{group}/v1", kind="Wide",
            metadata={{"name": "wide"}}, spec={{"size": 4}}, opts=options)
        anything = {{"type": "object", "x_kubernetes_preserve_unknown_fields": True}}
        schema = {{"openAPIV3Schema": {{"type": "object", "properties": {{"spec": anything}}}}}}
        made = (("thing", "things", "Thing", "Namespaced"), ("wide", "wides", "Wide", "Cluster"))
        for one, many, kind, scope in made:
            k.apiextensions.v1.CustomResourceDefinition(many, metadata={{"name": f"{{many}}.{group}"}}, opts=options,
                spec={{"group": "{group}", "scope": scope,
                      "names": {{"plural": many, "singular": one, "kind": kind, "listKind": f"{{kind}}List"}},
                      "versions": [{{"name": "v1", "served": True, "storage": True, "schema": schema}}]}})
    """)
    stack.up()
    assert stack.cluster.get(f"/apis/{group}/v1/namespaces/{stack.namespace}/things/thing")["spec"] == {"size": 3}
    assert stack.cluster.get(f"/apis/{group}/v1/wides/wide")["spec"] == {"size": 4}
    stack.pulumi("preview", "--refresh", "--expect-no-changes")
    stack.pulumi("destroy", "--yes", "--skip-preview")


def test_a_field_of_another_manager_is_an_error_unless_forced(stack: Stack) -> None:
    path = f"/api/v1/namespaces/{stack.namespace}/configmaps/a"
    stack.program(config_map({"key": "one"}), enable_config_map_mutable=True)
    stack.up()
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"key": "theirs"}}
    stack.cluster.apply(path, body, "somebody")
    stack.program(config_map({"key": "two"}), enable_config_map_mutable=True)
    output = stack.fails("up", "--yes", "--skip-preview")
    assert 'conflict with "somebody"' in output
    assert ".data.key" in output
    assert stack.cluster.get(path)["data"] == {"key": "theirs"}
    forced = config_map({"key": "two"}).replace(
        '"namespace": namespace', '"namespace": namespace, "annotations": {"pulumi.com/patchForce": "true"}'
    )
    stack.program(forced, enable_config_map_mutable=True)
    stack.up()
    assert stack.cluster.get(path)["data"] == {"key": "two"}


@pytest.mark.parametrize("upsert", [False, True])
def test_a_field_dropped_from_the_program_goes_after_a_heal_under_the_same_manager(stack: Stack, upsert: bool) -> None:
    def program(data: dict[str, str]) -> None:
        annotations = '"namespace": namespace, "annotations": {"pulumi.com/patchFieldManager": "pulumi-slurm"}'
        text = config_map(data).replace('"namespace": namespace', annotations)
        stack.program(text, enable_config_map_mutable=True, upsert_existing_objects=upsert)

    path = f"/api/v1/namespaces/{stack.namespace}/configmaps/a"
    program({"kept": "1", "dropped": "1"})
    stack.up()
    healed = {"kept": "1", "dropped": "1"}
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": healed}
    stack.cluster.call("PATCH", path, {"data": {"kept": "2"}}, "application/merge-patch+json", fieldManager="kubectl")
    assert stack.cluster.apply(path, body, "pulumi-slurm")["data"] == healed
    program({"kept": "1"})
    stack.up()
    assert stack.cluster.get(path)["data"] == {"kept": "1"}
    stack.pulumi("preview", "--refresh", "--expect-no-changes")


def test_fields_that_cannot_change_in_place_replace_the_object(stack: Stack) -> None:
    text = """
        pod = {{"metadata": {{"labels": {{"a": "a"}}}}, "spec": {{"restartPolicy": "Never", "containers":
               [{{"name": "a", "image": "a", "resources": {{"limits": {{"cpu": "{cpu}", "memory": "1024Mi"}}}}}}]}}}}
        wait = {{"pulumi.com/skipAwait": "true"}}
        named = lambda name: {{"name": name, "namespace": namespace, "annotations": wait}}
        k.apps.v1.StatefulSet("set", metadata=named("set"), opts=options, spec={{"serviceName": "{service}",
            "replicas": 0, "selector": {{"matchLabels": {{"a": "a"}}}},
            "template": {{**pod, "spec": {{"containers": pod["spec"]["containers"]}}}}}})
        k.batch.v1.Job("job", metadata=named("job"), spec={{"template": pod}}, opts=options)
        k.core.v1.PersistentVolumeClaim("claim", metadata=named("claim"), opts=options, spec={{
            "accessModes": ["ReadWriteOnce"], "storageClassName": "{service}",
            "resources": {{"requests": {{"storage": "1Gi"}}}}}})
        k.rbac.v1.RoleBinding("binding", metadata=named("binding"), opts=options, subjects=[],
            role_ref={{"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "{service}"}})
        k.core.v1.Secret("secret", metadata=named("secret"), string_data={{"a": "{service}"}}, opts=options)
    """
    stack.program(text.format(cpu="1000m", service="one"), enable_secret_mutable=True)
    stack.up()
    assert stack.steps("--refresh") == {}, "equal quantities, stringData and server defaults must show no change"
    stack.program(text.format(cpu="2", service="two"), enable_secret_mutable=True)
    replaced = {name for name, step in stack.steps().items() if "replace" in step}
    assert replaced == {"set", "job", "claim", "binding"}
    # With upserts the official provider applies the new object over the old one, which the API server refuses.
    stack.program(text.format(cpu="2", service="two"), enable_secret_mutable=True, upsert_existing_objects=True)
    output = stack.fails("preview")
    # The engine stops at the first of them, and which comes first is chance.
    refusals = (
        *("updates to statefulset spec for fields other than", "spec is immutable", "field is immutable"),
        "cannot change roleRef",
    )
    assert any(words in output for words in refusals), output


def test_a_field_left_to_others_stays_as_they_set_it(stack: Stack) -> None:
    text = """
        spec = {{"serviceName": "a", "selector": {{"matchLabels": {{"a": "a"}}}},
                "updateStrategy": {{"type": "OnDelete"}},
                "template": {{"metadata": {{"labels": {{"a": "{label}", "v": "{label}"}}}},
                             "spec": {{"containers": [{{"name": "a", "image": "a"}}]}}}}}}
        spec["template"]["metadata"]["labels"]["a"] = "a"
        k.apps.v1.StatefulSet("a", metadata={{"name": "a", "namespace": namespace,
            "annotations": {{"pulumi.com/skipAwait": "true"}}}}, spec=spec, opts=options)
    """
    stack.program(text.format(label="one"))
    stack.up()
    path = f"/apis/apps/v1/namespaces/{stack.namespace}/statefulsets/a"
    merge = "application/merge-patch+json"
    stack.cluster.call("PATCH", f"{path}/scale", {"spec": {"replicas": 3}}, merge, fieldManager="operator")
    stack.program(text.format(label="two"))
    stack.up()
    live = stack.cluster.get(path)
    assert live["spec"]["replicas"] == 3
    assert live["spec"]["template"]["metadata"]["labels"]["v"] == "two"


@pytest.mark.standin_only("the official plugin has them all")
def test_what_the_stand_in_does_not_have_is_refused_in_words(stack: Stack) -> None:
    stack.program(config_map({"key": "one"}))
    stack.up()
    ignoring = 'opts=pulumi.ResourceOptions(provider=provider, ignore_changes=["data"]))'
    stack.program(config_map({"key": "two"}).replace("opts=options)", ignoring))
    assert "ignoreChanges: the stand-in provider does not have it" in stack.fails("preview")
    stack.program('k.core.v1.ConfigMap("a", metadata={"namespace": namespace}, data={}, opts=options)')
    assert "the stand-in provider makes no names" in stack.fails("preview")
    stack.program(config_map({"key": "two"}), enable_server_side_apply=False)
    assert "enableServerSideApply=false: the stand-in provider does not have this" in stack.fails("preview")
    stack.program(config_map({"key": "two"}).replace("ConfigMap(", "ConfigMapPatch("))
    assert "does not have the kind ConfigMapPatch: install the official plugin" in stack.fails("preview")
    stack.program('k.helm.v3.Release("a", chart="nginx", opts=options)')
    output = stack.fails("preview")
    assert "does not have Helm: install the official plugin" in output
    stack.program('k.yaml.v2.ConfigGroup("a", yaml="{}", opts=pulumi.ResourceOptions(provider=provider))')
    assert "does not have YAML files: install the official plugin" in stack.fails("preview")


def test_a_set_that_is_not_waited_for_is_replaced_at_once_where_it_ends_in_the_background(stack: Stack) -> None:
    text = """
        labels = {{"app": "a"}}
        k.apps.v1.StatefulSet("a", opts=options, metadata={{
            "name": "a", "namespace": namespace, "annotations": {{
                "pulumi.com/skipAwait": "true", "pulumi.com/deletionPropagationPolicy": "background"}},
        }}, spec={{
            "replicas": 0, "serviceName": "a", "podManagementPolicy": "{management}",
            "selector": {{"match_labels": labels}},
            "template": {{"metadata": {{"labels": labels}}, "spec": {{"containers": [{{"name": "a", "image": "a"}}]}}}},
        }})
    """
    path = f"/apis/apps/v1/namespaces/{stack.namespace}/statefulsets/a"
    stack.program(text.format(management="OrderedReady"), upsert_existing_objects=True)
    stack.up()
    stack.program(text.format(management="Parallel"), upsert_existing_objects=True)
    stack.up()
    assert stack.cluster.get(path)["spec"]["podManagementPolicy"] == "Parallel"
