"""Login nodes: SSH into the jail. The nodes of `login` come first, then those of each further set."""

from collections.abc import Sequence
from typing import Any

import pulumi
import pulumi_kubernetes as kubernetes

from components.config import Config
from components.config.logins.login_set import LoginNodes
from components.config.logins.service import ServiceType
from components.config.values.images import image_revision
from components.config.values.quantities import cpu_millis, duration_seconds
from components.jail.jail_population import images
from components.kubernetes.component import Component, Part
from components.kubernetes.manifest import SKIP_AWAIT, Manifest, declared, selector
from components.pods import pod_security
from components.pods.pod_options import with_options
from components.pods.slurm_pod import (
    PARALLEL,
    environment,
    headless_service,
    jail_variable,
    jail_volume,
    pod_template,
    ready_probe,
    resources,
    run_volume,
    slurm_container,
    slurm_pod_spec,
    stateful_set,
)
from components.pods.submounts import in_pod
from components.slurm.controller import keys_secret
from contract import names, paths, pod_variables
from contract.pod_variables import JailKey, LoginKey, NodeKey

_GRACE_SECONDS = 30
"""Time for the daemons to end, after the sessions."""


def _service(config: Config, nodes: LoginNodes) -> Manifest:
    service = nodes.service
    port: dict[str, Any] = {"name": "ssh", "port": names.SSH_PORT, "targetPort": names.SSH_PORT, "protocol": "TCP"}
    if service.node_port is not None:
        port["nodePort"] = service.node_port
    selected = selector(config, nodes.component, **nodes.labels)
    spec: dict[str, Any] = {"type": str(service.type), "selector": selected, "ports": [port]}
    if service.load_balancer_source_ranges:
        spec["loadBalancerSourceRanges"] = service.load_balancer_source_ranges
        # The network policy sees the client's address only if no other node forwards the connection.
        spec["externalTrafficPolicy"] = "Local"
    body = declared(
        config,
        "v1",
        "Service",
        nodes.object_name,
        nodes.component,
        {"spec": spec},
        annotations={**SKIP_AWAIT, **service.annotations},
        more_labels=nodes.labels,
    )
    return Manifest(body)


def _roots(config: Config) -> Manifest:
    """ConfigMap with the roots that the configuration names. A login node sees its changes without a restart."""
    data = {image_revision(image): image for image in images(config)}
    return Manifest(declared(config, "v1", "ConfigMap", names.ROOTS, "login", {"data": data}))


def _login_variable(config: Config, nodes: LoginNodes) -> dict[str, Any]:
    limits = nodes.limits
    cpu: dict[str, Any] = {} if limits.cpu_per_user is None else {LoginKey.CPU_MILLIS: cpu_millis(limits.cpu_per_user)}
    return {
        LoginKey.MEMORY_MIB: nodes.user_memory_mib,
        LoginKey.PROCESSES: limits.processes_per_user,
        LoginKey.PASSWORDS: nodes.passwords,
        **({LoginKey.LDAP: True} if config.directory.is_on else {}),
        **({LoginKey.ALLOW_USERS: nodes.allow_users} if nodes.allow_users else {}),
        **({LoginKey.ALLOW_GROUPS: nodes.allow_groups} if nodes.allow_groups else {}),
        **cpu,
    }


def _host_keys(config: Config, nodes: LoginNodes) -> str:
    """Return the name of the Secret with the host keys of login nodes."""
    if nodes.own_host_keys:
        return nodes.host_keys
    return nodes.existing_ssh_secret or config.credentials.existing_ssh_secret or names.SSH_HOST_KEYS


def _stateful_set(config: Config, nodes: LoginNodes) -> Manifest:
    submounts = in_pod(config, nodes.component, nodes.submounts)
    container = slurm_container(
        config,
        "login",
        ports=[{"name": "ssh", "containerPort": names.SSH_PORT}],
        env=environment(
            {
                pod_variables.NODE: {
                    NodeKey.CONTROLLER: f"{names.CONTROLLER}:{names.SLURMCTLD_PORT}",
                    NodeKey.GRACE_SECONDS: duration_seconds(nodes.grace),
                },
                pod_variables.JAIL: {**jail_variable(config, submounts), JailKey.KEEP_ROOTS: config.jail.keep_roots},
                pod_variables.LOGIN: _login_variable(config, nodes),
            }
        ),
        readinessProbe=ready_probe("login"),
        resources=resources(nodes.resources),
        securityContext=pod_security.node_container(pod_security.LOGIN_CAPABILITIES),
        volumeMounts=[
            {"name": "jail", "mountPath": paths.JAIL_VOLUME},
            {"name": "keys", "mountPath": paths.SECRETS_SLURM, "readOnly": True},
            {"name": "ssh", "mountPath": paths.SECRETS_SSH, "readOnly": True},
            {"name": "roots", "mountPath": paths.ETC_ROOTS, "readOnly": True},
            {"name": "run", "mountPath": "/run"},
            *submounts.mounts,
        ],
    )
    volumes = [
        jail_volume(config),
        {"name": "keys", "secret": pod_security.secret_files(keys_secret(config), [names.SLURM_KEY])},
        {
            "name": "ssh",
            "secret": pod_security.secret_files(_host_keys(config, nodes), list(names.SSH_HOST_KEY_FILES)),
        },
        # Logins work without it. Only the deletion of old roots waits for it.
        {"name": "roots", "configMap": {"name": names.ROOTS, "optional": True}},
        run_volume(),
        *submounts.volumes,
    ]
    grace = duration_seconds(nodes.grace) + _GRACE_SECONDS
    security = pod_security.root_pod()
    pod = slurm_pod_spec(config, [container], volumes, securityContext=security, terminationGracePeriodSeconds=grace)
    template = with_options(config, pod_template(config, nodes.component, pod, **nodes.labels), nodes.pod)
    return stateful_set(
        config,
        nodes.object_name,
        nodes.component,
        template,
        service=names.LOGIN_SETS if nodes.name else names.LOGINS,
        replicas=nodes.replicas,
        selector={"matchLabels": selector(config, nodes.component, **nodes.labels)},
        podManagementPolicy=PARALLEL,
    )


def manifests(config: Config) -> list[Manifest]:
    """The Services and the StatefulSet of the login nodes of `login`, and what all login nodes keep of roots."""
    nodes = config.login.nodes
    return [
        headless_service(config, names.LOGINS, "login", "ssh", names.SSH_PORT),
        _service(config, nodes),
        _roots(config),
        _stateful_set(config, nodes),
    ]


def set_manifests(config: Config, nodes: LoginNodes) -> list[Manifest]:
    """The Service and the StatefulSet of a further set."""
    return [_service(config, nodes), _stateful_set(config, nodes)]


def shared_manifests(config: Config) -> list[Manifest]:
    """Return the Service that gives the pods of all further sets their DNS names."""
    if not config.login.sets:
        return []
    return [headless_service(config, names.LOGIN_SETS, names.LOGIN_SET, "ssh", names.SSH_PORT)]


class Login(Component):
    """Login nodes behind one Service.

    Args:
        name: Name of the resource in the stack.
        config: The configuration: `login`, `images`, `jail`, `credentials` and `cluster`.
        depends_on: Resources that come first, such as the ledger and a complete root of the jail.
        opts: Options of the resource.
    """

    def __init__(
        self,
        name: str,
        config: Config,
        depends_on: Sequence[pulumi.Resource] = (),
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__(name, opts)
        children = self.declare(manifests(config), depends_on)
        self.nodes, self.node_port = config.login.nodes, _port_on_nodes(children[f"Service/{names.LOGIN}"])
        self.register_outputs({"nodePort": self.node_port})


class LoginSet(Component):
    """Login nodes of a further set behind a Service of their own.

    Args:
        name: Name of the resource in the stack.
        config: The configuration: what Login reads.
        nodes: The set.
        depends_on: Resources that come first, such as the ledger and a complete root of the jail.
        opts: Options of the resource.
    """

    def __init__(
        self,
        name: str,
        config: Config,
        nodes: LoginNodes,
        depends_on: Sequence[pulumi.Resource] = (),
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__(name, opts)
        children = self.declare(set_manifests(config, nodes), depends_on)
        self.nodes, self.node_port = nodes, _port_on_nodes(children[f"Service/{nodes.object_name}"])
        self.register_outputs({"nodePort": self.node_port})


class LoginSets(Part, manifests=shared_manifests, outputs=lambda _: {"service": names.LOGIN_SETS}):
    """The objects that all further sets of login nodes share. It reads `cluster`."""


def _port_on_nodes(service: pulumi.Resource) -> pulumi.Output[int | None]:
    """Return the port of a Service on every Kubernetes node."""
    assert isinstance(service, kubernetes.core.v1.Service)
    return service.spec.apply(_node_port)


def _node_port(spec: Any) -> int | None:
    """The port on every Kubernetes node; None while Kubernetes has not chosen one."""
    ports = getattr(spec, "ports", None) or []
    return ports[0].node_port if ports else None


def address(nodes: LoginNodes, service: Any, node_port: int | None) -> str:
    """Address of SSH, as host:port.

    Args:
        nodes: The login nodes.
        service: The Service's status from Kubernetes; None if only the port matters.
        node_port: The port on every Kubernetes node.
    """
    if nodes.service.type is ServiceType.NODE_PORT:
        return f"<any Kubernetes node>:{node_port or '<port>'}"
    balancer = getattr(service, "load_balancer", None)
    ingress = getattr(balancer, "ingress", None) or []
    host = (ingress[0].ip or ingress[0].hostname) if ingress else "<no address yet: run pulumi up again>"
    return f"{host}:{names.SSH_PORT}"


def answers_at(
    namespace: str, logins: Login | LoginSet, ready: pulumi.CustomResource, parent: pulumi.Resource
) -> pulumi.Output[str]:
    """Return where SSH of login nodes answers, as host:port.

    Args:
        namespace: Namespace of the cluster.
        logins: The login nodes.
        ready: A resource that exists once the cluster works.
        parent: Parent of the resource that reads the address of a load balancer.
    """
    nodes = logins.nodes
    if nodes.service.type is ServiceType.NODE_PORT:
        return logins.node_port.apply(lambda port: address(nodes, None, port))
    # The load balancer gets its address some time after the Service, so it is read at the end.
    service = kubernetes.core.v1.Service.get(
        f"{nodes.object_name}-address",
        ready.id.apply(lambda _: f"{namespace}/{nodes.object_name}"),
        pulumi.ResourceOptions(parent=parent),
    )
    return service.status.apply(lambda status: address(nodes, status, None))
