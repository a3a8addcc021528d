"""NetworkPolicies to nftables, decided: pods, namespaces and policies in, one ruleset out. Pure.

It supports the NetworkPolicy API (networking.k8s.io/v1), except SCTP and named ports in egress rules. It refuses a
policy with anything else: the pods that such a policy selects are closed, and the reason is reported.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

Resource = dict[str, Any]
Direction = Literal["Ingress", "Egress"]
DIRECTIONS: tuple[Direction, Direction] = ("Ingress", "Egress")

TABLE = "inet devcluster_policy"
IPV6 = 6
PROTOCOLS = {"TCP": "tcp", "UDP": "udp"}
CLOSED = "reject with icmpx admin-prohibited"
"""A reject, so that a client learns it at once, and can distinguish it from a closed port."""

KNOWN_KEYS = {
    "spec": {"podSelector", "policyTypes", "ingress", "egress"},
    "ingress": {"from", "ports"},
    "egress": {"to", "ports"},
    "peer": {"podSelector", "namespaceSelector", "ipBlock"},
    "port": {"port", "protocol", "endPort"},
    "selector": {"matchLabels", "matchExpressions"},
}
OPERATORS: Mapping[str, Callable[[str | None, Sequence[str]], bool]] = {
    "In": lambda value, wanted: value in wanted,
    "NotIn": lambda value, wanted: value not in wanted,
    "Exists": lambda value, _: value is not None,
    "DoesNotExist": lambda value, _: value is None,
}


class UnsupportedError(ValueError):
    """A policy has a field that is not supported here."""


@dataclass(frozen=True, slots=True)
class Pod:
    """A pod with an address of its own."""

    namespace: str
    name: str
    address: str
    labels: Mapping[str, str]
    ports: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Refusal:
    """A policy that is not enforced as written, and why."""

    policy: Resource
    reason: str


@dataclass(frozen=True, slots=True)
class World:
    """Objects that policies select from."""

    pods: Sequence[Pod]
    namespaces: Mapping[str, Mapping[str, str]]

    @classmethod
    def of(cls, pods: Iterable[Resource], namespaces: Iterable[Resource]) -> World:
        """Build it from objects of the API."""
        running = (_pod(pod) for pod in pods)
        return cls(
            sorted((pod for pod in running if pod is not None), key=lambda pod: (pod.namespace, pod.name)),
            {namespace["metadata"]["name"]: namespace["metadata"].get("labels", {}) for namespace in namespaces},
        )


def ruleset(world: World, policies: Iterable[Resource]) -> tuple[str, list[Refusal]]:
    """Return the whole nftables ruleset, which replaces the former in one transaction, and the refused policies."""
    rules: dict[Direction, dict[str, list[str]]] = {"Ingress": {}, "Egress": {}}
    refusals: list[Refusal] = []
    for policy in sorted(policies, key=lambda entry: (entry["metadata"]["namespace"], entry["metadata"]["name"])):
        try:
            _check_keys("spec", policy["spec"])
            rendered = {
                direction: {pod.address: _rules(policy, direction, pod, world) for pod in _selected(policy, world)}
                for direction in _directions(policy)
            }
        except UnsupportedError as error:
            refusals.append(Refusal(policy, str(error)))
            rendered = {direction: {pod.address: [] for pod in _all_selected(policy, world)} for direction in rules}
        for direction, of_pods in rendered.items():
            for address, lines in of_pods.items():
                rules[direction].setdefault(address, []).extend(lines)
    return _render(rules), refusals


def _render(rules: Mapping[Direction, Mapping[str, Sequence[str]]]) -> str:
    chains = [
        f"  chain {_chain(direction, address)} {{\n"
        # A pod can always reach itself through a Service.
        f"    {_family(address)} {'saddr' if direction == 'Ingress' else 'daddr'} {address} return\n"
        + "".join(f"    {line}\n" for line in [*lines, CLOSED])
        + "  }\n"
        for direction, of_pods in rules.items()
        for address, lines in of_pods.items()
    ]
    egress = _dispatch("saddr", "Egress", rules["Egress"])
    ingress = _dispatch("daddr", "Ingress", rules["Ingress"])
    # Both hooks come after kube-proxy's DNAT, so they only see the pod behind a Service's address. Traffic of the node
    # itself, such as the kubelet's probes, passes neither.
    return (
        f"table {TABLE}\ndelete table {TABLE}\ntable {TABLE} {{\n{''.join(chains)}"
        "  chain forward {\n    type filter hook forward priority filter; policy accept;\n"
        f"    ct state established,related accept\n{egress}{ingress}  }}\n"
        "  chain input {\n    type filter hook input priority filter; policy accept;\n"
        f"    ct state established,related accept\n{egress}  }}\n}}\n"
    )


def _dispatch(field: str, direction: Direction, addresses: Iterable[str]) -> str:
    lines = ""
    for family, own in _by_family(addresses).items():
        jumps = ", ".join(f"{address} : jump {_chain(direction, address)}" for address in own)
        lines += f"    {family} {field} vmap {{ {jumps} }}\n"
    return lines


def _chain(direction: Direction, address: str) -> str:
    return f"{direction.lower()}_{address.replace('.', '_').replace(':', '_')}"


def _family(network: str) -> str:
    """Return nftables' word for the family of an address or a network."""
    return f"ip{'6' if ipaddress.ip_network(network, strict=False).version == IPV6 else ''}"


def _by_family(addresses: Iterable[str]) -> dict[str, list[str]]:
    families: dict[str, list[str]] = {}
    for address in addresses:
        families.setdefault(_family(address), []).append(address)
    return families


def _directions(policy: Resource) -> list[Direction]:
    spec = policy["spec"]
    named = spec.get("policyTypes") or ["Ingress", *(["Egress"] if spec.get("egress") else [])]
    return [direction for direction in DIRECTIONS if direction in named]


def _selected(policy: Resource, world: World) -> list[Pod]:
    selector = policy["spec"].get("podSelector") or {}
    return [pod for pod in _of_namespace(policy, world) if matches(selector, pod.labels)]


def _all_selected(policy: Resource, world: World) -> list[Pod]:
    try:
        return _selected(policy, world)
    except UnsupportedError:
        return _of_namespace(policy, world)


def _of_namespace(policy: Resource, world: World) -> list[Pod]:
    return [pod for pod in world.pods if pod.namespace == policy["metadata"]["namespace"]]


def _rules(policy: Resource, direction: Direction, pod: Pod, world: World) -> list[str]:
    """Return the lines that accept traffic to or from a pod."""
    field, peers_key = ("saddr", "from") if direction == "Ingress" else ("daddr", "to")
    lines: list[str] = []
    for rule in policy["spec"].get(direction.lower()) or []:
        _check_keys(direction.lower(), rule)
        ports = _ports(rule.get("ports") or [], pod if direction == "Ingress" else None)
        peers = _peers(rule.get(peers_key) or [], policy["metadata"]["namespace"], field, world)
        lines += [" ".join(filter(None, (peer, port, "return"))) for peer in peers for port in ports]
    return lines


def _peers(peers: Sequence[Resource], namespace: str, field: str, world: World) -> list[str]:
    if not peers:
        return [""]
    refused: list[str] = []
    for peer in peers:
        _check_keys("peer", peer)
        if "ipBlock" in peer:
            refused.append(_block(peer["ipBlock"], field))
            continue
        addresses = (pod.address for pod in world.pods if _is_peer(peer, pod, namespace, world))
        refused += [f"{family} {field} {{ {', '.join(own)} }}" for family, own in _by_family(addresses).items()]
    return refused


def _is_peer(peer: Resource, pod: Pod, namespace: str, world: World) -> bool:
    if "namespaceSelector" in peer:
        in_scope = matches(peer["namespaceSelector"] or {}, world.namespaces.get(pod.namespace, {}))
    else:
        in_scope = pod.namespace == namespace
    return in_scope and matches(peer.get("podSelector") or {}, pod.labels)


def _block(block: Resource, field: str) -> str:
    unknown = set(block) - {"cidr", "except"}
    if unknown:
        raise UnsupportedError(f"ipBlock.{min(unknown)}")
    # The API server has checked that all networks of a block are of one family.
    family = _family(block["cidr"])
    excepted = f" {family} {field} != {{ {', '.join(block['except'])} }}" if block.get("except") else ""
    return f"{family} {field} {block['cidr']}{excepted}"


def _ports(ports: Sequence[Resource], pod: Pod | None) -> list[str]:
    if not ports:
        return [""]
    of_protocols: dict[str, list[str]] = {}
    for port in ports:
        _check_keys("port", port)
        protocol = port.get("protocol", "TCP")
        if protocol not in PROTOCOLS:
            raise UnsupportedError(f"protocol {protocol}")
        numbers = _port_numbers(port, pod)
        if numbers is not None:
            of_protocols.setdefault(PROTOCOLS[protocol], []).append(numbers)
    return [
        f"meta l4proto {protocol}" if "" in numbers else f"{protocol} dport {{ {', '.join(numbers)} }}"
        for protocol, numbers in of_protocols.items()
    ]


def _port_numbers(port: Resource, pod: Pod | None) -> str | None:
    """Return the ports in nftables' form: empty for every port, None if the pod has no port of that name."""
    number = port.get("port")
    if isinstance(number, str):
        if pod is None:
            raise UnsupportedError(f"the named port {number!r} in an egress rule")
        named = pod.ports.get(number)
        return None if named is None else str(named)
    if number is None:
        return ""
    return f"{number}-{port['endPort']}" if "endPort" in port else str(number)


def matches(selector: Resource, labels: Mapping[str, str]) -> bool:
    """Return whether a label selector selects something with these labels; an empty one selects everything.

    Raises:
        UnsupportedError: when it holds something unknown.
    """
    _check_keys("selector", selector)
    wanted = selector.get("matchLabels") or {}
    for expression in selector.get("matchExpressions") or []:
        if expression["operator"] not in OPERATORS:
            raise UnsupportedError(f"operator {expression['operator']}")
        compare = OPERATORS[expression["operator"]]
        if not compare(labels.get(expression["key"]), expression.get("values") or []):
            return False
    return all(labels.get(key) == value for key, value in wanted.items())


def _check_keys(kind: str, content: Resource) -> None:
    unknown = set(content) - KNOWN_KEYS[kind]
    if unknown:
        raise UnsupportedError(f"{kind}.{min(unknown)}")


def _pod(pod: Resource) -> Pod | None:
    """Return a pod of the API; None for one without its own address: not started, ended, or in the node's network."""
    spec, status = pod["spec"], pod.get("status", {})
    address = status.get("podIP")
    if not address or spec.get("hostNetwork") or status.get("phase") in {"Succeeded", "Failed"}:
        return None
    ports = {
        port["name"]: port["containerPort"]
        for container in spec["containers"]
        for port in container.get("ports", [])
        if "name" in port
    }
    metadata = pod["metadata"]
    return Pod(metadata["namespace"], metadata["name"], address, metadata.get("labels", {}), ports)
