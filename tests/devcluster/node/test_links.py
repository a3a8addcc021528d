from __future__ import annotations

import functools
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any

import pytest

from devcluster.machine.progress import StepFailed
from devcluster.node import links, node_cli
from devcluster.node.instance import Instance
from devcluster.node.links import POOL, NoSubnetError, Subnet, choose, host_end, networks_of_host, node_end

ADDRESSES: list[dict[str, Any]] = [
    {"ifname": "eth0", "addr_info": [{"family": "inet", "local": "192.0.2.2", "prefixlen": 24}, {"family": "inet6"}]},
    {
        "ifname": "ps-1",
        "ifalias": "devcluster instance other (/x)",
        "addr_info": [{"family": "inet", "local": "10.213.0.1", "prefixlen": 30}],
    },
    {"ifname": "ps-mine", "addr_info": [{"family": "inet", "local": "10.213.0.5", "prefixlen": 30}]},
]
ROUTES = [
    {"dst": "default", "dev": "eth0"},
    {"dst": "10.213.0.0/30", "dev": "ps-1"},
    {"dst": "10.213.0.4/30", "dev": "ps-mine"},
    {"dst": "10.213.1.0/24", "dev": "vpn0"},
]


def test_a_subnet_in_use_names_its_owner_and_ones_own_is_not_in_use() -> None:
    taken = networks_of_host(ADDRESSES, ROUTES, "ps-mine")

    assert taken == {
        IPv4Network("10.213.0.0/30"): "devcluster instance other (/x)",
        IPv4Network("10.213.1.0/24"): "network interface vpn0",
        IPv4Network("192.0.2.0/24"): "network interface eth0",
    }


def test_an_instance_keeps_its_subnet() -> None:
    had = Subnet.parse("10.213.0.4/30")

    assert choose(had, networks_of_host(ADDRESSES, ROUTES, "ps-mine")) == (had, None)


def test_a_new_instance_gets_the_first_free_subnet() -> None:
    chosen, owner = choose(None, {IPv4Network("10.213.0.0/29"): "somebody"})

    assert (str(chosen), chosen.host, chosen.node, owner) == ("10.213.0.8/30", "10.213.0.9", "10.213.0.10", None)


def test_who_took_the_subnet_meanwhile_is_named() -> None:
    chosen, owner = choose(Subnet.parse("10.213.1.0/30"), networks_of_host(ADDRESSES, ROUTES, "ps-mine"))

    assert owner == "network interface vpn0"
    assert str(chosen) == "10.213.0.4/30"


def test_a_full_pool_says_who_fills_it() -> None:
    with pytest.raises(NoSubnetError, match="a big VPN"):
        choose(None, {POOL: "a big VPN"})


def test_instances_of_the_same_name_in_two_state_roots_share_nothing_on_the_host() -> None:
    one, other = Instance("dev", Path("/tmp/a/dev")), Instance("dev", Path("/tmp/b/dev"))

    assert one.name_on_host != other.name_on_host
    assert host_end(one) != host_end(other)
    assert all(len(each) <= 15 for each in (host_end(one), node_end(one)))


@pytest.mark.parametrize(("words", "starts"), [(links.TAKEN, 2), ("no room", 1)], ids=["taken", "another fault"])
def test_a_node_whose_subnet_was_taken_meanwhile_starts_with_another(
    words: str, starts: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[str] = []

    def ended_once(instance: Instance) -> str:
        if len(started) == 1:
            raise StepFailed(f"the node ended while it was started: RuntimeError: {words}")
        return "runtime"

    monkeypatch.setattr(node_cli, "_describe", lambda *_: None)
    monkeypatch.setattr(node_cli.writing, "write", lambda _: True)
    monkeypatch.setattr(node_cli.instance_supervisor, "start", lambda *_: started.append("supervisor"))
    monkeypatch.setattr(node_cli, "_wait_for_init", ended_once)
    begin = functools.partial(node_cli._begin, Instance("a", tmp_path), tmp_path, tmp_path, None, None)
    if starts == 1:
        with pytest.raises(StepFailed, match=words):
            begin()
    else:
        assert begin() == "runtime"
    assert len(started) == starts
