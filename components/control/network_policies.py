"""Network policies: pods of the cluster accept the connections that Slurm needs, and no others.

Only podSelector, namespaceSelector, ipBlock and ports are used, so that simple policy engines enforce all of it. Egress
stays open: jobs fetch packages and data, and the site's own policies decide what may leave. Two things of the nodes are
closed to users' programs: the kubelet, and a cloud's metadata service. That service hands out the node's own
credentials.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Final

from components.addons import monitoring
from components.config import Config
from components.config.logins.login_set import LoginNodes
from components.kubernetes.component import Part
from components.kubernetes.manifest import Manifest, declared, selector
from contract import names

_WITH_USERS: Final = ("worker", "login", names.LOGIN_SET)

METADATA: Final = {
    # Link-local (AWS, Azure, GCP, Oracle and others); Alibaba; Azure's WireServer.
    "0.0.0.0/0": ("169.254.0.0/16", "100.100.100.200/32", "168.63.129.16/32"),
    # Link-local; AWS; GCP.
    "::/0": ("fe80::/10", "fd00:ec2::254/128", "fd20:ce::254/128"),
}
"""Address family → addresses of clouds' metadata services in it."""
KUBELET_PORTS: Final = (10250, 10255)
"""Ports of the kubelet's API and its read-only API. A policy can't name nodes, so both are closed at every address."""


def _from(config: Config, *components: str) -> list[dict[str, Any]]:
    return [{"podSelector": {"matchLabels": selector(config, component)}} for component in components]


def _port(first: int, last: int | None = None) -> dict[str, Any]:
    return {"protocol": "TCP", "port": first} | ({"endPort": last} if last else {})


_SRUN: Final = _port(names.SRUN_PORT_FIRST, names.SRUN_PORT_LAST)


def _blocks(ranges: Sequence[str]) -> list[dict[str, Any]]:
    return [{"ipBlock": {"cidr": cidr}} for cidr in ranges]


def _all_but_the_nodes() -> list[dict[str, Any]]:
    """Return egress to everything but metadata services and kubelets."""
    outside = [{"ipBlock": {"cidr": cidr, "except": list(excepted)}} for cidr, excepted in METADATA.items()]
    edges = [0, *KUBELET_PORTS, 65536]
    tcp = [_port(last + 1, following - 1) for last, following in pairwise(edges)]
    return [
        {"to": outside, "ports": [*tcp, {"protocol": "UDP"}]},
        # For some policy engines an address range never matches a pod.
        {"to": [{"namespaceSelector": {}}]},
        # A resolver on the node itself has a link-local address.
        {"ports": [{"protocol": protocol, "port": 53} for protocol in ("UDP", "TCP")]},
    ]


def _policy(config: Config, name: str, component: str, rules: list[dict[str, Any]], **labels: str) -> Manifest:
    spec: dict[str, Any] = {
        "podSelector": {"matchLabels": selector(config, component, **labels)},
        "policyTypes": ["Ingress"],
        "ingress": rules,
    }
    if component == "rehearsal":
        # It only answers. Without connections of its own, nothing takes it for the cluster's slurmctld.
        spec |= {"policyTypes": ["Ingress", "Egress"], "egress": []}
    if component in _WITH_USERS:
        spec |= {"policyTypes": ["Ingress", "Egress"], "egress": _all_but_the_nodes()}
    return Manifest(declared(config, "networking.k8s.io/v1", "NetworkPolicy", name, "network", {"spec": spec}))


def _login_rules(config: Config, nodes: LoginNodes) -> list[dict[str, Any]]:
    """Return the ingress rules of the login nodes of one set: SSH from its own addresses."""
    everywhere = [{"ipBlock": {"cidr": "0.0.0.0/0"}}, {"ipBlock": {"cidr": "::/0"}}]
    ssh = _blocks(nodes.service.load_balancer_source_ranges) or everywhere
    return [
        {"from": ssh, "ports": [_port(names.SSH_PORT)]},
        {"from": _from(config, "worker", "controller", *config.login.components), "ports": [_SRUN]},
    ]


def _rules(config: Config) -> dict[str, list[dict[str, Any]]]:
    """Return the ingress rules of each component."""
    logins = config.login.components
    scrapers = monitoring.scrapers(config)
    writers = ["accounting"] if config.accounting.is_on else []
    return {
        "controller": [
            # slurmdbd reports changes of its database to slurmctld.
            {
                "from": [*_from(config, "worker", *logins, "rest", *writers), *scrapers],
                "ports": [_port(names.SLURMCTLD_PORT)],
            },
        ],
        "worker": [
            {
                "from": _from(config, "controller", "worker", *logins),
                "ports": [_port(names.SLURMD_PORT)],
            },
            # srun in a login session or in a job opens ports on its own side; nodes connect back to them.
            # slurmctld tells a waiting srun or salloc there that its job starts.
            {"from": _from(config, *logins, "controller"), "ports": [_SRUN]},
            # MPI and NCCL choose ports freely.
            {"from": _from(config, "worker")},
        ],
        "login": _login_rules(config, config.login.nodes),
        "rest": [
            {
                "from": [*_from(config, "operator"), *_blocks(config.network_policies.rest_client_cidrs)],
                "ports": [_port(names.SLURMRESTD_PORT)],
            },
        ],
        "rehearsal": [{"from": _from(config, "operator"), "ports": [_port(names.CONFIG_DRY_RUN_PORT)]}],
        **({"directory": []} if config.directory.is_on else {}),
        **_accounting_rules(config),
        # Policies do not bind kubelet's probes, which come from the node. An empty list of peers would allow everybody.
        "operator": [{"from": scrapers, "ports": [_port(names.OPERATOR_HEALTH_PORT)]}] if scrapers else [],
        "jail": [],
    }


def _accounting_rules(config: Config) -> dict[str, list[dict[str, Any]]]:
    rules: dict[str, list[dict[str, Any]]] = {}
    if config.accounting.is_on:
        # slurmctld writes; sacct and alike read, in logins and in jobs; slurmrestd reads for its clients.
        readers = _from(config, "controller", *config.login.components, "worker", "rest")
        rules["accounting"] = [{"from": readers, "ports": [_port(names.SLURMDBD_PORT)]}]
    if config.accounting.has_own_database:
        rules["database"] = [{"from": _from(config, "accounting"), "ports": [_port(names.DATABASE_PORT)]}]
    return rules


def manifests(config: Config) -> list[Manifest]:
    """Return one policy for each component, and for each further set of login nodes.

    It denies every connection that it does not name.
    """
    if not config.network_policies.enabled:
        return []
    return [
        *(
            _policy(config, f"{names.RESERVED_PREFIX}{component}", component, rules)
            for component, rules in _rules(config).items()
        ),
        *(
            _policy(config, nodes.object_name, nodes.component, _login_rules(config, nodes), **nodes.labels)
            for nodes in config.login.nodes_of_sets
        ),
    ]


class NetworkPolicies(Part, manifests=manifests, outputs=lambda config: {"enabled": config.network_policies.enabled}):
    """The network policies of the cluster's pods.

    It reads `networkPolicies`, `login`, `monitoring` and `cluster`.
    """
