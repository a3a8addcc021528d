"""Resources that the whole program registers with Pulumi."""

from __future__ import annotations

import base64
import gzip
import json
from typing import Any

import pulumi
import pytest

from components import claim_guard, slurm_cluster
from components.config import parse
from components.control import ledger
from components.jail import jail_population
from contract import names
from tests.unit.samples import EVERYTHING, GENERATED, GPU_SET, SMALL, Engine, changed, run_program

PAYLOADS = {
    names.KEYS: GENERATED["slurm"],
    names.SSH_HOST_KEYS: GENERATED["ssh"],
    names.DATABASE_CREDENTIALS: GENERATED["database"],
}
CRDS_OWN = {"CustomResourceDefinition", "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"}
UNHELD = {"Namespace", "PersistentVolume", "Job", "ClusterRole", "ClusterRoleBinding", *CRDS_OWN}
"""Kinds that the operator never restores: no right in a namespace reaches them, or they say when something ran."""
UNHELD_OBJECTS = {names.LEDGER, names.LEDGER_PAYLOADS}


@pytest.fixture(scope="module")
def engine() -> Engine:
    raw = changed("nodeSets", [SMALL["nodeSets"][0], GPU_SET])
    return run_program(raw)[0]


def data(engine: Engine, secret: str) -> dict[str, bytes]:
    """A declared Secret's data, decoded."""
    return {key: base64.b64decode(value) for key, value in engine.one("Secret", secret).inputs["data"].items()}


def entries(engine: Engine) -> list[dict[str, Any]]:
    """Objects of the ledger."""
    document = json.loads(gzip.decompress(data(engine, names.LEDGER)[names.LEDGER_DATA]))
    assert document["format"] == 1
    objects: list[dict[str, Any]] = document["objects"]
    return objects


def is_custom(resource: Any) -> bool:
    """Return whether it is one of the resources that the operator works from."""
    return names.API_GROUP in resource.type


def test_the_ledger_holds_exactly_what_is_declared(engine: Engine) -> None:
    declared = {
        (each.inputs["kind"], each.inputs["metadata"]["name"]): each.inputs
        for each in engine.kubernetes()
        if not is_custom(each)
        and each.inputs["kind"] not in UNHELD
        and each.inputs["metadata"]["name"] not in UNHELD_OBJECTS
    }
    held = {(each["kind"], each["metadata"]["name"]): each for each in entries(engine)}
    assert held.keys() == declared.keys()
    for key_of, entry in held.items():
        payload = ("data",) if entry["kind"] == "Secret" else ()
        assert all(entry[key].keys() == declared[key_of][key].keys() for key in payload)
        assert _without(entry, payload) == _without(declared[key_of], payload)


def _without(item: dict[str, Any], keys: tuple[str, ...]) -> dict[str, Any]:
    return {key: value for key, value in item.items() if key not in keys}


def test_the_ledger_holds_no_secret_and_the_payloads_hold_all(engine: Engine) -> None:
    text = gzip.decompress(data(engine, names.LEDGER)[names.LEDGER_DATA])
    payloads = data(engine, names.LEDGER_PAYLOADS)
    for secret in (names.KEYS, names.SSH_HOST_KEYS, names.DATABASE_CREDENTIALS):
        for key, value in data(engine, secret).items():
            assert value not in text
            assert base64.b64encode(value) not in text
            assert payloads.pop(f"{secret}.{key}") == value
    assert payloads == {}


def test_the_revision_is_the_same_everywhere_and_follows_what_is_held() -> None:
    engine, _ = run_program(SMALL)
    cluster = engine.one("SlurmCluster", "cluster").inputs
    revision = data(engine, names.LEDGER)[names.LEDGER_REVISION].decode()
    assert cluster["spec"]["revision"] == revision
    waited_for = engine.one("Availability", "availability")
    assert waited_for.inputs["revision"] == revision
    assert waited_for.inputs["operatorImage"] == "operator:0123abcd4567"
    assert engine.one("SlurmCluster", "cluster").urn in waited_for.dependencies
    other, _ = run_program(changed("slurm.options", {"KillWait": "60"}))
    assert other.one("SlurmCluster", "cluster").inputs["spec"]["revision"] != revision


def test_the_revision_follows_a_secrets_content_without_telling_it() -> None:
    manifests = slurm_cluster.manifests(parse(SMALL))
    changed_payloads = {**PAYLOADS, names.KEYS: {**GENERATED["slurm"], "jwt.key": "AAAA"}}
    revision = ledger.ledger(manifests, PAYLOADS, "k").revision
    assert ledger.ledger(manifests, PAYLOADS, "k").revision == revision
    assert ledger.ledger(manifests, changed_payloads, "k").revision != revision
    assert ledger.ledger(manifests, PAYLOADS, "other").revision != revision


def test_a_ledger_too_large_for_kubernetes_is_refused_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger, "_LARGEST_BYTES", 1000)
    with pytest.raises(pulumi.RunError, match=r"pulumi-slurm:nodeSets: got \d+ objects, \d+ bytes .* fewer node sets"):
        ledger.ledger(slurm_cluster.manifests(parse(SMALL)), PAYLOADS, "k")


def test_contents_of_secrets_too_large_for_kubernetes_are_refused_in_words_without_telling_them() -> None:
    large = base64.b64encode(b"secret" * 200_000).decode()
    payloads = {**PAYLOADS, names.KEYS: {**GENERATED["slurm"], "jwt.key": large}}
    with pytest.raises(pulumi.RunError, match=rf"{names.KEYS}\.jwt\.key with 1200000 bytes") as refused:
        ledger.ledger(slurm_cluster.manifests(parse(SMALL)), payloads, "k")
    assert large[:12] not in str(refused.value)


def test_no_secret_of_a_program_with_everything_stands_in_clear_in_what_is_not_one() -> None:
    engine, _ = run_program(EVERYTHING)
    declared = [each for each in engine.kubernetes() if each.inputs.get("kind") == "Secret"]
    theirs = [each.inputs["data"] for each in declared if each.inputs["metadata"]["name"] not in UNHELD_OBJECTS]
    contents = {value for each in theirs for value in each.values() if len(value) >= 16}
    assert len(contents) > 3, "there is something to find"
    written = gzip.decompress(data(engine, names.LEDGER)[names.LEDGER_DATA]).decode()
    written += json.dumps([each.inputs for each in engine.kubernetes() if each not in declared])
    for content in contents:
        assert content not in written
        assert base64.b64decode(content) not in written.encode()


def test_the_ledger_of_many_node_sets_is_far_from_the_limit() -> None:
    sets = [{**SMALL["nodeSets"][0], "name": f"set-{number}"} for number in range(100)]
    made = ledger.ledger(slurm_cluster.manifests(parse(changed("nodeSets", sets))), PAYLOADS, "k")
    assert len(made.data[names.LEDGER_DATA]) < 100 * 1024


def test_the_ledger_is_there_before_what_it_holds(engine: Engine) -> None:
    first = engine.one("Secret", names.LEDGER).urn
    for each in engine.kubernetes():
        key = (each.inputs["kind"], each.inputs["metadata"]["name"])
        if key in {(entry["kind"], entry["metadata"]["name"]) for entry in entries(engine)}:
            assert first in each.dependencies, f"{key} may be declared before the ledger"


def test_the_custom_resources_come_last_and_go_first(engine: Engine) -> None:
    cluster = engine.one("SlurmCluster", "cluster")
    sets = [each for each in engine.kubernetes() if each.type.endswith(":NodeSet")]
    assert {each.urn for each in sets} <= cluster.dependencies
    workloads = {
        each.urn
        for each in engine.kubernetes()
        if each.inputs["kind"] in ("StatefulSet", "Deployment", "ConfigMap", "Service")
    }
    for each in [cluster, *sets]:
        assert workloads - {engine.one("Deployment", names.OPERATOR).urn} <= each.dependencies


def test_the_operator_is_deleted_after_all_that_it_looks_after(engine: Engine) -> None:
    operator = engine.one("Deployment", names.OPERATOR)
    rights = {engine.one(kind, names.OPERATOR).urn for kind in ("ServiceAccount", "Role", "RoleBinding")}
    assert rights <= operator.dependencies
    for each in engine.kubernetes():
        if each.inputs["kind"] in ("StatefulSet", "ConfigMap", "NetworkPolicy") or each.name == names.REST:
            assert operator.urn in each.dependencies, f"{each.name} may outlive the operator"


def test_nodes_use_a_root_only_when_it_is_complete(engine: Engine) -> None:
    job = next(each for each in engine.kubernetes() if each.inputs["kind"] == "Job")
    for name in ("cpu", "h100", names.LOGIN):
        assert job.urn in engine.one("StatefulSet", name).dependencies
    assert job.urn not in engine.one("StatefulSet", names.CONTROLLER).dependencies


def test_secrets_stay_secret(engine: Engine) -> None:
    secrets = [each for each in engine.kubernetes() if each.inputs["kind"] == "Secret"]
    assert len(secrets) == 5
    for each in secrets:
        assert each.is_secret("data")
        assert "data" in each.request.additionalSecretOutputs
    for each in engine.registered:
        if each.type.endswith(":Keys"):
            assert "data" in each.request.additionalSecretOutputs


def test_every_resource_uses_the_one_provider(engine: Engine) -> None:
    provider = engine.one("kubernetes", "kubernetes")
    for each in engine.kubernetes():
        assert each.request.provider.startswith(provider.urn)
    assert provider.inputs["clusterIdentifier"] == "dev"
    switches = ("enableConfigMapMutable", "enableSecretMutable", "upsertExistingObjects")
    # Provider inputs travel as JSON text.
    assert [str(provider.inputs[key]).lower() for key in switches] == ["true"] * 3


def test_types_and_names_of_resources_are_the_ones_that_stored_states_know(engine: Engine) -> None:
    """A changed type or name is another resource to Pulumi: it would replace volumes and keys."""
    ours = {each.urn.rpartition("::")[2]: each.type for each in engine.registered if "kubernetes" not in each.type}
    assert ours == {
        "dev": "pulumi-slurm:index:SlurmCluster",
        "namespace": "pulumi-slurm:index:Namespace",
        "generated-keys": "pulumi-slurm:index:GeneratedKeys",
        "revision-keys": "pulumi-python:dynamic/pulumi-slurm:Keys",
        "slurm-keys": "pulumi-python:dynamic/pulumi-slurm:Keys",
        "ssh-keys": "pulumi-python:dynamic/pulumi-slurm:Keys",
        "database-keys": "pulumi-python:dynamic/pulumi-slurm:Keys",
        "ledger": "pulumi-slurm:index:LedgerSecrets",
        "credentials": "pulumi-slurm:index:Credentials",
        "operator": "pulumi-slurm:index:Operator",
        "jail-claim-guard": "pulumi-python:dynamic/pulumi-slurm:ClaimGuard",
        "controller-claim-guard": "pulumi-python:dynamic/pulumi-slurm:ClaimGuard",
        "database-claim-guard": "pulumi-python:dynamic/pulumi-slurm:ClaimGuard",
        "jail-storage": "pulumi-slurm:index:JailStorage",
        "jail-population": "pulumi-slurm:index:JailPopulation",
        f"{jail_population.job_name(parse(SMALL).jail.revision)}-ready": "pulumi-python:dynamic/pulumi-slurm:JailReady",
        "configuration": "pulumi-slurm:index:Configuration",
        "network-policies": "pulumi-slurm:index:NetworkPolicies",
        "monitoring": "pulumi-slurm:index:Monitoring",
        "database": "pulumi-slurm:index:Database",
        "accounting": "pulumi-slurm:index:Accounting",
        "controller": "pulumi-slurm:index:Controller",
        "rest-api": "pulumi-slurm:index:RestApi",
        "rehearsal": "pulumi-slurm:index:Rehearsal",
        "workers": "pulumi-slurm:index:Workers",
        "node-set-cpu": "pulumi-slurm:index:NodeSet",
        "node-set-h100": "pulumi-slurm:index:NodeSet",
        "login": "pulumi-slurm:index:Login",
        "availability": "pulumi-python:dynamic/pulumi-slurm:Availability",
    }


@pytest.mark.parametrize("retained", [{"jail"}, {"state"}, {"database"}, set()])
def test_a_retained_volume_keeps_its_namespace(retained: set[str]) -> None:
    jail, state, database, kept = "jail" in retained, "state" in retained, "database" in retained, bool(retained)
    raw = changed("controller.stateStorage.retain", state, changed("jail.storage.retain", jail))
    raw = changed("accounting.storage.retain", database, raw)
    engine, _ = run_program(raw)
    assert engine.one("Namespace", "slurm").request.retainOnDelete is kept
    assert engine.one("PersistentVolumeClaim", names.JAIL).request.retainOnDelete is jail
    assert engine.one("PersistentVolumeClaim", names.CONTROLLER_STATE).request.retainOnDelete is state
    assert engine.one("PersistentVolumeClaim", names.DATABASE).request.retainOnDelete is database


@pytest.mark.parametrize(
    ("guard", "path", "value", "source"),
    [
        ("jail-claim-guard", "jail.storage", {}, "the default storage class"),
        ("jail-claim-guard", "jail.storage.className", "fast", "className fast"),
        ("jail-claim-guard", "jail.storage.hostPath", "/lustre", "hostPath /lustre"),
        ("jail-claim-guard", "jail.storage.nfs", {"server": "a", "path": "/b"}, "nfs a:/b"),
        ("controller-claim-guard", "controller.stateStorage.className", "fast", "className fast"),
        ("database-claim-guard", "accounting.storage.className", "fast", "className fast"),
    ],
)
def test_a_claim_is_declared_only_past_its_guard(guard: str, path: str, value: Any, source: str) -> None:
    engine, _ = run_program(changed(path, value))
    found = engine.one("ClaimGuard", guard)
    assert found.inputs["source"] == source
    claims = {"jail": names.JAIL, "controller": names.CONTROLLER_STATE, "database": names.DATABASE}
    claim = claims[guard.partition("-")[0]]
    assert found.urn in engine.one("PersistentVolumeClaim", claim).dependencies


def test_another_source_of_a_volume_is_refused_with_its_key() -> None:
    provider = claim_guard._GuardProvider()
    setting = {"setting": "pulumi-slurm:jail.storage"}
    before, after = ({**setting, "source": f"className {name}"} for name in ("fast", "slow"))
    (failure,) = provider.check(before, after).failures
    assert failure.property == "pulumi-slurm:jail.storage"
    assert failure.reason.startswith("got 'className slow'; want 'className fast', from which the volume was made")
    assert provider.check({}, after).failures == []
    assert provider.check(after, after).failures == []


def test_protection_is_a_switch_of_its_own() -> None:
    engine, _ = run_program(changed("jail.storage.protect", True))
    assert engine.one("PersistentVolumeClaim", names.JAIL).request.protect is True
    assert engine.one("PersistentVolumeClaim", names.CONTROLLER_STATE).request.protect is False
    assert engine.one("Namespace", "slurm").request.protect is False


def test_crds_outlive_the_stack(engine: Engine) -> None:
    crds = [each for each in engine.kubernetes() if each.inputs["kind"] == "CustomResourceDefinition"]
    assert {each.name for each in crds} == {f"slurmclusters.{names.API_GROUP}", f"nodesets.{names.API_GROUP}"}
    theirs = [each for each in engine.kubernetes() if each.inputs["kind"] in CRDS_OWN and names.API_GROUP in each.name]
    assert len(theirs) == len(crds) + 2
    assert all(each.request.retainOnDelete for each in theirs)


def test_an_existing_operator_is_left_alone() -> None:
    engine, _ = run_program(changed("operator.mode", "existing"))
    kinds = {each.inputs["kind"] for each in engine.kubernetes()}
    assert not kinds & {*CRDS_OWN, "Role", "RoleBinding", "ServiceAccount", "ClusterRole"}


def test_existing_secrets_are_used_and_no_keys_made() -> None:
    raw = changed("credentials", {"existingSecret": "a", "existingSshSecret": "b", "existingDatabaseSecret": "c"})
    engine, _ = run_program(raw)
    assert [each.name for each in engine.registered if each.type.endswith(":Keys")] == ["revision-keys"]
    secrets = {each.name for each in engine.kubernetes() if each.inputs["kind"] == "Secret"}
    assert secrets == {names.LEDGER, names.LEDGER_PAYLOADS}


def test_a_first_preview_works_without_a_cluster_and_without_keys() -> None:
    engine, outputs = run_program(changed("login.service", {"type": "NodePort", "nodePort": 30022}), preview=True)
    cluster = engine.one("SlurmCluster", "cluster").inputs
    assert "revision" not in cluster["spec"]
    assert outputs["login"] == "<any Kubernetes node>:30022"


def test_a_preview_of_a_load_balancer_does_not_ask_for_its_address() -> None:
    _, outputs = run_program(SMALL, preview=True)
    assert "login" not in outputs


def test_outputs_say_where_to_go() -> None:
    _, outputs = run_program(changed("login.service", {"type": "NodePort", "nodePort": 30022}))
    assert outputs == {
        "namespace": "slurm",
        "login": "<any Kubernetes node>:30022",
        "rest": "http://slurm-rest.slurm.svc.cluster.local:6820",
        "condition": "kubectl --namespace slurm get slurmclusters,nodesets,pods --output wide",
        "watch": "kubectl --namespace slurm get nodesets --watch",
    }
