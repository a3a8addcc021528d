"""Connections that the network policies allow, decided as a policy engine would."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Any

import pytest

from components.config import parse
from components.control import network_policies
from components.kubernetes.manifest import labels
from contract import names
from tests.unit.samples import DIRECTORY, changed

CONFIG = parse(changed("directory", DIRECTORY))
POLICIES = [manifest.body["spec"] for manifest in network_policies.manifests(CONFIG)]
OUTSIDE = "an address outside"
PROMETHEUS = "a pod of namespace monitoring"
COMPONENTS = (
    "controller",
    "rest",
    "rehearsal",
    "worker",
    "login",
    "operator",
    "jail",
    "accounting",
    "database",
    "directory",
)


def _peer_matches(peer: dict[str, Any], source: str) -> bool:
    if "ipBlock" in peer:
        return source == OUTSIDE
    if "namespaceSelector" in peer:
        assert peer == {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}
        return source == PROMETHEUS
    selector = peer["podSelector"]["matchLabels"]
    return source not in (OUTSIDE, PROMETHEUS) and bool(selector.items() <= labels(CONFIG, source).items())


def _port_matches(port: dict[str, Any], number: int) -> bool:
    return "port" not in port or bool(port["port"] <= number <= port.get("endPort", port["port"]))


def answers(source: str, target: str, port: int) -> bool:
    """Return whether a pod of the target component takes a TCP connection from the source."""
    binding = [
        each for each in POLICIES if each["podSelector"]["matchLabels"].items() <= labels(CONFIG, target).items()
    ]
    assert binding, f"no policy binds {target}: it would take everything"
    return any(
        any(_peer_matches(peer, source) for peer in rule["from"])
        and ("ports" not in rule or any(_port_matches(each, port) for each in rule["ports"]))
        for policy in binding
        for rule in policy["ingress"]
    )


NEEDED = [
    ("worker", "controller", names.SLURMCTLD_PORT),
    ("login", "controller", names.SLURMCTLD_PORT),
    ("rest", "controller", names.SLURMCTLD_PORT),
    ("controller", "worker", names.SLURMD_PORT),
    ("worker", "worker", names.SLURMD_PORT),
    ("login", "worker", names.SLURMD_PORT),
    ("worker", "login", names.SRUN_PORT_FIRST),
    ("worker", "login", names.SRUN_PORT_LAST),
    ("controller", "login", names.SRUN_PORT_FIRST),
    ("login", "worker", names.SRUN_PORT_LAST),
    ("operator", "rehearsal", names.CONFIG_DRY_RUN_PORT),
    ("controller", "worker", names.SRUN_PORT_FIRST),
    ("worker", "worker", 12345),
    ("operator", "rest", names.SLURMRESTD_PORT),
    (OUTSIDE, "login", names.SSH_PORT),
    (PROMETHEUS, "controller", names.SLURMCTLD_PORT),
    (PROMETHEUS, "operator", names.OPERATOR_HEALTH_PORT),
    ("controller", "accounting", names.SLURMDBD_PORT),
    ("login", "accounting", names.SLURMDBD_PORT),
    ("worker", "accounting", names.SLURMDBD_PORT),
    ("rest", "accounting", names.SLURMDBD_PORT),
    ("accounting", "controller", names.SLURMCTLD_PORT),
    ("accounting", "database", names.DATABASE_PORT),
]
FORBIDDEN = [
    ("controller", "login", names.SLURMD_PORT),
    ("worker", "login", names.SLURMD_PORT),
    (OUTSIDE, "controller", names.SLURMCTLD_PORT),
    (OUTSIDE, "worker", names.SLURMD_PORT),
    (OUTSIDE, "worker", names.SSH_PORT),
    (OUTSIDE, "rest", names.SLURMRESTD_PORT),
    (OUTSIDE, "login", names.SRUN_PORT_FIRST),
    (OUTSIDE, "operator", names.OPERATOR_HEALTH_PORT),
    ("worker", "rest", names.SLURMRESTD_PORT),
    ("login", "rest", names.SLURMRESTD_PORT),
    ("login", "controller", 22),
    ("login", "worker", names.SSH_PORT),
    ("jail", "controller", names.SLURMCTLD_PORT),
    ("worker", "operator", names.OPERATOR_HEALTH_PORT),
    ("operator", "worker", names.SLURMD_PORT),
    ("login", "rehearsal", names.CONFIG_DRY_RUN_PORT),
    ("worker", "rehearsal", names.CONFIG_DRY_RUN_PORT),
    (OUTSIDE, "rehearsal", names.CONFIG_DRY_RUN_PORT),
    (PROMETHEUS, "worker", names.SLURMD_PORT),
    (PROMETHEUS, "rest", names.SLURMRESTD_PORT),
    (OUTSIDE, "accounting", names.SLURMDBD_PORT),
    (OUTSIDE, "database", names.DATABASE_PORT),
    *((each, "database", names.DATABASE_PORT) for each in COMPONENTS if each not in ("accounting", "database")),
]


@pytest.mark.parametrize(("source", "target", "port"), NEEDED)
def test_slurm_gets_through(source: str, target: str, port: int) -> None:
    assert answers(source, target, port)


@pytest.mark.parametrize(("source", "target", "port"), FORBIDDEN)
def test_nothing_else_gets_through(source: str, target: str, port: int) -> None:
    assert not answers(source, target, port)


def reaches(component: str, address: str, port: int, protocol: str = "TCP") -> bool:
    """Return whether a component's pod may open a connection to an address outside of the cluster."""
    policy = next(
        each for each in POLICIES if each["podSelector"]["matchLabels"].items() <= labels(CONFIG, component).items()
    )
    if "Egress" not in policy["policyTypes"]:
        return True
    to = ip_address(address)
    return any(
        ("to" not in rule or any(_holds(peer["ipBlock"], to) for peer in rule["to"] if "ipBlock" in peer))
        and any(
            each["protocol"] == protocol and _port_matches(each, port)
            for each in rule.get("ports", [{"protocol": protocol}])
        )
        for rule in policy["egress"]
    )


def _holds(block: dict[str, Any], address: IPv4Address | IPv6Address) -> bool:
    return address in ip_network(block["cidr"]) and not any(address in ip_network(each) for each in block["except"])


@pytest.mark.parametrize("component", ["worker", "login"])
def test_where_users_programs_run_all_is_reached_but_metadata_and_kubelets(component: str) -> None:
    for address in ("192.0.2.1", "10.0.0.7", "2001:db8::1"):
        assert all(reaches(component, address, port) for port in (1, 22, 443, 6443, 10249, 10251, 10256, 65535))
        assert reaches(component, address, 4500, "UDP")
        assert not reaches(component, address, 10250), "the kubelet"
        assert not reaches(component, address, 10255), "its read-only port"
    for address in (
        *("169.254.169.254", "100.100.100.200", "168.63.129.16"),
        *("fe80::a9fe:a9fe", "fd00:ec2::254", "fd20:ce::254"),
    ):
        assert not any(reaches(component, address, port) for port in (80, 443, 32526)), address
    assert reaches(component, "169.254.20.10", 53, "UDP"), "a resolver on the node"


def test_only_where_users_programs_run_egress_is_bound() -> None:
    bound = {policy["podSelector"]["matchLabels"][names.LABEL_COMPONENT]: policy for policy in POLICIES}
    with_egress = {component for component, policy in bound.items() if "egress" in policy}
    assert with_egress == {c for c, policy in bound.items() if "Egress" in policy["policyTypes"]}
    assert with_egress == {"worker", "login", "rehearsal"}


def test_only_fields_that_simple_policy_engines_enforce_are_used() -> None:
    for policy in POLICIES:
        assert policy.keys() - {"egress"} == {"podSelector", "policyTypes", "ingress"}
        assert policy["podSelector"].keys() == {"matchLabels"}
        for rule in policy["ingress"]:
            assert rule.keys() <= {"from", "ports"}
            assert all(peer.keys() <= {"podSelector", "namespaceSelector", "ipBlock"} for peer in rule["from"])
            assert all(port.keys() <= {"protocol", "port", "endPort"} for port in rule.get("ports", []))
            assert all(peer["ipBlock"].keys() == {"cidr"} for peer in rule["from"] if "ipBlock" in peer)


def test_every_component_is_bound() -> None:
    assert {policy["podSelector"]["matchLabels"][names.LABEL_COMPONENT] for policy in POLICIES} == set(COMPONENTS)


def test_the_config_dry_run_opens_no_connection() -> None:
    bound = {policy["podSelector"]["matchLabels"][names.LABEL_COMPONENT]: policy for policy in POLICIES}
    assert bound["rehearsal"]["egress"] == []
    assert "Egress" in bound["rehearsal"]["policyTypes"]


def test_ssh_is_open_to_the_configured_addresses_only() -> None:
    config = parse(changed("login.service.loadBalancerSourceRanges", ["192.0.2.0/24"]))
    login = next(each.body for each in network_policies.manifests(config) if each.name == names.LOGIN)
    ssh = [rule for rule in login["spec"]["ingress"] if rule["ports"][0]["port"] == names.SSH_PORT]
    assert [rule["from"] for rule in ssh] == [[{"ipBlock": {"cidr": "192.0.2.0/24"}}]]
