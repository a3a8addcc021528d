"""Pods: their rights, requests and volumes."""

from __future__ import annotations

from typing import Any

import pytest

from components import slurm_cluster
from components.config import parse
from components.jail import jail_population
from components.kubernetes.manifest import Manifest
from components.pods import pod_security
from contract import names
from tests.unit.samples import DIRECTORY, EVERYTHING, GPU_SET, SMALL, changed

CONFIG = parse(changed("nodeSets", [SMALL["nodeSets"][0], GPU_SET], changed("directory", DIRECTORY)))
MANIFESTS = slurm_cluster.manifests(CONFIG)
WORKLOADS = [each for each in MANIFESTS if each.kind in ("StatefulSet", "Deployment", "Job")]
SELECTORS = ("podSelector", "namespaceSelector", "ipBlock")


def pod(manifest: Manifest) -> Any:
    """The pod spec of a workload."""
    return manifest.body["spec"]["template"]["spec"]


def containers(manifest: Manifest) -> list[Any]:
    """All containers of a workload, those of its start too."""
    return [*pod(manifest).get("initContainers", []), *pod(manifest)["containers"]]


def workload(name: str) -> Manifest:
    """The workload of this name."""
    return next(each for each in WORKLOADS if each.name == name)


EVERY_WORKLOAD = pytest.mark.parametrize("manifest", WORKLOADS, ids=lambda manifest: manifest.name)


@EVERY_WORKLOAD
def test_no_pod_is_privileged_or_uses_the_hosts_namespaces(manifest: Manifest) -> None:
    spec = pod(manifest)
    assert not {"hostNetwork", "hostPID", "hostIPC"} & spec.keys()
    assert not any("hostPath" in volume for volume in spec["volumes"])
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    for container in containers(manifest):
        security = container["securityContext"]
        assert "privileged" not in security
        assert security["capabilities"]["drop"] == ["ALL"]


@EVERY_WORKLOAD
def test_only_the_operator_may_speak_to_kubernetes(manifest: Manifest) -> None:
    assert pod(manifest)["automountServiceAccountToken"] is (manifest.name == names.OPERATOR)


@EVERY_WORKLOAD
def test_every_container_says_what_it_needs(manifest: Manifest) -> None:
    for container in containers(manifest):
        assert {"cpu", "memory"} <= container["resources"]["requests"].keys()
        assert "memory" in container["resources"]["limits"]


@pytest.mark.parametrize(
    ("name", "uid"),
    [
        (names.CONTROLLER, names.SLURM_UID),
        (names.ACCOUNTING, names.SLURM_UID),
        (names.DATABASE, names.DATABASE_UID),
        (names.REST, names.SLURMREST_UID),
        (names.OPERATOR, names.OPERATOR_UID),
    ],
)
def test_daemons_that_need_no_root_have_none(name: str, uid: int) -> None:
    security = pod(workload(name))["securityContext"]
    assert (security["runAsUser"], security["runAsNonRoot"]) == (uid, True)
    for container in containers(workload(name)):
        assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
        assert container["securityContext"]["allowPrivilegeEscalation"] is False
        assert container["securityContext"]["readOnlyRootFilesystem"] is True


@pytest.mark.parametrize(
    ("name", "reasons"),
    [
        ("cpu", pod_security.WORKER_CAPABILITIES),
        (names.LOGIN, pod_security.LOGIN_CAPABILITIES),
        (names.LDAP, pod_security.LDAP_CAPABILITIES),
        (jail_population.job_name(CONFIG.jail.revision), pod_security.POPULATE_CAPABILITIES),
    ],
)
def test_capabilities_are_those_with_a_reason(name: str, reasons: dict[str, str]) -> None:
    capabilities = pod(workload(name))["containers"][0]["securityContext"]["capabilities"]
    assert capabilities == {"drop": ["ALL"], "add": sorted(reasons)}
    assert all(len(reason) > 10 for reason in reasons.values())


def test_the_root_of_each_worker_and_login_node_is_read_only() -> None:
    """slurmd opens paths there for users."""
    roots = {
        each.name: [container["securityContext"].get("readOnlyRootFilesystem") for container in containers(each)]
        for each in slurm_cluster.manifests(parse(EVERYTHING))
        if each.body["metadata"]["labels"][names.LABEL_COMPONENT] in ("worker", "login", "login-set")
        if each.kind == "StatefulSet"
    }
    assert roots == {name: [True] for name in ("cpu", "h100", names.LOGIN, f"{names.LOGIN}-data")}


@pytest.mark.parametrize("node_set", ["cpu", "h100"])
def test_a_worker_set_is_sized_and_rolled_by_the_operator_alone(node_set: str) -> None:
    spec = workload(node_set).body["spec"]
    assert "replicas" not in spec
    assert spec["updateStrategy"] == {"type": "OnDelete"}
    assert spec["podManagementPolicy"] == "Parallel"
    annotations = workload(node_set).body["metadata"]["annotations"]
    assert annotations["pulumi.com/skipAwait"] == "true"
    assert annotations["pulumi.com/deletionPropagationPolicy"] == "orphan"
    assert "volumeClaimTemplates" not in spec


def test_a_kubelets_outage_or_a_busy_moment_never_ends_a_worker() -> None:
    spec = pod(workload("cpu"))
    assert "livenessProbe" not in spec["containers"][0]
    for taint in ("not-ready", "unreachable"):
        toleration = {"key": f"node.kubernetes.io/{taint}", "operator": "Exists", "effect": "NoExecute"}
        assert toleration in spec["tolerations"]


def test_a_worker_gets_exactly_what_it_asks_for() -> None:
    resources = pod(workload("h100"))["containers"][0]["resources"]
    assert resources["requests"] == resources["limits"]
    assert resources["limits"] == {"cpu": "120", "memory": "1500Gi", "nvidia.com/gpu": "8"}


def test_two_operators_stand_on_two_machines_where_there_are_two() -> None:
    one = workload(names.OPERATOR).body["spec"]
    assert (one["replicas"], "affinity" in one["template"]["spec"]) == (1, False)
    config = parse(changed("operator.replicas", 2))
    two = next(
        each.body["spec"]
        for each in slurm_cluster.manifests(config)
        if (each.kind, each.name) == ("Deployment", names.OPERATOR)
    )
    assert (two["replicas"], two["strategy"]) == (2, {"type": "Recreate"})
    (apart,) = two["template"]["spec"]["affinity"]["podAntiAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
    assert apart["podAffinityTerm"]["topologyKey"] == "kubernetes.io/hostname"
    assert apart["podAffinityTerm"]["labelSelector"]["matchLabels"] == two["selector"]["matchLabels"]


def test_a_worker_never_sees_the_jwt_key() -> None:
    for name in ("cpu", names.LOGIN):
        volume = next(each for each in pod(workload(name))["volumes"] if each["name"] == "keys")
        assert [item["key"] for item in volume["secret"]["items"]] == [names.SLURM_KEY]
    operator = pod(workload(names.OPERATOR))["volumes"][0]["secret"]["items"]
    assert [item["key"] for item in operator] == [names.JWT_KEY]


def test_the_database_password_is_where_it_is_needed_and_nowhere_else() -> None:
    holders = {
        each.name
        for each in WORKLOADS
        for volume in pod(each)["volumes"]
        if volume.get("secret", {}).get("secretName") == names.DATABASE_CREDENTIALS
    }
    assert holders == {names.ACCOUNTING, names.DATABASE}


def test_slurmctld_mounts_the_active_configuration_only() -> None:
    mounted = [
        volume["configMap"]["name"] for each in WORKLOADS for volume in pod(each)["volumes"] if "configMap" in volume
    ]
    scripts = {names.NODE_SCRIPTS, names.TASK_SCRIPTS, names.CONTROLLER_SCRIPTS}
    assert set(mounted) - scripts == {names.CONFIG_ACTIVE, names.ACCOUNTING, names.ROOTS}


def test_logins_know_every_root_that_the_configuration_names_without_starting_anew() -> None:
    """Also that of a node set without nodes: its next pod finds no Job that would make the root again."""
    canary = "registry.example/canary:0123456789abcdef"
    sets = [{**SMALL["nodeSets"][0], "replicas": 0, "jailImage": canary}]
    before, after = (
        {(each.kind, each.name): each.body for each in slurm_cluster.manifests(parse(config))}
        for config in (SMALL, changed("nodeSets", sets))
    )
    named = list(before["ConfigMap", names.ROOTS]["data"].items())
    assert list(after["ConfigMap", names.ROOTS]["data"].items()) == [*named, ("0123456789abcdef", canary)]
    assert after["StatefulSet", names.LOGIN] == before["StatefulSet", names.LOGIN]


def test_short_node_names_resolve_in_every_slurm_pod() -> None:
    for each in WORKLOADS:
        assert "slurm-workers.slurm.svc.cluster.local" in pod(each)["dnsConfig"]["searches"]


def test_the_controller_finds_logins_by_their_short_names_to_send_them_the_configuration() -> None:
    controller = next(each for each in WORKLOADS if each.name == names.CONTROLLER)
    assert "slurm-logins.slurm.svc.cluster.local" in pod(controller)["dnsConfig"]["searches"]


def test_every_object_carries_the_labels_and_the_field_manager() -> None:
    for each in MANIFESTS:
        metadata = each.body["metadata"]
        labels = metadata["labels"]
        assert labels[names.LABEL_NAME] == "slurm"
        assert labels[names.LABEL_MANAGED_BY] == "pulumi-slurm"
        assert names.LABEL_COMPONENT in labels
        assert labels[names.LABEL_INSTANCE] == "dev"
        assert metadata["annotations"]["pulumi.com/patchFieldManager"] == "pulumi-slurm"
        assert metadata["annotations"]["pulumi.com/patchForce"] == "true"


def test_objects_that_are_ready_late_do_not_hold_pulumi_up() -> None:
    """Their readiness needs the operator, which waits for the SlurmCluster resource, which comes after them."""
    awaited = {"Namespace", "ConfigMap", "Secret", "NetworkPolicy", "ServiceAccount", "Role", "RoleBinding"}
    awaited |= {"ClusterRole", "ClusterRoleBinding", "PodDisruptionBudget"}
    awaited |= {"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"}
    for each in MANIFESTS:
        if each.kind in awaited or (each.kind, each.name) == ("Deployment", names.OPERATOR):
            continue
        assert each.body["metadata"]["annotations"]["pulumi.com/skipAwait"] == "true", (each.kind, each.name)


def test_the_namespace_lets_pods_mount_file_systems() -> None:
    """Pod Security's stricter levels forbid SYS_ADMIN, which workers and logins need to make a job's root."""
    (namespace,) = (each for each in MANIFESTS if each.kind == "Namespace")
    assert namespace.body["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "privileged"


def test_selectors_find_the_pods_of_their_own_workload_only() -> None:
    for each in WORKLOADS:
        if each.kind == "Job":
            continue
        selector = each.body["spec"]["selector"]["matchLabels"].items()
        matching = [
            other.name
            for other in WORKLOADS
            if selector <= other.body["spec"]["template"]["metadata"]["labels"].items()
        ]
        assert matching == [each.name]


def test_a_services_selector_finds_its_pods() -> None:
    wanted = {
        names.CONTROLLER: [names.CONTROLLER],
        names.REST: [names.REST],
        names.CONFIG_DRY_RUN: [names.CONFIG_DRY_RUN],
        names.ACCOUNTING: [names.ACCOUNTING],
        names.DATABASE: [names.DATABASE],
        names.WORKERS: ["cpu", "h100"],
        names.LOGIN: [names.LOGIN],
        names.LOGINS: [names.LOGIN],
        **{f"{names.METRICS}-{what}": [names.CONTROLLER] for what in ("jobs", "nodes", "partitions", "scheduler")},
        f"{names.METRICS}-operator": [names.OPERATOR],
    }
    found = {
        each.name: [
            other.name
            for other in WORKLOADS
            if each.body["spec"]["selector"].items() <= other.body["spec"]["template"]["metadata"]["labels"].items()
        ]
        for each in MANIFESTS
        if each.kind == "Service"
    }
    assert found == wanted


def test_a_users_change_runs_the_population_again_and_the_size_of_tmp_does_not() -> None:
    def job(path: str, value: Any) -> Any:
        return next(each.body for each in slurm_cluster.manifests(parse(changed(path, value))) if each.kind == "Job")

    assert job("jail.tmpSize", "3Gi") == job("jail.tmpSize", "1Gi")
    assert job("login.users", [{"name": "a", "sshPublicKeys": [_KEY]}]) != job("login.users", [])


_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f"


@EVERY_WORKLOAD
def test_a_set_that_nobody_waits_for_can_be_replaced(manifest: Manifest) -> None:
    annotations = manifest.body["metadata"]["annotations"]
    if manifest.kind not in ("StatefulSet", "Job") or "pulumi.com/skipAwait" not in annotations:
        return
    workers = manifest.body["metadata"]["labels"][names.LABEL_COMPONENT] == "worker"
    # Workers outlive their set, with their jobs.
    assert annotations["pulumi.com/deletionPropagationPolicy"] == ("orphan" if workers else "background")
