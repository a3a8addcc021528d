"""Policies: sections of a node set that its NodeSet resource has too."""

from dataclasses import dataclass
from enum import Enum
from typing import Any

from pydantic.fields import FieldInfo

from components.config.model import Model
from components.config.values.quantities import duration_seconds, is_duration


@dataclass(frozen=True, slots=True)
class ResourceField:
    """A setting as the resource has it. A duration is there a number of seconds.

    Attributes:
        name: Name of the model's field.
        info: That field.
    """

    name: str
    info: FieldInfo

    @property
    def key(self) -> str:
        """Its key in the resource."""
        return f"{self.info.alias}Seconds" if is_duration(self.info) else str(self.info.alias)

    def value(self, configured: Any) -> Any:
        """The resource's value for a configured one."""
        if isinstance(configured, Policy):
            return configured.policy
        if isinstance(configured, Enum):
            return configured.value
        return duration_seconds(configured) if is_duration(self.info) else configured


class Policy(Model):
    """A section that the operator reads in the NodeSet."""

    @classmethod
    def resource_fields(cls) -> list[ResourceField]:
        """The settings in the order of the model."""
        return [ResourceField(name, info) for name, info in cls.model_fields.items()]

    @property
    def policy(self) -> dict[str, Any]:
        """The policy as the resource has it, without the settings that are None."""
        values = ((field, getattr(self, field.name)) for field in self.resource_fields())
        return {field.key: field.value(value) for field, value in values if value is not None}
