"""The whole cluster: every component, then the custom resources that the operator reads."""

from collections.abc import Sequence
from typing import Any, Final

import pulumi

from components import waits
from components.addons import certificates, gpu_operator, ldap, monitoring, network_operator
from components.config import Config
from components.config.addons.mode import AddonMode
from components.config.nodes.node_sets import NodeSet as NodeSetConfig
from components.config.values.quantities import duration_seconds
from components.control import credentials, hangs, long_checks, network_policies, operator, ownership
from components.control.ledger import LedgerSecrets
from components.jail import jail_population, jail_storage
from components.kubernetes.component import Component, Part, custom_resource
from components.kubernetes.manifest import Manifest, declared
from components.slurm import (
    accounting,
    accounts,
    config_dry_run,
    configuration,
    controller,
    database,
    login,
    node_set,
    rest_api,
)
from components.slurm.conf.topology_yaml import node_set_topology
from contract import names

_SPARE_SECONDS: Final = 30
"""Pulumi waits longer than the operator's own deadlines, so that the operator reports the reason first."""


def namespace_manifests(config: Config) -> list[Manifest]:
    """The namespace, if the program makes it."""
    if not config.cluster.create_namespace:
        return []
    body = declared(
        config,
        "v1",
        "Namespace",
        config.cluster.namespace,
        "cluster",
        {},
        # Workers and logins mount file systems, which the stricter levels forbid.
        more_labels={"pod-security.kubernetes.io/enforce": "privileged"},
        namespaced=False,
    )
    return [Manifest(body, held=False, retain=config.retains_namespace)]


def manifests(config: Config) -> list[Manifest]:
    """Every object that the program declares, besides the ledger itself and the custom resources."""
    others = _others(config)
    return [*others, *operator.manifests(config, others)]


def _others(config: Config) -> list[Manifest]:
    """All objects but the operator's. The operator has the right to restore them."""
    return [
        *namespace_manifests(config),
        *credentials.manifests(config),
        *configuration.manifests(config),
        *network_policies.manifests(config),
        *monitoring.manifests(config),
        *certificates.manifests(config),
        *jail_storage.manifests(config),
        *database.manifests(config),
        *accounting.manifests(config),
        *controller.manifests(config),
        *rest_api.manifests(config),
        *config_dry_run.manifests(config),
        *jail_population.manifests(config),
        *node_set.shared_manifests(config),
        *(manifest for node_set_config in config.node_sets for manifest in node_set.manifests(config, node_set_config)),
        *login.manifests(config),
        *login.shared_manifests(config),
        *(manifest for nodes in config.login.nodes_of_sets for manifest in login.set_manifests(config, nodes)),
        *ldap.manifests(config),
    ]


class Namespace(Part, manifests=namespace_manifests, outputs=lambda config: {"namespace": config.cluster.namespace}):
    """The namespace of the cluster.

    It reads `cluster`, and whether a volume outlives the stack.
    """


class SlurmCluster(Component):
    """A Slurm cluster on Kubernetes.

    Args:
        name: Name of the resource in the stack.
        config: The whole configuration.
        opts: Options of the resource, among them the Kubernetes provider.
        live: What the namespace holds already; None where it was not asked.

    Attributes:
        namespace: Namespace of the cluster.
        login_address: Where SSH answers, as host:port.
        login_set_addresses: The same for each further set of login nodes, by its name.
        rest_address: Where the REST API answers inside Kubernetes.
        condition_command: Shows why the cluster is or is not available.
        watch_nodes_command: Shows how node sets grow and shrink, with what they wait for.
    """

    namespace: str
    login_address: pulumi.Output[str]
    login_set_addresses: dict[str, pulumi.Output[str]]
    rest_address: str
    condition_command: str
    watch_nodes_command: str

    def __init__(
        self,
        name: str,
        config: Config,
        opts: pulumi.ResourceOptions | None = None,
        live: ownership.Live | None = None,
    ) -> None:
        super().__init__(name, opts)
        child = pulumi.ResourceOptions(parent=self)
        generated = credentials.GeneratedKeys("generated-keys", config, child, ownership.adopted(config, live))
        # Every chain of objects begins with it, so a refusal comes before anything is written.
        permit = ownership.permit(config, live, generated)
        namespace = Namespace("namespace", config, [permit], child)
        ledger = LedgerSecrets(
            "ledger", config, manifests(config), generated.payloads, generated.revision_key, [namespace], child
        )
        secrets = credentials.Credentials("credentials", config, generated.payloads, [ledger], child)
        # Certificates come before the first pod that uses or checks one.
        trust = (
            [certificates.Certificates("certificates", config, [namespace], child)] if config.certificates.is_on else []
        )
        # Everything depends on the operator, so that it is deleted last.
        machinery = operator.Operator("operator", config, _others(config), permit, [ledger, secrets, *trust], child)
        ready = [ledger, *trust, machinery]
        storage = jail_storage.JailStorage("jail-storage", config, [ledger], child)
        population = jail_population.JailPopulation("jail-population", config, [storage], child)
        roots = [population, *waits.jail(config, population)]
        parts = _services(config, ready, child)
        gpus = (
            [gpu_operator.GpuOperator("gpu-operator", config, [permit], child)]
            if gpu_operator.is_installed(config)
            else []
        )
        # Pods that use a root start when it is complete. If it fails, all pods keep the root before.
        workers = Workers("workers", config, ready, child)
        # Device plugins come before the nodes that need them, and are deleted after them.
        devices = _device_operators(config, [namespace], child)
        nodes = [
            node_set.NodeSet(
                f"node-set-{node_set_config.name}",
                config,
                node_set_config,
                [*ready, *roots, *devices, *(gpus if node_set_config.gpus else [])],
                child,
            )
            for node_set_config in config.node_sets
        ]
        logins = login.Login("login", config, [*ready, *roots], child)
        login_sets = [
            login.LoginSet(f"login-set-{login_nodes.name}", config, login_nodes, [*ready, *roots], child)
            for login_nodes in config.login.nodes_of_sets
        ]
        if login_sets:
            parts.append(login.LoginSets("login-sets", config, ready, child))
        if config.directory.is_on:
            parts.append(ldap.LdapDirectory("directory", config, [*ready, *roots], child))
        declared_parts = [*parts, workers, *nodes, logins, *login_sets]
        custom = _custom_resources(self, config, ledger.revision, declared_parts)
        self._finish(config, logins, login_sets, waits.declare(self, config, ledger.revision, custom))

    def _finish(
        self, config: Config, logins: login.Login, sets: list[login.LoginSet], custom: pulumi.CustomResource
    ) -> None:
        namespace = config.cluster.namespace
        self.namespace = namespace
        self.rest_address = rest_api.url(config)
        self.condition_command = f"kubectl --namespace {namespace} get slurmclusters,nodesets,pods --output wide"
        self.watch_nodes_command = f"kubectl --namespace {namespace} get nodesets --watch"
        self.login_address = login.answers_at(namespace, logins, custom, self)
        self.login_set_addresses = {one.nodes.name: login.answers_at(namespace, one, custom, self) for one in sets}
        self.register_outputs(
            {
                "namespace": self.namespace,
                "loginAddress": self.login_address,
                **({"loginSetAddresses": self.login_set_addresses} if sets else {}),
                "restAddress": self.rest_address,
                "conditionCommand": self.condition_command,
                "watchNodesCommand": self.watch_nodes_command,
            }
        )


def _services(config: Config, ready: Sequence[pulumi.Resource], opts: pulumi.ResourceOptions) -> list[Component]:
    """Return the parts that the cluster has once, besides its nodes and logins."""
    return [
        configuration.Configuration("configuration", config, ready, opts),
        network_policies.NetworkPolicies("network-policies", config, ready, opts),
        monitoring.Monitoring("monitoring", config, ready, opts),
        database.Database("database", config, ready, opts),
        accounting.Accounting("accounting", config, ready, opts),
        controller.Controller("controller", config, ready, opts),
        rest_api.RestApi("rest-api", config, ready, opts),
        config_dry_run.ConfigDryRun("rehearsal", config, ready, opts),
    ]


def _device_operators(
    config: Config, depends_on: list[pulumi.Resource], opts: pulumi.ResourceOptions
) -> list[pulumi.Resource]:
    """Other makers' operators that node sets need."""
    if config.network_operator.mode is AddonMode.OFF:
        return []
    return [network_operator.NetworkOperator("network-operator", config, depends_on, opts)]


class Workers(Part, manifests=node_set.shared_manifests, outputs=lambda _: {"service": names.WORKERS}):
    """Objects that all node sets share. It reads `cluster`."""


def node_set_resource(config: Config, node_set: NodeSetConfig) -> dict[str, Any]:
    """The NodeSet resource: the desired number of nodes, and how they move to changed pods."""
    name = node_set.name
    spec: dict[str, Any] = {
        "cluster": config.cluster.name,
        "statefulSet": name,
        "removal": node_set.removal.policy,
        "update": node_set.update.policy,
        "reactions": node_set.reactions.policy,
    }
    if node_set.features is not None:
        spec["features"] = node_set.features
    if node_set.feature_labels:
        spec["featureLabels"] = node_set.feature_labels
    if config.slurm.topologies:
        spec["topology"] = node_set_topology(node_set)
    if conditions := config.health.conditions_of(name):
        spec["nodeConditions"] = conditions
    annotations = {}
    if node_set.replicas is not None:
        spec["replicas"] = node_set.replicas
        # `kubectl scale` changes the number in the spec alone, and so shows beside this one.
        annotations[names.ANNOTATION_REPLICAS] = str(node_set.replicas)
    return declared(
        config,
        names.API_VERSION,
        "NodeSet",
        name,
        "worker",
        {"spec": spec},
        annotations=annotations,
        more_labels={names.LABEL_NODE_SET: name},
    )


def cluster_resource(config: Config) -> dict[str, Any]:
    """The SlurmCluster resource, without its revision."""
    spec: dict[str, Any] = {
        "rest": {"url": rest_api.short_url(config)},
        "rehearsal": {"url": config_dry_run.url()},
        "wantedConfig": names.CONFIG_WANTED,
        "activeConfig": names.CONFIG_ACTIVE,
        "controller": names.CONTROLLER,
        "restDeployment": names.REST,
        "login": names.LOGIN,
    }
    if config.login.sets:
        spec["loginSets"] = [nodes.object_name for nodes in config.login.nodes_of_sets]
    if config.accounting.is_on:
        spec["accounting"] = names.ACCOUNTING
    if section := accounts.section(config.accounting):
        spec["accounts"] = section
    if levels := {user.name: user.admin_level.value for user in config.login.users if user.admin_level}:
        spec["administrators"] = levels
    if checks := long_checks.declared_checks(config):
        spec["longChecks"] = checks
    if hanging := hangs.declared(config):
        spec["hangs"] = hanging
    return declared(config, names.API_VERSION, "SlurmCluster", config.cluster.name, "cluster", {"spec": spec})


def _custom_resources(
    parent: SlurmCluster, config: Config, revision: pulumi.Output[str], depends_on: list[Component]
) -> pulumi.CustomResource:
    """The NodeSets, then the SlurmCluster, which is created last and deleted first."""
    seconds = duration_seconds(config.timeouts.available) + _SPARE_SECONDS
    timeouts = pulumi.CustomTimeouts(create=f"{seconds}s", update=f"{seconds}s", delete=f"{seconds}s")
    sets = []
    for node_set_config in config.node_sets:
        body = node_set_resource(config, node_set_config)
        options = pulumi.ResourceOptions(parent=parent, depends_on=depends_on, custom_timeouts=timeouts)
        sets.append(custom_resource(f"{node_set_config.name}-nodes", body, options))
    body = cluster_resource(config)
    body["spec"]["revision"] = revision
    options = pulumi.ResourceOptions(parent=parent, depends_on=[*depends_on, *sets], custom_timeouts=timeouts)
    return custom_resource("cluster", body, options)
