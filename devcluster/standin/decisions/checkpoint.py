"""An object in Pulumi's state: the live object, its inputs, and its field manager."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Final

from pulumi.provider.experimental.property_value import PropertyValue

from devcluster.standin.decisions import inputs, values
from devcluster.standin.decisions.kinds import Manifest
from devcluster.standin.decisions.values import Properties

_INPUTS: Final = "__inputs"
_API_VERSION: Final = "__initialApiVersion"
_MANAGER: Final = "__fieldManager"


@dataclasses.dataclass(frozen=True, slots=True)
class Checkpoint:
    """One object in Pulumi's state."""

    inputs: Manifest
    live: Manifest
    manager: str | None

    @classmethod
    def parse(cls, properties: Mapping[str, PropertyValue]) -> Checkpoint:
        """Takes the stored properties apart, without secretness."""
        stored = values.plain_map(properties)
        declared = stored.pop(_INPUTS, None) or {}
        manager = stored.pop(_MANAGER, None)
        stored.pop(_API_VERSION, None)
        return cls(inputs.normalized(declared), stored, manager)


def make(declared: Manifest, live: Manifest, source: Mapping[str, PropertyValue], manager: str) -> Properties:
    """Return the properties for the state: the live object, the inputs, and the field manager.

    Args:
        declared: the inputs.
        live: the object.
        source: the properties that know what is secret.
        manager: the field manager to apply under next time.
    """
    shown = {**live, "metadata": {key: value for key, value in live["metadata"].items() if key != "managedFields"}}
    state = values.with_secrets_of(values.wrap_map(shown), source)
    wrapped = values.with_secrets_of(values.wrap_map(declared), source)
    state[_INPUTS] = PropertyValue(wrapped)
    state[_API_VERSION] = values.wrap(declared.get("apiVersion", live.get("apiVersion")))
    state[_MANAGER] = values.wrap(manager)
    return state
