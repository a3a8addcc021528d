"""Models of a partly invalid configuration, so that rules run on its valid parts."""

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from functools import cache
from types import UnionType
from typing import Annotated, Any, TypeVar, Union, cast, get_args, get_origin

from pydantic import TypeAdapter, ValidationError
from pydantic.fields import FieldInfo

from components.config.checking.accounting_rules import ON_ACCOUNTING
from components.config.checking.between_sections import ON_CONFIG, ON_NODE_SET
from components.config.checking.partition_rules import ON_PARTITION
from components.config.checking.problems import NOTHING, Problem, hides_secret
from components.config.model import Model, NotParsedError, model_of
from components.config.program import Config
from components.config.rule import WRITTEN, ValidRows, Violation, rules_of

_Model = TypeVar("_Model", bound=Model)


class _Entries(dict[Any, Any]):
    """The valid entries of a map. It also contains the keys whose values are invalid: they were given."""

    def __init__(self, entries: Mapping[Any, Any], wrong: Collection[Any]) -> None:
        super().__init__(entries)
        self._wrong = frozenset(wrong)
        self.written = len(entries) + len(self._wrong)

    def __contains__(self, key: object) -> bool:
        return key in self._wrong or super().__contains__(key)


def parsed(model: type[_Model], raw: Any) -> _Model:
    """A model with the valid fields of `raw`. Reading another field raises NotParsedError."""
    given = raw if isinstance(raw, Mapping) else {}
    values: dict[str, Any] = {}
    fields = [(name, str(info.alias), info) for name, info in model.model_fields.items()]
    for _, alias, info in fields:
        if alias in given:
            with suppress(NotParsedError):
                values[alias] = _value(_type_of(info), given[alias])
        elif not info.is_required():
            values[alias] = _default(info)
    built = model.model_construct({name for name, alias, _ in fields if alias in given}, **values)
    for name, alias, _ in fields:
        if alias not in values:
            built.__dict__.pop(name, None)
    return built


def _default(field: FieldInfo) -> Any:
    """Return a field's default. FieldInfo.get_default would parse the signature of its factory each time."""
    make = field.default_factory
    return cast("Callable[[], Any]", make)() if make else field.default


def _type_of(field: FieldInfo) -> Any:
    """The type of a field, with its limits."""
    return Annotated[field.annotation, *field.metadata] if field.metadata else field.annotation


def _value(annotation: Any, raw: Any) -> Any:
    """The valid part of a value.

    Raises:
        NotParsedError: No part of it is valid.
    """
    with suppress(ValidationError):
        return _adapter(annotation).validate_python(raw)
    if isinstance(raw, list) and (row := _inside(annotation, list)):
        valid_rows = {index: value for index, part in enumerate(raw) for value in _right(row[0], part)}
        return ValidRows(valid_rows, len(raw))
    if isinstance(raw, Mapping) and (entry := _inside(annotation, dict)):
        keys = {key: value for key, part in raw.items() for value in _right(entry[1], part)}
        valid = {name: value for key, value in keys.items() for name in _right(entry[0], key)}
        return _Entries(valid, raw.keys() - keys.keys())
    model = None if _inside(annotation, list) else model_of(annotation)
    if model is None or not issubclass(model, Model) or not isinstance(raw, Mapping):
        raise NotParsedError
    return parsed(model, raw)


@cache
def _adapter(annotation: Any) -> TypeAdapter[Any]:
    """Return a type's validator, cached: building one takes longer than using it."""
    return TypeAdapter(annotation)


def _right(annotation: Any, raw: Any) -> Iterator[Any]:
    """The valid part of the value, if there is any."""
    with suppress(NotParsedError):
        yield _value(annotation, raw)


@cache
def _inside(annotation: Any, container: type) -> tuple[Any, ...]:
    """The element types of a list or dict, which may be optional, without annotations; empty for another type."""
    if get_origin(annotation) is Annotated:
        return _inside(get_args(annotation)[0], container)
    if get_origin(annotation) in (Union, UnionType):
        return next((types for part in get_args(annotation) if (types := _inside(part, container))), ())
    return get_args(annotation) if get_origin(annotation) is container else ()


def problems(config: Config, raw: Mapping[str, Any]) -> list[Problem]:
    """Violations of the rules by a configuration, whole or partial.

    Args:
        config: Its valid part.
        raw: All of it, as the user wrote it.
    """
    return [_problem(config, raw, violation) for violation in _all_violations(config)]


def _all_violations(config: Config) -> Iterator[Violation]:
    yield from _violations(config)
    for rule in (*ON_CONFIG, *ON_ACCOUNTING):
        with suppress(NotParsedError):
            yield from rule(config)
    for index, node_set in enumerate(getattr(config, "node_sets", ())):
        for rule_on_set in ON_NODE_SET:
            with suppress(NotParsedError):
                for violation in rule_on_set(config, node_set):
                    yield violation.inside("nodeSets", index)
    for index, partition in enumerate(getattr(config, "partitions", ())):
        for rule_on_partition in ON_PARTITION:
            with suppress(NotParsedError):
                for violation in rule_on_partition(config, partition):
                    yield violation.inside("partitions", index)


def _violations(model: Model) -> Iterator[Violation]:
    """Violations of the rules of a model and of the models inside it."""
    for rule in rules_of(type(model)):
        with suppress(NotParsedError):
            yield from rule(model)
    for name, info in type(model).model_fields.items():
        value = model.__dict__.get(name)
        rows = [((index,), row) for index, row in enumerate(value)] if isinstance(value, list) else []
        for position, part in [((), value), *rows]:
            for violation in _violations(part) if isinstance(part, Model) else ():
                yield violation.inside(str(info.alias), *position)


def _problem(config: Config, raw: Mapping[str, Any], violation: Violation) -> Problem:
    """A violation with the user's own key and value."""
    path: list[str | int] = []
    value: Any = config
    written: Any = raw
    for part in violation.path:
        # Positions are those of the user's list: the valid elements alone make a shorter one.
        path.append(value.positions[part] if isinstance(value, ValidRows) and isinstance(part, int) else part)
        value, written = _entry(value, part), _entry(written, path[-1])
    got = violation.got
    if got is WRITTEN:
        # The value at fault may be a default.
        got = value if written is None and isinstance(value, str | int) else written
    if got is None:
        got = NOTHING
    elif hides_secret(Config, path):
        got = "[secret]"
    return Problem(tuple(path), got, violation.want)


def _entry(value: Any, part: str | int) -> Any:
    """The value at a key or position; None where there is none."""
    if isinstance(value, Model):
        names = (name for name, info in type(value).model_fields.items() if info.alias == part)
        return value.__dict__.get(next(names, ""))
    with suppress(KeyError, IndexError, TypeError):
        return value[part]
    return None
