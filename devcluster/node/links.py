"""The veth pair between the host and an instance: which /30 it gets, and what the host does for it.

A link's alias names its owner, so that any instance, of any state root, can say who uses a subnet.
"""

from __future__ import annotations

import hashlib
import ipaddress
import itertools
import json
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from devcluster.node.instance import Instance

POOL = ipaddress.IPv4Network("10.213.0.0/18")
DEADLINE_SECONDS = 20
FORWARDING = Path("/proc/sys/net/ipv4/ip_forward")
FORWARDING_WAS_OFF = Path("/run/pulumi-slurm.forwarding-was-off")
HOST_END_PREFIX = "ps-"
TAKEN = "start again for another"
"""Ends what a supervisor says whose subnet another instance took in the last moment."""


class NoSubnetError(RuntimeError):
    """Every /30 of the pool is in use."""


@dataclass(frozen=True, slots=True)
class Subnet:
    """A /30: the host has its first address, the node its second."""

    network: ipaddress.IPv4Network

    @classmethod
    def parse(cls, text: str) -> Subnet:
        """Read a subnet such as `10.213.0.0/30`."""
        return cls(ipaddress.IPv4Network(text))

    @property
    def host(self) -> str:
        """The host's address."""
        return str(self.network[1])

    @property
    def node(self) -> str:
        """The node's address: the API server and NodePorts answer there."""
        return str(self.network[2])

    def __str__(self) -> str:
        return str(self.network)


def choose(wanted: Subnet | None, taken: Mapping[ipaddress.IPv4Network, str]) -> tuple[Subnet, str | None]:
    """Choose a subnet.

    Args:
        wanted: The one that the instance had before, if any.
        taken: Networks that this host has or routes, with their owners.

    Returns:
        The subnet, and who owns the wanted one if it had to be given up.

    Raises:
        NoSubnetError: when nothing is free.
    """
    owner = _owner(wanted.network, taken) if wanted else None
    if wanted and owner is None:
        return wanted, None
    for network in POOL.subnets(new_prefix=30):
        if _owner(network, taken) is None:
            return Subnet(network), owner
    owners = ", ".join(sorted(set(taken.values())))
    raise NoSubnetError(f"no free /30 in {POOL}; in use by: {owners}")


def networks_of_host(
    addresses: Iterable[Mapping[str, Any]], routes: Iterable[Mapping[str, Any]], mine: str
) -> dict[ipaddress.IPv4Network, str]:
    """Return the networks in use on this host, and their owners.

    Args:
        addresses: `ip -json addr`.
        routes: `ip -json route`.
        mine: Name of our own link, whose networks are left out.
    """
    addresses = list(addresses)
    owners = {link["ifname"]: link.get("ifalias") or f"network interface {link['ifname']}" for link in addresses}
    of_links = (
        (ipaddress.IPv4Interface(f"{info['local']}/{info['prefixlen']}").network, link["ifname"])
        for link in addresses
        for info in link.get("addr_info", [])
        if info.get("family") == "inet"
    )
    of_routes = (
        (ipaddress.IPv4Network(route["dst"]), route.get("dev", "?")) for route in routes if route["dst"] != "default"
    )
    return {
        network: owners.get(name, f"network interface {name}")
        for network, name in itertools.chain(of_routes, of_links)
        if name != mine
    }


def read_networks(mine: str) -> dict[ipaddress.IPv4Network, str]:
    """Return `networks_of_host` for this host, now."""
    return networks_of_host(
        json.loads(run("ip", "-json", "-details", "addr")), json.loads(run("ip", "-json", "-4", "route")), mine
    )


def host_end(instance: Instance) -> str:
    """Return the name of the host's end of the pair; at most 15 characters, whatever the instance's name."""
    return f"{HOST_END_PREFIX}{hashlib.sha256(str(instance.state).encode()).hexdigest()[:10]}"


def node_end(instance: Instance) -> str:
    """Return the name of the node's end as long as it is still on the host; inside it becomes eth0."""
    return host_end(instance).replace(HOST_END_PREFIX, "pn-")


def mtu_to_the_world() -> int:
    """Return the smallest MTU of a default route's interface, 1500 without one."""
    routes = json.loads(run("ip", "-json", "-4", "route", "show", "default"))
    sizes = [int(Path(f"/sys/class/net/{route['dev']}/mtu").read_text()) for route in routes if "dev" in route]
    return min([1500, *sizes])


def connect(instance: Instance, subnet: Subnet, process: int) -> None:
    """Make the pair between the host and the network namespace of a process, and masquerade the node's traffic."""
    disconnect(instance)
    host, node = host_end(instance), node_end(instance)
    owner = _owner(subnet.network, read_networks(host))
    if owner:
        # It was free when chosen. An instance of another state root took it since.
        raise RuntimeError(f"subnet {subnet} is in use now by {owner}: {TAKEN}")
    mtu = str(mtu_to_the_world())
    run("ip", "link", "add", host, "mtu", mtu, "type", "veth", "peer", "name", node, "mtu", mtu)
    run("ip", "link", "set", host, "alias", f"devcluster instance {instance.name} ({instance.state})")
    run("ip", "addr", "add", f"{subnet.host}/30", "dev", host)
    run("ip", "link", "set", host, "up")
    run("ip", "link", "set", node, "netns", str(process), "name", "eth0")
    run("nft", "-f", "-", stdin=masquerade(instance, subnet))
    if FORWARDING.read_text().strip() == "0":
        FORWARDING_WAS_OFF.touch()
        FORWARDING.write_text("1")


def disconnect(instance: Instance) -> None:
    """Remove the pair and the masquerading, if they exist."""
    for command in (
        ("nft", "delete", "table", "ip", instance.name_on_host),
        ("ip", "link", "delete", host_end(instance)),
    ):
        subprocess.run(command, capture_output=True, timeout=DEADLINE_SECONDS, check=False)


def restore_forwarding() -> None:
    """Turn forwarding off again if an instance turned it on, and no instance of any state root is left."""
    others = any(link.name.startswith(HOST_END_PREFIX) for link in Path("/sys/class/net").iterdir())
    if FORWARDING_WAS_OFF.exists() and not others:
        FORWARDING.write_text("0")
        FORWARDING_WAS_OFF.unlink()


def masquerade(instance: Instance, subnet: Subnet) -> str:
    """Return the host's nftables rules for an instance, in a table of its own that is removed as a whole."""
    return f"""\
table ip {instance.name_on_host} {{
  chain postrouting {{
    type nat hook postrouting priority srcnat
    ip saddr {subnet} oifname != "{host_end(instance)}" masquerade
  }}
}}
"""


def run(*command: str, stdin: str | None = None) -> str:
    """Run a program of the host with a deadline and return its output.

    Raises:
        RuntimeError: with what it said, when it fails.
    """
    done = subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=DEADLINE_SECONDS, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip() or done.returncode}")
    return done.stdout


def _owner(network: ipaddress.IPv4Network, taken: Mapping[ipaddress.IPv4Network, str]) -> str | None:
    return next((owner for other, owner in taken.items() if other.overlaps(network)), None)
