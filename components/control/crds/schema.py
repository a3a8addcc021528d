"""OpenAPI schemas as CRDs have them, those of the configuration's policies among them."""

from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Any, Final, TypeAlias

from annotated_types import Ge, Le
from pydantic.fields import FieldInfo

from components.config.model import model_of
from components.config.nodes.policy import Policy, ResourceField
from components.config.values.quantities import LONGEST_SECONDS, is_duration

Schema: TypeAlias = dict[str, Any]

INT32: Final[Schema] = {"type": "integer", "format": "int32"}
INT64: Final[Schema] = {"type": "integer", "format": "int64"}
TIME: Final[Schema] = {"type": "string", "format": "date-time"}
SECONDS: Final[Schema] = {**INT64, "minimum": 0, "maximum": LONGEST_SECONDS}
_INT_OR_STRING: Final[Schema] = {
    "x-kubernetes-int-or-string": True,
    "anyOf": [{"type": "integer"}, {"type": "string"}],
}
_TYPES: Final[Mapping[Any, Schema]] = {
    bool: {"type": "boolean"},
    int: INT32,
    str: {"type": "string"},
    int | str: _INT_OR_STRING,
}


def described(kind: str, description: str) -> Schema:
    """A value of that type."""
    return {"type": kind, "description": description}


def text(length: int) -> Schema:
    """A text of so many characters at most."""
    return {"type": "string", "maxLength": length}


def checked(rule: str, message: str) -> Schema:
    """A rule in CEL, and the words of the API server when a value breaks it."""
    return {"rule": rule, "message": message}


def section(
    description: str,
    properties: Mapping[str, Schema],
    required: Iterable[str] = (),
    rules: Iterable[Schema] = (),
) -> Schema:
    """An object.

    Args:
        description: What it is; empty for none.
        properties: Its keys.
        required: Those that must be there.
        rules: Rules between them.
    """
    more = {"description": description, "required": [*required], "x-kubernetes-validations": [*rules]}
    return {"type": "object", **{key: value for key, value in more.items() if value}, "properties": dict(properties)}


def policy(model: type[Policy], more: Mapping[str, Schema], rules: Iterable[Schema] = ()) -> Schema:
    """A policy of the configuration, with its keys, types, defaults, limits and descriptions.

    Args:
        model: The policy.
        more: Key → keywords that the model lacks, such as the schema of a policy inside.
        rules: Rules between its keys.
    """
    fields = model.resource_fields()
    properties = {field.key: {**_setting(field), **more.get(field.key, {})} for field in fields}
    return section("", properties, [field.key for field in fields if field.info.is_required()], rules)


def limits(info: FieldInfo) -> Schema:
    """Return a field's `minimum` and `maximum`, as far as it has them."""
    least = [("minimum", limit.ge) for limit in info.metadata if isinstance(limit, Ge)]
    most = [("maximum", limit.le) for limit in info.metadata if isinstance(limit, Le)]
    return dict([*least, *most])


def _setting(field: ResourceField) -> Schema:
    info = field.info
    default = {} if info.is_required() or info.default is None else {"default": field.value(info.default)}
    return {"description": info.description, **_type(info), **limits(info), **default}


def _type(info: FieldInfo) -> Schema:
    kind: Any = info.annotation
    if is_duration(info):
        return SECONDS
    if model_of(kind):
        return {}
    if isinstance(kind, type) and issubclass(kind, Enum):
        return {"type": "string", "enum": [member.value for member in kind]}
    return _TYPES[kind]
