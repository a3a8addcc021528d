"""Says what is wrong with a configuration, in the words of the person who wrote it."""

import difflib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, get_args

from pydantic import BaseModel, SecretStr, ValidationError
from pydantic_core import ErrorDetails

from components.config.model import Model, model_of
from components.config.values.validation import WANT
from contract import names

NOTHING: Final = object()
"""Shown as the value of a missing key."""

_SHOWN_CHARACTERS: Final = 80
_WANT_BY_TYPE: Final = {
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "int_from_float": "a whole number",
    "string_type": "text",
    "string_pattern_mismatch": "one of the values in its description",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "list_type": "a list",
    "dict_type": "a map of keys to values",
    "model_type": "a map of keys to values",
    "model_attributes_type": "a map of keys to values",
}


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong."""

    path: tuple[str | int, ...]
    got: Any
    want: str

    def __str__(self) -> str:
        return f"{path_text(self.path)}: got {_shown(self.got)}; want {self.want}"


def path_text(path: Iterable[str | int]) -> str:
    """A path as it is typed after `pulumi config --path`, such as pulumi-slurm:nodeSets[1].resources.memory."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}"
    return f"{names.PROJECT}:{text.removeprefix('.')}"


def _shown(value: Any) -> str:
    if value is NOTHING:
        return "nothing"
    if isinstance(value, str):
        return _cut(repr(value))
    try:
        return _cut(json.dumps(value))
    except TypeError:
        return _cut(repr(value))


def _cut(text: str) -> str:
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}…"


def _field(model: type[BaseModel], path: Iterable[str | int]) -> tuple[type[BaseModel] | None, Any]:
    """The model and the field's annotation that a path leads to; None where it leaves the models."""
    inside: type[BaseModel] | None = model
    annotation: Any = model
    for part in path:
        if isinstance(part, int):
            continue
        if inside is None:
            return None, None
        info = next((info for info in inside.model_fields.values() if info.alias == part), None)
        if info is None:
            return None, None
        annotation = info.annotation
        inside = model_of(annotation)
    return inside, annotation


def hides_secret(model: type[BaseModel], path: Iterable[str | int]) -> bool:
    """Return whether the value at this path must never be shown."""
    return _holds_secret(_field(model, path)[1])


@cache
def _holds_secret(annotation: Any) -> bool:
    """Return whether a type is SecretStr, or has it in its union, annotation or fields."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        parts: list[Any] = [info.annotation for info in annotation.model_fields.values()]
        return any(map(_holds_secret, parts))
    return annotation is SecretStr or any(_holds_secret(part) for part in get_args(annotation))


def _known_keys(model: type[BaseModel], path: tuple[str | int, ...]) -> str:
    inside = _field(model, path[:-1])[0]
    if inside is not None and issubclass(inside, Model) and path[-1] in inside.refused_keys:
        return f"nothing: {inside.refused_keys[str(path[-1])]}"
    known = [info.alias or name for name, info in inside.model_fields.items()] if inside else []
    close = difflib.get_close_matches(str(path[-1]), known, n=1)
    hint = f"did you mean {close[0]}? " if close else ""
    return f"no such key ({hint}known here: {', '.join(known)})"


def _description(model: type[BaseModel], path: tuple[str | int, ...]) -> str:
    inside = _field(model, path[:-1])[0]
    fields = inside.model_fields.values() if inside else ()
    return next((info.description or "" for info in fields if info.alias == path[-1]), "")


def _want(error: ErrorDetails, model: type[BaseModel], path: tuple[str | int, ...]) -> str:
    context: Mapping[str, Any] = error.get("ctx", {})
    match error["type"]:
        case "extra_forbidden":
            return _known_keys(model, path)
        case "missing":
            return f"this key: {_description(model, path)}"
        case "enum":
            return f"one of {context['expected']}"
        case "greater_than_equal":
            return f"{context['ge']} or more"
        case "less_than_equal":
            return f"{context['le']} or less"
        case "too_short":
            return f"at least {context['min_length']} of them"
        case "string_too_long":
            return f"at most {context['max_length']} characters"
        case kind if kind == WANT:
            return str(context["want"])
        case "string_pattern_mismatch":
            return _description(model, path)
        case kind:
            return _WANT_BY_TYPE.get(kind, error["msg"])


def from_validation(failure: ValidationError, model: type[BaseModel]) -> list[Problem]:
    """Pydantic's errors as problems, without the values of secrets."""
    problems = []
    for error in failure.errors(include_url=False):
        path = tuple(part for part in error["loc"] if part != "[key]")
        got = NOTHING if error["type"] == "missing" else error["input"]
        if isinstance(got, SecretStr) or hides_secret(model, path):
            got = "[secret]"
        problems.append(Problem(path, got, _want(error, model, path)))
    return problems
