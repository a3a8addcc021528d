"""The base of all configuration models."""

from collections.abc import Mapping
from functools import cache
from types import UnionType
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Union, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel
from pydantic.config import JsonDict

_REQUIRED: Any = ...


class NotParsedError(AttributeError):
    """A rule read a field whose value is invalid or missing."""


class Model(BaseModel):
    """A section of the configuration: camelCase keys, no unknown key at any depth, frozen."""

    refused_keys: ClassVar[Mapping[str, str]] = {}
    """Keys that Kubernetes or Slurm has, and why there is none of that name here."""

    model_config = ConfigDict(extra="forbid", frozen=True, alias_generator=to_camel)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            if name in type(self).model_fields:
                raise NotParsedError(name)
            return super().__getattr__(name)

    @property
    def given(self) -> set[str]:
        """Keys that the user set, to a valid value or not."""
        fields = type(self).model_fields
        return {str(fields[name].alias) for name in self.model_fields_set if self.__dict__.get(name, ...) is not None}


def setting(description: str, *, unit: str = "", default: Any = _REQUIRED, factory: Any = None, **limits: Any) -> Any:
    """A field with its documentation.

    Args:
        description: What it decides, one sentence.
        unit: The unit of the value, where the type alone does not say it.
        default: The value when the key is missing; without one the key is required.
        factory: Makes the default of mutable and nested values.
        limits: Limits that pydantic checks, such as `ge`.
    """
    extra: JsonDict | None = {"unit": unit} if unit else None
    if factory is not None:
        return Field(default_factory=factory, description=description, json_schema_extra=extra, **limits)
    return Field(default, description=description, json_schema_extra=extra, **limits)


@cache
def model_of(annotation: Any) -> type[BaseModel] | None:
    """The model that a type is, or has in its list, union or annotation; None without one."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    if get_origin(annotation) in (list, Union, UnionType, Annotated):
        return next((model for part in get_args(annotation) if (model := model_of(part))), None)
    return None
