"""Configurations and recorded programs that several tests start from."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pulumi
from google.protobuf import struct_pb2  # type: ignore[import-untyped]  # protobuf ships no types
from pulumi.output import Unknown
from pulumi.runtime import rpc
from pulumi.runtime.mocks import MockMonitor

from components import keys
from components.config import Config, parse
from components.kubernetes.provider import kubernetes_provider
from components.slurm_cluster import SlurmCluster

DIGEST = "sha256:" + "ab" * 32
OTHER_IMAGE = f"registry.example/other@{DIGEST.replace('ab', 'cd')}"
SSH_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f alice@example"
GENERATED = {purpose: keys.generate(purpose) for purpose in (keys.SLURM, keys.SSH, keys.REVISION, keys.DATABASE)}

SMALL: dict[str, Any] = {
    "cluster": {"name": "dev"},
    "images": {
        "slurm": "slurm:0123abcd4567",
        "operator": "operator:0123abcd4567",
        "database": "database:0123abcd4567",
    },
    "jail": {"image": f"registry.example/jail@{DIGEST}"},
    "nodeSets": [{"name": "cpu", "replicas": 2, "resources": {"cpu": 1, "memory": "1Gi"}}],
    "accounting": {"mode": "mariadb"},
    # Nothing is declared for it; node sets may have GPUs.
    "gpuOperator": {"mode": "existing"},
}
GPU_SET: dict[str, Any] = {
    "name": "h100",
    "replicas": 8,
    "resources": {"cpu": 120, "memory": "1500Gi"},
    "gpus": {"type": "h100", "perNode": 8},
}

DIRECTORY: dict[str, Any] = {
    "uri": "ldaps://ldap.example",
    "base": "dc=example,dc=org",
    "bindDn": "cn=slurm,dc=example,dc=org",
    "bindPasswordSecret": {"name": "ldap"},
    "caSecret": {"name": "ldap-ca"},
}
EVERYTHING: dict[str, Any] = {
    **SMALL,
    "nodeSets": [SMALL["nodeSets"][0], {**GPU_SET, "network": {"rdma": {"resource": "rdma/fabric"}}}],
    "networkOperator": {"mode": "install", "pools": [{"name": "fabric"}]},
    "gpuOperator": {"mode": "install", "nodeFeatureDiscovery": False},
    "certificates": {"mode": "install"},
    "directory": DIRECTORY,
    "login": {"sets": [{"name": "data", "ownHostKeys": True}]},
}
"""A configuration with every component in it; other makers' operators are installed."""


def changed(path: str, value: Any, base: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The small configuration with one value changed; a path such as `nodeSets.0.resources.memory`."""
    raw: dict[str, Any] = copy.deepcopy(dict(base or SMALL))
    *parents, last = path.split(".")
    at: Any = raw
    for part in parents:
        at = at[int(part)] if isinstance(at, list) else at.setdefault(part, {})
    at[int(last) if isinstance(at, list) else last] = value
    return raw


def config_with(path: str, value: Any) -> Config:
    """The small configuration, parsed, with one value changed."""
    return parse(changed(path, value))


_SECRET_MARK = "1b47061264138c4ac30d75fd1eb44270"
"""Mark of a secret value between program and engine."""


@dataclass
class Registered:
    """One resource as the engine sees it."""

    type: str
    name: str
    urn: str
    inputs: dict[str, Any]
    request: Any

    @property
    def dependencies(self) -> set[str]:
        """URNs of what is there before it."""
        return set(self.request.dependencies)

    def is_secret(self, key: str) -> bool:
        """Return whether an input came marked as secret."""
        value = self.request.object[key]
        return isinstance(value, struct_pb2.Struct) and _SECRET_MARK in dict(value).values()


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        if _SECRET_MARK in value.values():
            return _plain(value["value"])
        return {key: _plain(item) for key, item in value.items() if not isinstance(item, Unknown)}
    return [_plain(item) for item in value] if isinstance(value, list) else value


class Recorder(pulumi.runtime.Mocks):
    """Plays the providers."""

    def __init__(self, *, preview: bool) -> None:
        self.preview = preview

    def new_resource(self, args: pulumi.runtime.MockResourceArgs) -> tuple[str | None, dict[Any, Any]]:
        outputs = dict(args.inputs)
        if args.typ.endswith(":Keys") and not self.preview:
            outputs["data"] = GENERATED[args.inputs["purpose"]]
        return args.name, outputs

    def call(self, args: pulumi.runtime.MockCallArgs) -> Any:
        raise AssertionError(f"the program calls {args.token}")


class Engine(MockMonitor):
    """Plays the engine; remembers what was registered."""

    def __init__(self, mocks: Recorder) -> None:
        super().__init__(mocks)
        self.registered: list[Registered] = []
        self.outputs: dict[str, set[str]] = {}

    def RegisterResourceOutputs(self, request: Any) -> Any:  # noqa: N802 - gRPC's name
        """Remembers a component's outputs: its URN and their names."""
        self.outputs[request.urn] = set(request.outputs)
        return super().RegisterResourceOutputs(request)  # type: ignore[no-untyped-call]  # pulumi has no types

    def RegisterResource(self, request: Any) -> Any:  # noqa: N802 - gRPC's name
        response = super().RegisterResource(request)  # type: ignore[no-untyped-call]  # pulumi has no types
        if request.type != "pulumi:pulumi:Stack":
            # As a person reads them: secrets unwrapped, what is unknown left out. is_secret() tells which were secret.
            inputs = _plain(rpc.deserialize_properties(request.object, keep_unknowns=True))
            self.registered.append(Registered(request.type, request.name, response.urn, inputs, request))
        return response

    def one(self, kind: str, name: str) -> Registered:
        """The one resource of this type's last part and name."""
        found = [each for each in self.registered if each.type.endswith(f":{kind}") and each.name == name]
        assert len(found) == 1, f"{kind} {name}: {len(found)} of {[(each.type, each.name) for each in self.registered]}"
        return found[0]

    def kubernetes(self) -> list[Registered]:
        """The Kubernetes objects that were declared."""
        return [each for each in self.registered if each.type.startswith("kubernetes:")]


def run_program(raw: Mapping[str, Any], *, preview: bool = False) -> tuple[Engine, dict[str, Any]]:
    """Runs the whole program against mocks; returns what was registered, and its outputs (missing where unknown)."""
    mocks = Recorder(preview=preview)
    engine = Engine(mocks)
    # Pulumi takes the thread's event loop, and asyncio.run in a test before this one takes it away.
    asyncio.set_event_loop(asyncio.new_event_loop())
    pulumi.runtime.set_mocks(mocks, project="pulumi-slurm", stack="test", preview=preview, monitor=engine)
    outputs: dict[str, Any] = {}

    @pulumi.runtime.test  # type: ignore[misc]  # pulumi has no types
    def program() -> Any:
        config = parse(raw)
        options = pulumi.ResourceOptions(provider=kubernetes_provider(config))
        cluster = SlurmCluster(config.cluster.name, config, options)
        outputs.update(namespace=cluster.namespace, rest=cluster.rest_address, condition=cluster.condition_command)
        outputs.update(watch=cluster.watch_nodes_command)
        if sets := cluster.login_set_addresses:
            pulumi.Output.all(**sets).apply(lambda addresses: outputs.update(sets=addresses))
        return cluster.login_address.apply(lambda address: outputs.update(login=address))

    program()
    return engine, outputs
