"""Which connections the policies let through, asked as a policy engine would."""

from __future__ import annotations

from typing import Any

import pytest

from components import names, network_policies
from components.config import parse
from components.manifest import labels
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
    return bool(port["port"] <= number <= port.get("endPort", port["port"]))


def answers(source: str, target: str, port: int) -> bool:
    """Whether a pod of the target component takes a TCP connection from the source."""
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
    ("operator", "rehearsal", names.REHEARSAL_PORT),
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
    ("login", "rehearsal", names.REHEARSAL_PORT),
    ("worker", "rehearsal", names.REHEARSAL_PORT),
    (OUTSIDE, "rehearsal", names.REHEARSAL_PORT),
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


@pytest.mark.parametrize("component", COMPONENTS)
def test_where_users_programs_run_all_is_reached_but_the_clouds_metadata(component: str) -> None:
    policy = next(
        each for each in POLICIES if each["podSelector"]["matchLabels"].items() <= labels(CONFIG, component).items()
    )
    assert (
        ("egress" in policy) == ("Egress" in policy["policyTypes"]) == (component in ("worker", "login", "rehearsal"))
    )
    for rule in policy.get("egress", []):
        blocks = [peer["ipBlock"] for peer in rule.get("to", []) if "ipBlock" in peer]
        excepted = {block["cidr"]: block["except"] for block in blocks}
        assert not blocks or "169.254.0.0/16" in excepted["0.0.0.0/0"]
        assert not blocks or {"fe80::/10", "fd00:ec2::254/128"} <= {*excepted["::/0"]}
        assert blocks or rule.get("to") == [{"namespaceSelector": {}}] or {p["port"] for p in rule["ports"]} == {53}


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


def test_the_rehearsal_opens_no_connection() -> None:
    bound = {policy["podSelector"]["matchLabels"][names.LABEL_COMPONENT]: policy for policy in POLICIES}
    assert bound["rehearsal"]["egress"] == []
    assert "Egress" in bound["rehearsal"]["policyTypes"]


def test_ssh_is_open_to_the_configured_addresses_only() -> None:
    config = parse(changed("login.service.loadBalancerSourceRanges", ["192.0.2.0/24"]))
    login = next(each.body for each in network_policies.manifests(config) if each.name == names.LOGIN)
    ssh = [rule for rule in login["spec"]["ingress"] if rule["ports"][0]["port"] == names.SSH_PORT]
    assert [rule["from"] for rule in ssh] == [[{"ipBlock": {"cidr": "192.0.2.0/24"}}]]
