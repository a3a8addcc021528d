"""The arguments of the Provider resource, and what a change of them means for what it manages."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Mapping
from typing import Any

from devcluster.standin import kubeconfig, values

_KUBECONFIG_KEYS = ("kubeconfig", "context", "cluster")


@dataclasses.dataclass(frozen=True, slots=True)
class Settings:
    """What the provider was told; the names are those of the official one's arguments."""

    kubeconfig: str | None
    context: str | None
    cluster: str | None
    namespace: str | None
    server_side_apply: bool
    patch_force: bool
    upsert_existing_objects: bool
    config_map_mutable: bool
    secret_mutable: bool
    delete_unreachable: bool
    skip_update_unreachable: bool


def read(variables: Mapping[str, str]) -> Settings:
    """Reads the settings as the engine hands them over, with the environment variables of the official provider.

    Args:
        variables: `kubernetes:config:<argument>` to its value, JSON where it is no string.

    Raises:
        ValueError: an argument asks for what the stand-in does not have.
    """

    def text(name: str) -> str | None:
        return variables.get(f"kubernetes:config:{name}") or None

    def switch(name: str, variable: str, default: str) -> bool:
        given = variables.get(f"kubernetes:config:{name}")
        return (given if given is not None else os.environ.get(variable, default)) == "true"

    if text("renderYamlToDirectory"):
        raise ValueError("renderYamlToDirectory: the stand-in provider cannot render YAML: use the official plugin")
    return Settings(
        kubeconfig=text("kubeconfig"),
        context=text("context"),
        cluster=text("cluster"),
        namespace=text("namespace"),
        server_side_apply=switch("enableServerSideApply", "PULUMI_K8S_ENABLE_SERVER_SIDE_APPLY", "true"),
        patch_force=switch("enablePatchForce", "PULUMI_K8S_ENABLE_PATCH_FORCE", "false"),
        upsert_existing_objects=switch("upsertExistingObjects", "PULUMI_K8S_UPSERT_EXISTING_OBJECTS", "false"),
        config_map_mutable=switch("enableConfigMapMutable", "PULUMI_K8S_ENABLE_CONFIGMAP_MUTABLE", "false"),
        secret_mutable=switch("enableSecretMutable", "PULUMI_K8S_ENABLE_SECRET_MUTABLE", "false"),
        delete_unreachable=switch("deleteUnreachable", "PULUMI_K8S_DELETE_UNREACHABLE", "false"),
        skip_update_unreachable=switch("skipUpdateUnreachable", "PULUMI_K8S_SKIP_UPDATE_UNREACHABLE", "false"),
    )


@dataclasses.dataclass(frozen=True, slots=True)
class Change:
    """Which arguments changed, and which of them mean another cluster, so that everything is replaced."""

    changed: tuple[str, ...]
    replaces: tuple[str, ...]


def change(old: Mapping[str, Any], new: Mapping[str, Any]) -> Change:
    """Decides whether a changed Provider resource still means the same cluster.

    With `clusterIdentifier` set and unchanged it always does. Without, another active cluster in the kubeconfig
    (server or certificate authority) means another cluster.

    Args:
        old: the arguments in the state.
        new: the arguments of the program.

    Raises:
        kubeconfig.KubeconfigError: one of the two kubeconfigs cannot be read.
    """
    changed = tuple(sorted(key for key in {*old, *new} if old.get(key) != new.get(key)))
    if not changed:
        return Change((), ())
    identifier_was, identifier = old.get("clusterIdentifier"), new.get("clusterIdentifier")
    if identifier is not None and identifier == identifier_was:
        return Change(changed, ())
    replaces = ["clusterIdentifier"] if None not in (identifier_was, identifier) else []
    unknown = [key for key in _KUBECONFIG_KEYS if new.get(key) is values.UNKNOWN]
    if unknown:
        return Change(changed, (*replaces, unknown[0]))
    before, after = _active(old), _active(new)
    if before is not None and after is not None and before != after:
        replaces += [key for key in _KUBECONFIG_KEYS if key in changed]
    return Change(changed, tuple(replaces))


def _active(arguments: Mapping[str, Any]) -> dict[str, Any] | None:
    given = arguments.get("kubeconfig")
    if not given:
        return None
    text = given if isinstance(given, str) else json.dumps(given)
    return kubeconfig.active_cluster(kubeconfig.load(text), arguments.get("context"), arguments.get("cluster"))
