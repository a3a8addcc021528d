from __future__ import annotations

from typing import Any

import pytest

from devcluster.controllers.policy_rules import CLOSED, Pod, World, matches, ruleset

WORLD = World(
    pods=[
        Pod("slurm", "controller", "10.0.0.1", {"component": "controller"}, {"ctld": 6817}),
        Pod("slurm", "worker", "10.0.0.2", {"component": "worker"}, {}),
        Pod("other", "stranger", "10.0.0.3", {"component": "worker"}, {}),
    ],
    namespaces={"slurm": {"name": "slurm"}, "other": {"name": "other"}},
)


def policy(**spec: Any) -> dict[str, Any]:
    return {
        "metadata": {"namespace": "slurm", "name": "p", "uid": "u"},
        "spec": {"podSelector": {"matchLabels": {"component": "controller"}}, **spec},
    }


def chain(rules: str, name: str) -> list[str]:
    """The lines of a chain, without the first (a pod's way to itself)."""
    body = rules.split(f"chain {name} {{\n", 1)[1].split("  }\n", 1)[0]
    return [line.strip() for line in body.splitlines()][1:]


def ingress(*rules: dict[str, Any]) -> list[str]:
    text, refusals = ruleset(WORLD, [policy(ingress=list(rules))])
    assert not refusals
    return chain(text, "ingress_10_0_0_1")


@pytest.mark.parametrize(
    ("rule", "lines"),
    [
        ({}, ["return"]),
        ({"from": [{"podSelector": {}}]}, ["ip saddr { 10.0.0.1, 10.0.0.2 } return"]),
        ({"from": [{"podSelector": {"matchLabels": {"component": "worker"}}}]}, ["ip saddr { 10.0.0.2 } return"]),
        ({"from": [{"podSelector": {"matchLabels": {"component": "nobody"}}}]}, []),
        (
            {"from": [{"namespaceSelector": {}, "podSelector": {"matchLabels": {"component": "worker"}}}]},
            ["ip saddr { 10.0.0.2, 10.0.0.3 } return"],
        ),
        ({"from": [{"namespaceSelector": {"matchLabels": {"name": "other"}}}]}, ["ip saddr { 10.0.0.3 } return"]),
        ({"from": [{"ipBlock": {"cidr": "192.0.2.0/24"}}]}, ["ip saddr 192.0.2.0/24 return"]),
        (
            {"from": [{"ipBlock": {"cidr": "192.0.2.0/24", "except": ["192.0.2.8/30"]}}]},
            ["ip saddr 192.0.2.0/24 ip saddr != { 192.0.2.8/30 } return"],
        ),
        (
            {"from": [{"ipBlock": {"cidr": "0.0.0.0/0"}}, {"ipBlock": {"cidr": "::/0", "except": ["2001:db8::/32"]}}]},
            ["ip saddr 0.0.0.0/0 return", "ip6 saddr ::/0 ip6 saddr != { 2001:db8::/32 } return"],
        ),
        ({"ports": [{"port": 6817}]}, ["tcp dport { 6817 } return"]),
        ({"ports": [{"port": "ctld"}]}, ["tcp dport { 6817 } return"]),
        ({"ports": [{"port": "unknown"}]}, []),
        ({"ports": [{"port": 60001, "endPort": 63000}, {"port": 22}]}, ["tcp dport { 60001-63000, 22 } return"]),
        (
            {"ports": [{"port": 53, "protocol": "UDP"}, {"port": 53}]},
            ["udp dport { 53 } return", "tcp dport { 53 } return"],
        ),
        ({"ports": [{"protocol": "TCP"}]}, ["meta l4proto tcp return"]),
        (
            {"from": [{"podSelector": {}}, {"ipBlock": {"cidr": "192.0.2.1/32"}}], "ports": [{"port": 1}]},
            ["ip saddr { 10.0.0.1, 10.0.0.2 } tcp dport { 1 } return", "ip saddr 192.0.2.1/32 tcp dport { 1 } return"],
        ),
    ],
)
def test_an_ingress_rule_opens_exactly_what_it_names(rule: dict[str, Any], lines: list[str]) -> None:
    assert ingress(rule) == [*lines, CLOSED]


def test_no_rule_closes_the_pod_and_no_policy_leaves_it_open() -> None:
    assert ingress() == [CLOSED]
    text, _ = ruleset(WORLD, [policy(ingress=[])])
    assert "10.0.0.2" not in text
    assert "chain ingress" not in ruleset(WORLD, [])[0]


def test_two_policies_of_a_pod_add_up() -> None:
    first, second = policy(ingress=[{"ports": [{"port": 1}]}]), policy(ingress=[{"ports": [{"port": 2}]}])
    second["metadata"]["name"] = "q"

    text, _ = ruleset(WORLD, [second, first])

    assert chain(text, "ingress_10_0_0_1") == ["tcp dport { 1 } return", "tcp dport { 2 } return", CLOSED]


def test_egress_is_closed_only_by_a_policy_that_says_so() -> None:
    only_ingress, _ = ruleset(WORLD, [policy(ingress=[])])
    assert "egress" not in only_ingress

    to_workers = [{"to": [{"podSelector": {"matchLabels": {"component": "worker"}}}], "ports": [{"port": 6818}]}]
    both, _ = ruleset(WORLD, [policy(policyTypes=["Egress"], egress=to_workers)])
    assert chain(both, "egress_10_0_0_1") == ["ip daddr { 10.0.0.2 } tcp dport { 6818 } return", CLOSED]
    assert "ingress_" not in both


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        ({"ingress": [{"from": [{"ipBlock": {"cidr": "192.0.2.0/24", "zone": 1}}]}]}, "ipBlock.zone"),
        ({"ingress": [{"ports": [{"port": 1, "protocol": "SCTP"}]}]}, "SCTP"),
        ({"policyTypes": ["Egress"], "egress": [{"ports": [{"port": "http"}]}]}, "named port"),
        ({"ingress": [{"from": [{"serviceSelector": {}}]}]}, "peer.serviceSelector"),
        ({"ingress": [{"unless": []}]}, "ingress.unless"),
        ({"priority": 5}, "spec.priority"),
    ],
)
def test_what_is_not_understood_is_refused_and_closes_the_pod(spec: dict[str, Any], reason: str) -> None:
    text, refusals = ruleset(WORLD, [policy(**spec)])

    assert [reason in refusal.reason for refusal in refusals] == [True]
    assert chain(text, "ingress_10_0_0_1") == [CLOSED]
    assert chain(text, "egress_10_0_0_1") == [CLOSED]
    assert "10_0_0_2" not in text


@pytest.mark.parametrize(
    ("selector", "labels", "selected"),
    [
        ({}, {}, True),
        ({"matchLabels": {"a": "1"}}, {"a": "1", "b": "2"}, True),
        ({"matchLabels": {"a": "1"}}, {"a": "2"}, False),
        ({"matchExpressions": [{"key": "a", "operator": "In", "values": ["1", "2"]}]}, {"a": "2"}, True),
        ({"matchExpressions": [{"key": "a", "operator": "In", "values": ["1"]}]}, {}, False),
        ({"matchExpressions": [{"key": "a", "operator": "NotIn", "values": ["1"]}]}, {}, True),
        ({"matchExpressions": [{"key": "a", "operator": "NotIn", "values": ["1"]}]}, {"a": "1"}, False),
        ({"matchExpressions": [{"key": "a", "operator": "Exists"}]}, {"a": ""}, True),
        ({"matchExpressions": [{"key": "a", "operator": "DoesNotExist"}]}, {"a": ""}, False),
        ({"matchLabels": {"a": "1"}, "matchExpressions": [{"key": "b", "operator": "Exists"}]}, {"a": "1"}, False),
    ],
)
def test_a_label_selector_selects_as_in_kubernetes(
    selector: dict[str, Any], labels: dict[str, str], selected: bool
) -> None:
    assert matches(selector, labels) is selected


def test_pods_without_an_address_of_their_own_are_left_alone() -> None:
    def pod(name: str, spec: dict[str, Any], status: dict[str, Any]) -> dict[str, Any]:
        return {"metadata": {"namespace": "n", "name": name}, "spec": {"containers": [], **spec}, "status": status}

    world = World.of(
        [
            pod("starting", {}, {"phase": "Pending"}),
            pod("of-the-node", {"hostNetwork": True}, {"phase": "Running", "podIP": "10.213.0.2"}),
            pod("ended", {}, {"phase": "Succeeded", "podIP": "10.0.0.9"}),
            pod("running", {}, {"phase": "Running", "podIP": "10.0.0.9"}),
        ],
        [],
    )

    assert [each.name for each in world.pods] == ["running"]
