"""The operator: its CRDs, its rights and its pod."""

from collections.abc import Iterable, Sequence
from typing import Any

import pulumi

from components.config import Config
from components.config.program import OperatorMode
from components.control import crd_policy, operator_policy
from components.control.crds import files
from components.kubernetes.component import Component
from components.kubernetes.manifest import SKIP_AWAIT, Manifest, declared, plural, selector
from components.pods import pod_security
from components.pods.slurm_pod import pod_template, resources, slurm_pod_spec
from components.slurm.controller import keys_secret
from contract import names, paths, pod_variables

_READ = ["get", "list", "watch"]
_GROUP = names.API_GROUP
_OWN_RULES: list[dict[str, Any]] = [
    {"apiGroups": [_GROUP], "resources": [names.SLURM_CLUSTERS, names.NODE_SETS], "verbs": _READ},
    {"apiGroups": [_GROUP], "resources": [names.NODE_SETS], "verbs": ["patch", "update"]},
    {
        "apiGroups": [_GROUP],
        "resources": [f"{names.SLURM_CLUSTERS}/status", f"{names.NODE_SETS}/status"],
        "verbs": ["patch"],
    },
    # Without names: it scales down and deletes the StatefulSet of a node set that is no longer declared.
    {"apiGroups": ["apps"], "resources": ["statefulsets"], "verbs": [*_READ, "patch", "delete"]},
    # An update deletes the pod of an idle worker, and a label permits its eviction. Their names are not known
    # beforehand. An annotation on slurmctld's pod makes kubelet update its configuration at once.
    {"apiGroups": [""], "resources": ["pods"], "verbs": [*_READ, "patch", "delete"]},
    # Slurm's state of a node, as a condition of its pod.
    {"apiGroups": [""], "resources": ["pods/status"], "verbs": ["patch"]},
    # Only the pod's log has slurmdbd's own words about its database.
    {"apiGroups": [""], "resources": ["pods/log"], "resourceNames": [f"{names.ACCOUNTING}-0"], "verbs": ["get"]},
    {
        "apiGroups": [""],
        "resources": ["configmaps"],
        "resourceNames": [names.CONFIG_ACTIVE],
        "verbs": ["patch", "update"],
    },
    {
        "apiGroups": [""],
        "resources": ["secrets"],
        "resourceNames": [names.LEDGER, names.LEDGER_PAYLOADS],
        "verbs": _READ,
    },
    {"apiGroups": ["", "events.k8s.io"], "resources": ["events"], "verbs": ["create", "get", "patch"]},
    # Events alone say why Kubernetes makes no pod of a StatefulSet. Of a list no rule names the objects.
    {"apiGroups": [""], "resources": ["events"], "verbs": ["list"]},
    # A create request is authorized before its object has a name.
    {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["create"]},
    {
        "apiGroups": ["coordination.k8s.io"],
        "resources": ["leases"],
        "resourceNames": [names.LEASE],
        "verbs": ["get", "update", "delete"],
    },
]


def node_rules(*, replaces: bool) -> list[dict[str, Any]]:
    """The operator's rights to Kubernetes nodes; it changes them only to replace one."""
    return [{"apiGroups": [""], "resources": ["nodes"], "verbs": [*_READ, *(["patch"] if replaces else [])]}]


def crd_manifests() -> list[Manifest]:
    """The CRDs. They stay when the stack is destroyed: other clusters may use them."""
    bodies = files.definitions()
    for body in bodies:
        body["metadata"]["annotations"].update(
            {"pulumi.com/patchForce": "true", "pulumi.com/patchFieldManager": names.FIELD_MANAGER}
        )
    return [Manifest(body, held=False, retain=True) for body in bodies]


def rules(held: Iterable[tuple[str, str, str]]) -> list[dict[str, Any]]:
    """The operator's rights: its own resources, and by name the objects of the ledger, to restore them.

    Kubernetes lets nobody grant a right that he lacks. So the operator can remove rights from its own Role, but not
    restore them.

    Args:
        held: API version, kind and name of each object of the ledger.
    """
    names_by_kind: dict[tuple[str, str], list[str]] = {}
    for api_version, kind, name in sorted(held):
        group = api_version.rpartition("/")[0]
        names_by_kind.setdefault((group, plural(kind)), []).append(name)
    rules = [*_OWN_RULES]
    for (group, kinds), objects in names_by_kind.items():
        of_kind = {"apiGroups": [group], "resources": [kinds]}
        by_name, any_name = ["patch", "delete"], [*_READ, "create"]
        if kinds == "persistentvolumeclaims":
            # The operator may not recreate these: their content would be lost.
            by_name, any_name = ["patch"], _READ
        elif kinds == "secrets":
            # It reads no others, and these because a changed key shows in no other way. What it restores one from
            # stands in slurm-ledger-payloads. A rule with names can't allow create: the server does not know it then.
            by_name, any_name = [*_READ, *by_name], ["create"]
        elif kinds == "statefulsets":
            by_name, any_name = [], ["create"]
        rules += [{**of_kind, "resourceNames": objects, "verbs": by_name}] if by_name else []
        rules.append({**of_kind, "verbs": any_name})
    return rules


def _rbac(config: Config, others: Iterable[Manifest]) -> list[Manifest]:
    rbac = "rbac.authorization.k8s.io"
    own = [(f"{rbac}/v1", "Role"), (f"{rbac}/v1", "RoleBinding"), ("v1", "ServiceAccount"), ("apps/v1", "Deployment")]
    held = {
        *((api_version, kind, names.OPERATOR) for api_version, kind in own),
        *((str(other.body["apiVersion"]), other.kind, other.name) for other in others if other.held),
    }
    account = {"kind": "ServiceAccount", "name": names.OPERATOR, "namespace": config.cluster.namespace}
    subjects = {"subjects": [account]}
    binding = {"roleRef": {"apiGroup": rbac, "kind": "Role", "name": names.OPERATOR}, **subjects}
    # Rights that a namespace's Role can't grant. They are not held: the operator may not change them.
    wide_name = f"{names.OPERATOR}-{config.cluster.namespace}"
    wide_binding = {"roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": wide_name}, **subjects}
    replaces = any(node_set.reactions.replace for node_set in config.node_sets)
    wide: list[tuple[str, dict[str, Any]]] = [
        ("ClusterRole", {"rules": node_rules(replaces=replaces)}),
        ("ClusterRoleBinding", wide_binding),
    ]
    bodies = [
        declared(config, "v1", "ServiceAccount", names.OPERATOR, "operator", {"automountServiceAccountToken": False}),
        declared(config, f"{rbac}/v1", "Role", names.OPERATOR, "operator", {"rules": rules(held)}),
        declared(config, f"{rbac}/v1", "RoleBinding", names.OPERATOR, "operator", binding),
    ]
    return [Manifest(body) for body in bodies] + [
        Manifest(
            declared(config, f"{rbac}/v1", kind, wide_name, "operator", content, namespaced=False),
            held=False,
        )
        for kind, content in (wide if config.operator.watch_nodes else [])
    ]


def _policy(config: Config, others: Iterable[Manifest]) -> list[Manifest]:
    """Return the operator's admission policy. Its name contains the namespace, since policies are cluster-wide."""
    name = f"{names.OPERATOR}-{config.cluster.namespace}"
    metadata = declared(config, "", "", name, "operator", {}, namespaced=False)["metadata"]
    objects = [*others, *_rbac(config, others), _deployment(config)]
    held = (manifest.body for manifest in objects if manifest.held)
    return operator_policy.manifests(config.cluster.namespace, held, metadata)


_AUTHORITY_MOUNT = {"name": "rest-authority", "mountPath": paths.SECRETS_REST_AUTHORITY, "readOnly": True}


def _authority_volume() -> dict[str, Any]:
    source = pod_security.secret_files(names.REST_TLS, [names.TLS_AUTHORITY])
    # The operator has to start without it too: it is the one that reports what is missing.
    return {"name": "rest-authority", "secret": {**source, "optional": True}}


def image(config: Config) -> str:
    """The operator's image; empty where this program does not declare the operator."""
    if config.operator.mode is OperatorMode.EXISTING:
        return ""
    # Parsing refuses mode install without an image.
    return config.images.reference(config.images.operator or "")


def _asked(path: str) -> dict[str, Any]:
    return {"httpGet": {"path": path, "port": names.OPERATOR_HEALTH_PORT}}


def _deployment(config: Config) -> Manifest:
    container = {
        "name": "operator",
        "image": image(config),
        "imagePullPolicy": str(config.images.pull_policy),
        "env": [
            {"name": pod_variables.POD_NAMESPACE, "valueFrom": {"fieldRef": {"fieldPath": "metadata.namespace"}}},
            # The operator writes it to SlurmCluster.status, where an update waits for the operator that it declares.
            {"name": pod_variables.OPERATOR_IMAGE, "value": image(config)},
            {"name": pod_variables.POD_NAME, "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
        ],
        "ports": [{"name": "health", "containerPort": names.OPERATOR_HEALTH_PORT}],
        "readinessProbe": {**_asked("/readyz"), "periodSeconds": 2, "timeoutSeconds": 5, "failureThreshold": 5},
        # The probe ignores whether it makes progress: a restart does not give it a right that it lacks, say.
        "livenessProbe": {**_asked("/livez"), "periodSeconds": 20, "timeoutSeconds": 10, "initialDelaySeconds": 30},
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "resources": resources(config.operator.resources),
        "securityContext": pod_security.unprivileged_container(),
        "volumeMounts": [
            {"name": "jwt", "mountPath": paths.SECRETS_SLURM, "readOnly": True},
            {"name": "tmp", "mountPath": "/tmp"},  # noqa: S108 - the container's own, empty at start
            *([_AUTHORITY_MOUNT] if config.rest_tls else []),
        ],
    }
    volumes = [
        {"name": "jwt", "secret": pod_security.secret_files(keys_secret(config), [names.JWT_KEY])},
        {"name": "tmp", "emptyDir": {}},
        *([_authority_volume()] if config.rest_tls else []),
    ]
    pod = slurm_pod_spec(
        config,
        [container],
        volumes,
        securityContext=pod_security.OPERATOR_POD,
        serviceAccountName=names.OPERATOR,
        automountServiceAccountToken=True,
    )
    if config.operator.replicas > 1:
        apart = {
            "labelSelector": {"matchLabels": selector(config, "operator")},
            "topologyKey": "kubernetes.io/hostname",
        }
        preferred = [{"weight": 100, "podAffinityTerm": apart}]
        pod["affinity"] = {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}
    spec = {
        "replicas": config.operator.replicas,
        # The lease lets one of them act. During a rolling update, an older one could take the lease from a newer one.
        "strategy": {"type": "Recreate"},
        "selector": {"matchLabels": selector(config, "operator")},
        "template": pod_template(config, "operator", pod),
    }
    body = declared(config, "apps/v1", "Deployment", names.OPERATOR, "operator", {"spec": spec}, annotations=SKIP_AWAIT)
    return Manifest(body)


def manifests(config: Config, others: Iterable[Manifest]) -> list[Manifest]:
    """The operator's rights and its Deployment.

    Args:
        config: The configuration: `operator`, `images`, `credentials` and `cluster`.
        others: All other objects, which the operator may restore.
    """
    if config.operator.mode is OperatorMode.EXISTING:
        return []
    return [*_rbac(config, others), *_policy(config, others), _deployment(config)]


class Operator(Component):
    """The operator of the namespace. It is deleted last, after everything that it looks after.

    Args:
        name: Name of the resource in the stack.
        config: The configuration: `operator`, `rest.tls`, `certificates`, `images`, `credentials` and `cluster`.
        others: All other objects, which the operator may restore.
        permit: What is there before anything is written.
        depends_on: What is there before its rights, such as the keys.
        opts: Options of the resource.
    """

    def __init__(
        self,
        name: str,
        config: Config,
        others: Sequence[Manifest],
        permit: pulumi.Input[pulumi.Resource],
        depends_on: Sequence[pulumi.Resource] = (),
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__(name, opts)
        if config.operator.mode is OperatorMode.INSTALL:
            crds = self.declare(crd_manifests(), [permit])
            self.declare(crd_policy.manifests([crd.name for crd in crd_manifests()]), [permit])
            # A policy of another revision would refuse what the ledger of this one says, so it comes right after it.
            bounds = self.declare(_policy(config, others), depends_on)
            rights = self.declare(_rbac(config, others), [*depends_on, *bounds.values()])
            self.declare([_deployment(config)], [*depends_on, *crds.values(), *rights.values()])
        self.register_outputs({"mode": str(config.operator.mode)})
