"""The arguments of the Provider resource, and what a change of them means for its resources."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from typing import Any, Final

_OFFICIAL: Final = "the stand-in provider does not have this: use the official plugin"
_REFUSED: Final = {
    "renderYamlToDirectory": ("", ""),
    "cluster": ("", ""),
    "namespace": ("", ""),
    "enableServerSideApply": ("PULUMI_K8S_ENABLE_SERVER_SIDE_APPLY", "true"),
    "enablePatchForce": ("PULUMI_K8S_ENABLE_PATCH_FORCE", "false"),
    "deleteUnreachable": ("PULUMI_K8S_DELETE_UNREACHABLE", "false"),
    "skipUpdateUnreachable": ("PULUMI_K8S_SKIP_UPDATE_UNREACHABLE", "false"),
}
"""Arguments that the program leaves alone: environment variable of the official provider, and the default."""


@dataclasses.dataclass(frozen=True, slots=True)
class Settings:
    """The provider's arguments, under the official provider's names."""

    kubeconfig: str | None
    context: str | None
    upsert_existing_objects: bool
    config_map_mutable: bool
    secret_mutable: bool


def read(variables: Mapping[str, str]) -> Settings:
    """Reads the settings as the engine hands them over, with the environment variables of the official provider.

    Args:
        variables: `kubernetes:config:<argument>` to its value, JSON where it is no string.

    Raises:
        ValueError: an argument asks for what the stand-in does not have.
    """

    def text(name: str, variable: str = "") -> str | None:
        return variables.get(f"kubernetes:config:{name}") or (os.environ.get(variable) if variable else None) or None

    for name, (variable, default) in _REFUSED.items():
        if (given := text(name, variable)) is not None and given != default:
            raise ValueError(f"{name}={given}: {_OFFICIAL}")
    return Settings(
        kubeconfig=text("kubeconfig"),
        context=text("context"),
        upsert_existing_objects=text("upsertExistingObjects", "PULUMI_K8S_UPSERT_EXISTING_OBJECTS") == "true",
        config_map_mutable=text("enableConfigMapMutable", "PULUMI_K8S_ENABLE_CONFIGMAP_MUTABLE") == "true",
        secret_mutable=text("enableSecretMutable", "PULUMI_K8S_ENABLE_SECRET_MUTABLE") == "true",
    )


def change(old: Mapping[str, Any], new: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """Decides whether a changed Provider resource still means the same cluster, by its `clusterIdentifier` alone.

    Args:
        old: the arguments in the state.
        new: the arguments of the program.

    Returns:
        The arguments that changed, and those of them that replace everything.

    Raises:
        ValueError: one of the two has no identifier, so that the kubeconfigs would have to tell.
    """
    changed = sorted(key for key in {*old, *new} if old.get(key) != new.get(key))
    if changed and not (old.get("clusterIdentifier") and new.get("clusterIdentifier")):
        raise ValueError(f"a Provider without clusterIdentifier: {_OFFICIAL}")
    return changed, [key for key in changed if key == "clusterIdentifier"]
