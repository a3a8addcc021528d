"""The dev cluster's load balancer: a Service of that type gets the node's address, on its ports.

It stands in for a cloud's controller; kube-proxy does the forwarding. Two Services can't have the same port: the older
keeps it, the younger stays pending and gets an Event. Run by the node's supervisor as
`python -m devcluster.controllers.load_balancer KUBECONFIG ADDRESS`.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from devcluster.controllers import informer

SERVICES = "/api/v1/services"
NODE_PORTS = frozenset({6443, 10250})
"""Ports of the API server and the kubelet on the node's address."""

Resource = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Publish:
    """Write a Service's address into its status; none if `address` is empty."""

    namespace: str
    name: str
    address: str


@dataclass(frozen=True, slots=True)
class Conflict:
    """A Service that can't be published, and why."""

    service: Resource
    reason: str


def actions(services: Iterable[Resource], address: str) -> tuple[list[Publish], list[Conflict]]:
    """Return the statuses to write, and Services that can't have their ports.

    Args:
        services: All Services.
        address: The node's.
    """
    publishes: list[Publish] = []
    conflicts: list[Conflict] = []
    taken: dict[tuple[str, int], str] = {("TCP", port): "the node itself" for port in NODE_PORTS}
    for service in sorted(
        services, key=lambda entry: (entry["metadata"]["creationTimestamp"], entry["metadata"]["uid"])
    ):
        metadata, spec = service["metadata"], service["spec"]
        ports = [(port.get("protocol", "TCP"), port["port"]) for port in spec.get("ports", [])]
        wanted = ""
        if spec.get("type") == "LoadBalancer" and not metadata.get("deletionTimestamp"):
            owner = next((f"port {port[1]} belongs to {taken[port]}" for port in ports if port in taken), None)
            if owner:
                conflicts.append(Conflict(service, owner))
            else:
                taken |= dict.fromkeys(ports, f"Service {metadata['namespace']}/{metadata['name']}")
                wanted = address
        if wanted != _published(service):
            publishes.append(Publish(metadata["namespace"], metadata["name"], wanted))
    return publishes, conflicts


def _published(service: Resource) -> str:
    ingress = service.get("status", {}).get("loadBalancer", {}).get("ingress") or [{}]
    return str(ingress[0].get("ip", ""))


class Balancer:
    """Executes the actions."""

    def __init__(self, kubeconfig: Path, address: str) -> None:
        self._api = informer.client(kubeconfig)
        self._informer = informer.Informer(self._api, (SERVICES,))
        self._address = address
        self._told: set[tuple[str, str]] = set()

    async def run(self) -> None:
        """Publish for ever."""
        await self._informer.follow(self._pass)

    async def _pass(self) -> None:
        publishes, conflicts = actions(self._informer.objects(SERVICES), self._address)
        for publish in publishes:
            await self._publish(publish)
        for conflict in conflicts:
            key = (conflict.service["metadata"]["uid"], conflict.reason)
            if key not in self._told:
                message = f"no address: {conflict.reason}"
                await informer.warn(self._api, "v1", "Service", conflict.service, "devcluster-load-balancer", message)
                self._told.add(key)

    async def _publish(self, publish: Publish) -> None:
        ingress = [{"ip": publish.address}] if publish.address else None
        answer = await self._api.patch(
            f"/api/v1/namespaces/{publish.namespace}/services/{publish.name}/status",
            headers={"Content-Type": "application/merge-patch+json"},
            json={"status": {"loadBalancer": {"ingress": ingress}}},
        )
        if answer.status_code != 404:
            answer.raise_for_status()
        print(f"Service {publish.namespace}/{publish.name}: {publish.address or 'no address'}", flush=True)


def main() -> None:
    """Run for the cluster and address named by the arguments."""
    kubeconfig, address = sys.argv[1:]
    asyncio.run(Balancer(Path(kubeconfig), address).run())


if __name__ == "__main__":
    main()
