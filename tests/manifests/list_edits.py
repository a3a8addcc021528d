"""Edits that somebody may make to a list; each returns another list, or None where it is not possible."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable
from typing import Any

OTHERS = ("UDP", "Egress", "get", "10.9.0.0/16", "/other", "2Gi", "other", "9", "metadata.uid")


def changed(value: Any, chance: random.Random) -> Any:
    """Another value of the same type."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + chance.randint(1, 5)
    if isinstance(value, str):
        return chance.choice([other for other in (*OTHERS, f"{value}x") if other != value])
    if isinstance(value, list):
        return [*value[1:]] if len(value) > 1 else [changed(item, chance) for item in value]
    key = chance.choice(sorted(value)) if value else None
    return value if key is None else {**value, key: changed(value[key], chance)}


def change_key(items: list[Any], keys: tuple[str, ...] | None, chance: random.Random) -> list[Any] | None:
    if keys is None:
        return None
    number = chance.randrange(len(items))
    key = chance.choice([key for key in keys if key in items[number]])
    return [*items[:number], {**items[number], key: changed(items[number][key], chance)}, *items[number + 1 :]]


def change_value(items: list[Any], keys: tuple[str, ...] | None, chance: random.Random) -> list[Any] | None:
    number = chance.randrange(len(items))
    item = items[number]
    if not isinstance(item, dict):
        return [*items[:number], changed(item, chance), *items[number + 1 :]]
    fields = sorted(item.keys() - {*(keys or ())})
    if not fields:
        return None
    field = chance.choice(fields)
    return [*items[:number], {**item, field: changed(item[field], chance)}, *items[number + 1 :]]


def add(items: list[Any], keys: tuple[str, ...] | None, chance: random.Random) -> list[Any]:
    item = copy.deepcopy(chance.choice(items))
    if keys:
        # Some of what is not its key has to be unique as well, such as a port's name.
        others = [key for key in ("name", "nodePort") if key in item and chance.random() < 0.5]
        for key in {chance.choice([key for key in keys if key in item]), *others}:
            item[key] = changed(item[key], chance)
    number = chance.randint(0, len(items))
    return [*items[:number], item if keys else changed(item, chance), *items[number:]]


def repeat(items: list[Any], _: tuple[str, ...] | None, chance: random.Random) -> list[Any]:
    return [*items, copy.deepcopy(chance.choice(items))]


def remove(items: list[Any], _: tuple[str, ...] | None, chance: random.Random) -> list[Any]:
    number = chance.randrange(len(items))
    return [*items[:number], *items[number + 1 :]]


def reorder(items: list[Any], _: tuple[str, ...] | None, chance: random.Random) -> list[Any] | None:
    found = chance.sample(items, len(items))
    return found if found != items else None


Edit = Callable[[list[Any], tuple[str, ...] | None, random.Random], list[Any] | None]
EDITS: tuple[Edit, ...] = (change_key, change_value, add, repeat, remove, reorder)
