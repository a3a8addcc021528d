"""Readers of the objects that a configuration declares, for tests of its fields."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from components import slurm_cluster
from components.config import Config
from components.control import ledger
from components.jail import jail_population
from components.slurm.conf import slurm_conf

Probe = Callable[[Config], Any]
Effect = tuple[str, Any, Probe, Any]
"""Path of a field, a value, a reader of what is declared, and what it finds then."""


def body(config: Config, kind: str, name: str) -> Any:
    """The declared object of this kind and name."""
    everything = [*slurm_cluster.manifests(config), *ledger.manifests(config)]
    found = [manifest.body for manifest in everything if (manifest.kind, manifest.name) == (kind, name)]
    return found[0] if found else None


def pod(config: Config, kind: str, name: str) -> Any:
    """The pod spec of a workload."""
    return body(config, kind, name)["spec"]["template"]["spec"]


def annotations(config: Config, kind: str, name: str) -> Any:
    """The annotations of a workload's pods."""
    return body(config, kind, name)["spec"]["template"]["metadata"].get("annotations", {})


def container(config: Config, kind: str, name: str) -> Any:
    """The first container of a workload."""
    return pod(config, kind, name)["containers"][0]


def variable(config: Config, kind: str, name: str, key: str) -> Any:
    """A JSON variable of a workload's container."""
    found = {each["name"]: each["value"] for each in container(config, kind, name)["env"]}
    return json.loads(found[key])


def job(config: Config) -> str:
    """Name of the populate Job."""
    return jail_population.job_name(config.jail.revision)


def requests(kind: str, name: str, key: str) -> Probe:
    """Reads a request of a workload's container."""
    return lambda config: container(config, kind, name)["resources"]["requests"].get(key)


def claim(name: str) -> Probe:
    """Reads the spec of a claim."""
    return lambda config: body(config, "PersistentVolumeClaim", name)["spec"]


def claim_effects(path: str, name: str) -> list[Effect]:
    """Fields of a claim that the program makes, at this path of the configuration."""
    return [
        (f"{path}.className", "fast", lambda c: claim(name)(c)["storageClassName"], "fast"),
        (f"{path}.size", "9Ti", lambda c: claim(name)(c)["resources"]["requests"]["storage"], "9Ti"),
        (f"{path}.retain", False, lambda c: manifest(c, "PersistentVolumeClaim", name).retain, False),
        (f"{path}.protect", True, lambda c: manifest(c, "PersistentVolumeClaim", name).protect, True),
    ]


def manifest(config: Config, kind: str, name: str) -> Any:
    """The declared object with its options."""
    return next(each for each in slurm_cluster.manifests(config) if (each.kind, each.name) == (kind, name))


def conf(config: Config) -> list[str]:
    """Lines of slurm.conf."""
    return slurm_conf.slurm_conf(config).splitlines()


def has(line: str) -> Probe:
    """Return whether slurm.conf has this line."""
    return lambda config: line in conf(config)
