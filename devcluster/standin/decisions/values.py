"""Converts between Pulumi's property values and plain JSON, with unknown and secret values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from pulumi.provider.experimental.property_value import PropertyValue
from pulumi.runtime import rpc

Properties = dict[str, PropertyValue]


class Unknown:
    """The type of the one value that a preview cannot know yet."""

    def __repr__(self) -> str:
        """Readable form for messages."""
        return "unknown"

    def __deepcopy__(self, memo: dict[int, Any]) -> Unknown:
        """Itself: identity marks it, also in copies of a manifest."""
        return self


UNKNOWN: Final = Unknown()

# The SDKs write these keys of a CRD's schema with underscores, since properties with dashes have no attribute name.
_DASHED: Final = {
    key.replace("-", "_"): key
    for key in (
        "x-kubernetes-embedded-resource",
        "x-kubernetes-int-or-string",
        "x-kubernetes-list-map-keys",
        "x-kubernetes-list-type",
        "x-kubernetes-map-type",
        "x-kubernetes-preserve-unknown-fields",
        "x-kubernetes-validations",
    )
}
_UNDERSCORED: Final = {dashed: key for key, dashed in _DASHED.items()}


def plain(value: PropertyValue) -> Any:
    """Return the JSON value without secretness; what is unknown becomes UNKNOWN."""
    inner: Any = value.value
    if isinstance(inner, str):
        return UNKNOWN if inner == rpc.UNKNOWN else inner
    if isinstance(inner, Mapping):
        return plain_map(inner)
    if isinstance(inner, Sequence):
        return [plain(item) for item in inner]
    if isinstance(inner, float) and inner.is_integer():
        return int(inner)
    if inner is None or isinstance(inner, bool | float):
        return inner
    raise TypeError(f"a Kubernetes object cannot hold {type(inner).__name__}")


def plain_map(properties: Mapping[str, PropertyValue]) -> dict[str, Any]:
    """Return the properties of a resource as `plain` does for one value."""
    return {_DASHED.get(key, key): plain(value) for key, value in properties.items()}


def wrap(value: Any) -> PropertyValue:
    """Return the property value of a JSON value."""
    if value is UNKNOWN:
        return PropertyValue(rpc.UNKNOWN)
    if isinstance(value, dict):
        return PropertyValue(wrap_map(value))
    if isinstance(value, list):
        return PropertyValue([wrap(item) for item in value])
    if isinstance(value, int) and not isinstance(value, bool):
        return PropertyValue(float(value))
    return PropertyValue(value)


def wrap_map(values: Mapping[str, Any]) -> Properties:
    """Return the properties of a resource as `wrap` does for one value."""
    return {_UNDERSCORED.get(key, key): wrap(value) for key, value in values.items()}


def has_unknown(value: Any) -> bool:
    """Return whether anything in a plain value is not known yet."""
    if isinstance(value, dict):
        return any(has_unknown(item) for item in value.values())
    if isinstance(value, list):
        return any(has_unknown(item) for item in value)
    return value is UNKNOWN


def with_secrets_of(properties: Properties, source: Mapping[str, PropertyValue]) -> Properties:
    """Mark values as secret that are so in `source` at the same place, and all payloads of Secrets.

    A list that holds a secret becomes secret as a whole, since the API server may reorder it.

    Args:
        properties: what goes into the state or back to the program.
        source: the inputs or the state that know what is secret.
    """
    kind = properties.get("kind")
    if kind is not None and kind.value == "Secret":
        payloads = {key: properties[key].with_secret(True) for key in ("data", "stringData") if key in properties}
        return {**properties, **payloads}
    marked = dict(properties)
    for key, value in properties.items():
        known = source.get(key)
        if known is None:
            continue
        if isinstance(value.value, Mapping) and isinstance(known.value, Mapping) and not known.is_secret:
            inner = with_secrets_of(dict(value.value), known.value)
            marked[key] = PropertyValue(inner, is_secret=value.is_secret)
        elif known.contains_secret():
            marked[key] = value.with_secret(True)
    return marked
