"""Turns declared inputs into requests: names, namespaces, one form for equal things."""

from __future__ import annotations

import base64
import binascii
import copy
from typing import Any

from devcluster.standin.decisions import kinds, values
from devcluster.standin.decisions.kinds import Kind, Manifest

_SERVER_OWNED = (
    "creationTimestamp",
    "deletionGracePeriodSeconds",
    "deletionTimestamp",
    "generation",
    "managedFields",
    "resourceVersion",
    "uid",
)


def normalized(manifest: Manifest) -> Manifest:
    """Normalizes inputs, so that inputs which are equal for the API server show no difference.

    It drops fields that only the server writes, and empty ones that it does not store. A Secret's `stringData` becomes
    `data`.
    """
    kind = kinds.of(manifest)
    keep_empty = not kind.builtin or kind.name == "CustomResourceDefinition"
    result = copy.deepcopy(manifest) if keep_empty else _without_dropped(manifest)
    if isinstance(result.get("metadata"), dict):
        for key in _SERVER_OWNED:
            result["metadata"].pop(key, None)
    if result.get("apiVersion") == "v1" and result.get("kind") == "Secret":
        _normalize_payload(result)
    if result.get("kind") == "CustomResourceDefinition":
        result.pop("status", None)
        spec = result.get("spec")
        if isinstance(spec, dict) and spec.get("preserveUnknownFields") is False:
            del spec["preserveUnknownFields"]
    return result


# Empty values that the API server does not store, since they are the default. Other empty values mean something.
_DROPPED_EMPTY_MAPS = frozenset({
    "annotations", "binaryData", "data", "labels", "limits", "matchLabels", "nodeSelector", "requests", "stringData",
})  # fmt: skip
_DROPPED_ZEROS = frozenset({
    "hostIPC", "hostNetwork", "hostPID", "minReadySeconds", "nodePort", "paused", "publishNotReadyAddresses",
    "readOnly", "stdin", "stdinOnce", "tty", "unschedulable",
})  # fmt: skip


def _without_dropped(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_dropped(item) for key, item in value.items() if not _is_dropped(key, item)}
    if isinstance(value, list):
        return [_without_dropped(item) for item in value]
    return value


def _is_dropped(key: str, value: Any) -> bool:
    if value is None or value == []:
        return True
    return (value == {} and key in _DROPPED_EMPTY_MAPS) or (value in (False, 0) and key in _DROPPED_ZEROS)


def _normalize_payload(secret: Manifest) -> None:
    data, text = secret.get("data"), secret.get("stringData")
    if isinstance(data, dict):
        secret["data"] = data = {key: _canonical_base64(value) for key, value in data.items()}
    if isinstance(text, dict) and text and not values.has_unknown(text) and not isinstance(data, values.Unknown):
        encoded = {key: base64.b64encode(str(value).encode()).decode() for key, value in text.items()}
        secret["data"] = {**(data or {}), **encoded}
        del secret["stringData"]


def _canonical_base64(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    try:
        return base64.b64encode(base64.b64decode(value)).decode()
    except binascii.Error:
        return value  # the API server refuses it, in its own words


def check_name(manifest: Manifest) -> None:
    """Refuses an object that would get its name from the provider or the API server.

    Raises:
        ValueError: it has no name of its own.
    """
    metadata = manifest.get("metadata")
    if metadata is values.UNKNOWN:
        return
    if not isinstance(metadata, dict) or not metadata.get("name"):
        raise ValueError("metadata.name: the stand-in provider makes no names: use the official plugin")


def placed(manifest: Manifest, namespace: str, namespaced: bool) -> Manifest:
    """Puts an object into the provider's namespace when it names none itself."""
    metadata = kinds.metadata_of(manifest)
    if not namespaced or metadata.get("namespace") or manifest.get("metadata") is values.UNKNOWN:
        return manifest
    return {**manifest, "metadata": {**metadata, "namespace": namespace}}


def typed(manifest: Manifest, kind: Kind) -> Manifest:
    """Fills `apiVersion` and `kind`, which some programs leave to the Pulumi type."""
    return {"apiVersion": kind.api_version, "kind": kind.name, **manifest}


def pruned(live: Any, shape: Any) -> Any:
    """Return the part of a live value at the places that `shape` has. The cluster filled in the rest.

    Args:
        live: a value from the API server.
        shape: the declared value at the same place.
    """
    if isinstance(live, dict) and isinstance(shape, dict):
        return {key: pruned(value, shape[key]) for key, value in live.items() if key in shape}
    if isinstance(live, list) and isinstance(shape, list):
        if not live or not shape:
            return []
        if type(live[0]) is not type(shape[0]):
            return live
        return [pruned(value, wanted) for value, wanted in zip(live, shape, strict=False)]
    return live


def imported(live: Manifest) -> Manifest:
    """Return the inputs that would declare a live object: without its status and fields that only the server writes."""
    result = normalized({key: value for key, value in live.items() if key != "status"})
    annotations = kinds.metadata_of(result).get("annotations")
    if isinstance(annotations, dict):
        for key in ("deployment.kubernetes.io/revision", "kubectl.kubernetes.io/last-applied-configuration"):
            annotations.pop(key, None)
        if not annotations:
            del result["metadata"]["annotations"]
    return result
