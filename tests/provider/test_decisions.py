"""The decisions of the stand-in provider, without a cluster."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pulumi.provider.experimental.property_value import PropertyValue

from devcluster.standin import kubeconfig, settings
from devcluster.standin.decisions import diff, inputs, kinds, ownership, replacement, values
from devcluster.standin.decisions.kinds import Kind

JSON = st.recursive(
    st.booleans() | st.integers(-5, 5) | st.sampled_from(["", "a", "b"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=12,
)
OBJECTS = st.dictionaries(st.sampled_from("abc"), JSON, max_size=3)


# -- differences -----------------------------------------------------------------------------------------------------


@given(OBJECTS, OBJECTS)
def test_two_objects_differ_exactly_when_they_are_not_equal(old: Any, new: Any) -> None:
    assert bool(diff.differences(old, new, ())) == (repr(_sorted(old)) != repr(_sorted(new)))


def _sorted(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _sorted(value[key]) for key in sorted(value)}
    return [_sorted(item) for item in value] if isinstance(value, list) else value


@given(OBJECTS, OBJECTS)
def test_what_was_declared_is_found_again_in_an_object_that_the_cluster_added_to(declared: Any, added: Any) -> None:
    live = {**added, **declared}
    assert inputs.pruned(live, declared) == declared


@pytest.mark.parametrize(
    ("path", "one", "other", "same"),
    [
        (("spec", "limits", "cpu"), "1000m", "1", True),
        (("spec", "limits", "cpu"), 2, "2", True),
        (("spec", "requests", "memory"), "1Gi", "1024Mi", True),
        (("spec", "requests", "memory"), "1G", "1Gi", False),
        (("spec", "requests", "memory"), "1e3", "1k", True),
        (("emptyDir", "sizeLimit"), "0.5Gi", "512Mi", True),
        (("data", "cpu"), "1000m", "1", False),
        (("spec", "paused"), 1, True, False),
    ],
)
def test_equal_quantities_are_no_difference(path: Any, one: Any, other: Any, same: bool) -> None:
    assert diff.same(path, one, other) is same


@pytest.mark.parametrize(
    ("api_version", "kind", "path", "value", "replaces"),
    [
        ("apps/v1", "StatefulSet", ("spec", "volumeClaimTemplates", 0, "spec"), {}, True),
        ("apps/v1", "StatefulSet", ("spec", "template"), {}, False),
        ("apps/v1", "StatefulSet", ("spec",), {"serviceName": "a"}, True),
        ("apps/v1", "Deployment", ("spec", "selector", "matchLabels", "a"), "b", True),
        ("batch/v1", "Job", ("spec", "template", "spec", "containers", 0, "image"), "a", True),
        ("batch/v1", "Job", ("spec", "backoffLimit"), 2, False),
        ("v1", "PersistentVolumeClaim", ("spec", "storageClassName"), "a", True),
        ("v1", "PersistentVolumeClaim", ("spec", "resources", "requests", "storage"), "2Gi", False),
        ("v1", "Service", ("spec", "clusterIP"), "None", True),
        ("v1", "Service", ("spec", "ports", 0), {}, False),
        ("v1", "Secret", ("type",), "a", True),
        ("v1", "Secret", ("data", "a"), "b", False),
        ("rbac.authorization.k8s.io/v1", "RoleBinding", ("roleRef", "name"), "a", True),
        ("example.com/v1", "Thing", ("spec",), {"serviceName": "a"}, False),
        ("example.com/v1", "Thing", ("metadata", "namespace"), "a", True),
    ],
)
def test_fields_that_need_a_new_object(api_version: str, kind: str, path: Any, value: Any, replaces: bool) -> None:
    manifest = {"apiVersion": api_version, "kind": kind}
    mutable = settings.read({"kubernetes:config:enableSecretMutable": "true"})
    frozen = replacement.fields(kinds.of(manifest), manifest, mutable)
    assert replacement.needs_new_object(path, value, frozen) is replaces


@pytest.mark.parametrize(
    ("name", "argument"), [("ConfigMap", "enableConfigMapMutable"), ("Secret", "enableSecretMutable")]
)
def test_immutable_payloads_need_a_new_object_even_where_others_may_change(name: str, argument: str) -> None:
    given = settings.read({f"kubernetes:config:{argument}": "true"})
    for immutable in (False, True):
        manifest = {"apiVersion": "v1", "kind": name, "immutable": immutable}
        frozen = replacement.fields(kinds.of(manifest), manifest, given)
        assert replacement.needs_new_object(("data", "a"), "b", frozen) is immutable


# -- inputs ----------------------------------------------------------------------------------------------------------


def test_what_the_server_does_not_store_is_no_input_and_what_means_something_stays() -> None:
    network_policy = {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": "a", "labels": {}, "uid": "x"},
        "spec": {"podSelector": {}, "ingress": [], "egress": [{}]},
    }
    assert inputs.normalized(network_policy) == {
        **network_policy,
        "metadata": {"name": "a"},
        "spec": {"podSelector": {}, "egress": [{}]},
    }
    custom = {"apiVersion": "example.com/v1", "kind": "Thing", "spec": {"list": [], "readOnly": False, "none": None}}
    assert inputs.normalized(custom) == custom


def test_an_object_without_a_name_is_refused_in_words() -> None:
    for metadata in ({}, {"generateName": "a-"}):
        with pytest.raises(ValueError, match="makes no names: use the official plugin"):
            inputs.check_name({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})
    inputs.check_name({"metadata": {"name": values.UNKNOWN}})
    inputs.check_name({"metadata": values.UNKNOWN})


def test_secretness_follows_values_into_the_state() -> None:
    source = {
        "spec": PropertyValue({"open": PropertyValue("o"), "list": PropertyValue([PropertyValue("s", is_secret=True)])})
    }
    state = values.wrap_map({"spec": {"open": "o", "list": ["s", "t"], "filled": "f"}, "status": {}})
    marked = values.with_secrets_of(state, source)
    spec: Any = marked["spec"].value
    assert (spec["open"].is_secret, spec["list"].is_secret, spec["filled"].is_secret) == (False, True, False)
    secret = values.with_secrets_of(values.wrap_map({"kind": "Secret", "data": {"a": "b"}, "metadata": {}}), {})
    assert (secret["data"].is_secret, secret["metadata"].is_secret) == (True, False)


# -- who owns what ---------------------------------------------------------------------------------------------------


def managed(*entries: tuple[str, str, dict[str, Any]]) -> dict[str, Any]:
    fields = [{"manager": name, "operation": how, "fieldsV1": owned} for name, how, owned in entries]
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"managedFields": fields}}


def test_fields_of_plain_creates_and_of_kubectl_become_ours_and_those_of_others_do_not() -> None:
    live = managed(
        ("pulumi-kubernetes", "Update", {"f:data": {"f:a": {}}}),
        ("kubectl-edit", "Update", {"f:data": {"f:b": {}}}),
        ("operator", "Apply", {"f:data": {"f:c": {}}}),
        ("pulumi-slurm", "Apply", {"f:data": {"f:d": {}}}),
    )
    taken = ownership.taken_over(live, "pulumi-slurm")
    assert taken is not None
    owned = {entry["manager"]: entry["fieldsV1"] for entry in taken}
    assert owned["pulumi-slurm"] == {"f:data": {"f:a": {}, "f:b": {}, "f:d": {}}}
    assert owned["operator"] == {"f:data": {"f:c": {}}}
    assert ownership.taken_over({**live, "metadata": {"managedFields": taken}}, "pulumi-slurm") is None


def test_only_the_annotation_and_a_preview_of_our_own_object_force_an_apply() -> None:
    annotated = {"metadata": {"annotations": {"pulumi.com/patchForce": "true"}}}
    theirs, ours = managed(("operator", "Apply", {})), managed(("pulumi-kubernetes", "Update", {}))
    for live, preview in itertools.product((theirs, ours, None), (False, True)):
        assert ownership.forced(annotated, live, preview)
        assert ownership.forced({}, live, preview) is (preview and live is not theirs)


# -- the provider's own arguments ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "after", "replaces"),
    [
        ({"kubeconfig": "a", "clusterIdentifier": "x"}, {"kubeconfig": "b", "clusterIdentifier": "x"}, False),
        ({"clusterIdentifier": "x"}, {"clusterIdentifier": "y"}, True),
        ({"clusterIdentifier": "x"}, {"clusterIdentifier": values.UNKNOWN}, True),
        ({"clusterIdentifier": "x", "context": "a"}, {"clusterIdentifier": "x"}, False),
    ],
)
def test_another_cluster_replaces_what_the_provider_made(before: Any, after: Any, replaces: bool) -> None:
    changed, replacing = settings.change(before, after)
    assert changed
    assert bool(replacing) is replaces


@pytest.mark.parametrize(("before", "after"), [({}, {"clusterIdentifier": "y"}), ({"clusterIdentifier": "x"}, {})])
def test_a_provider_without_an_identifier_is_refused(before: Any, after: Any) -> None:
    with pytest.raises(ValueError, match="clusterIdentifier: the stand-in provider does not have this"):
        settings.change(before, after)


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("renderYamlToDirectory", "out"),
        ("cluster", "other"),
        ("namespace", "other"),
        ("enableServerSideApply", "false"),
        ("enablePatchForce", "true"),
        ("deleteUnreachable", "true"),
        ("skipUpdateUnreachable", "true"),
    ],
)
def test_arguments_that_the_program_leaves_alone_are_refused(
    monkeypatch: pytest.MonkeyPatch, argument: str, value: str
) -> None:
    with pytest.raises(ValueError, match=f"{argument}={value}: the stand-in provider does not have this"):
        settings.read({f"kubernetes:config:{argument}": value})
    variable = settings._REFUSED[argument][0]
    if variable:
        monkeypatch.setenv(variable, value)
        with pytest.raises(ValueError, match=argument):
            settings.read({})


def test_a_kubeconfig_that_asks_for_more_is_refused_without_its_secrets(tmp_path: Path) -> None:
    user: dict[str, Any] = {"token": "t"}
    server: dict[str, Any] = {"server": "https://a:6443/"}
    config = {
        "current-context": "a",
        "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a", "namespace": "n"}}],
        "clusters": [{"name": "a", "cluster": server}],
        "users": [{"name": "a", "user": user}],
    }
    file = tmp_path / "config"
    file.write_text(json.dumps(config))
    read = kubeconfig.read(str(file))
    assert (read.server, read.namespace, read.headers) == ("https://a:6443", "n", {"Authorization": "Bearer t"})
    assert kubeconfig.read(json.dumps(config)).headers == read.headers
    for entry, key in ((server, "proxy-url"), (server, "tls-server-name"), (user, "exec"), (user, "username")):
        entry[key] = "s3cret"
        with pytest.raises(kubeconfig.KubeconfigError, match=f"has `{key}`.*use the official plugin") as refused:
            kubeconfig.read(json.dumps(config))
        assert "s3cret" not in str(refused.value)
        del entry[key]
    with pytest.raises(kubeconfig.KubeconfigError, match="several files"):
        kubeconfig.read(f"{file}:{file}")
    with pytest.raises(kubeconfig.KubeconfigError, match="no context named 'b'"):
        kubeconfig.read(str(file), "b")


# -- kinds -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("token", "kind"),
    [
        ("kubernetes:core/v1:Secret", Kind("", "v1", "Secret")),
        ("kubernetes:apps/v1:StatefulSet", Kind("apps", "v1", "StatefulSet")),
        ("kubernetes:pulumi-slurm.dev/v1alpha1:NodeSet", Kind("pulumi-slurm.dev", "v1alpha1", "NodeSet")),
        ("pulumi-slurm:index:Login$kubernetes:apps/v1:StatefulSet", Kind("apps", "v1", "StatefulSet")),
    ],
)
def test_kinds_are_read_from_types_and_written_back(token: str, kind: Kind) -> None:
    assert kinds.from_token(token) == kind
    assert kinds.of({"apiVersion": kind.api_version, "kind": kind.name}) == kind


@pytest.mark.parametrize(
    "token",
    ["kubernetes:helm.sh/v3:Release", "kubernetes:helm.sh/v4:Chart", "kubernetes:kustomize/v2:Directory",
     "kubernetes:yaml/v2:ConfigFile", "kubernetes:yaml:decode", "kubernetes:helm:template",
     "kubernetes:core/v1:ConfigMapPatch", "kubernetes:networking.k8s.io/v1:Ingress", "kubernetes:core/v1:Pod"],
)  # fmt: skip
def test_what_is_not_there_is_refused_in_words(token: str) -> None:
    assert "install the official plugin" in str(kinds.refusal(token))
    assert kinds.refusal("kubernetes:apps/v1:Deployment") is None
    assert kinds.refusal("kubernetes:pulumi-slurm.dev/v1alpha1:NodeSet") is None
