"""Differences between the last known live object and the new inputs, and their meaning."""

from __future__ import annotations

import dataclasses
import decimal
import enum
import re
from collections.abc import Iterator
from typing import Any

from devcluster.standin.decisions import kinds, replacement, values
from devcluster.standin.decisions.kinds import Manifest
from devcluster.standin.decisions.replacement import Path


class Change(enum.Enum):
    """Kind of a difference at one place."""

    ADD = "add"
    DELETE = "delete"
    UPDATE = "update"


@dataclasses.dataclass(frozen=True, slots=True)
class Difference:
    """One place that differs."""

    path: Path
    change: Change
    replaces: bool

    @property
    def written(self) -> str:
        """The path as Pulumi writes it: `spec.containers[0].image`."""
        return written(self.path)


def written(path: Path) -> str:
    """Return a path as Pulumi writes it."""
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        elif re.search(r'[."\[\]]', step):
            escaped = step.replace('"', '\\"')
            text += f'["{escaped}"]'
        else:
            text += f".{step}" if text else step
    return text


def differences(old: Manifest, new: Manifest, frozen: tuple[Path, ...]) -> list[Difference]:
    """Return every place where the new inputs differ from what is known to be live.

    Args:
        old: the live object, pruned to the places that were declared last time.
        new: the inputs, normalized.
        frozen: places that cannot change in place.
    """
    return [
        Difference(path, change, replacement.needs_new_object(path, value, frozen))
        for path, change, value in _walk((), old, new)
    ]


def _walk(path: Path, old: Any, new: Any) -> Iterator[tuple[Path, Change, Any]]:
    if isinstance(old, dict) and isinstance(new, dict):
        for key in sorted({*old, *new}):
            if key not in new:
                yield (*path, key), Change.DELETE, None
            elif key not in old:
                yield (*path, key), Change.ADD, new[key]
            else:
                yield from _walk((*path, key), old[key], new[key])
    elif isinstance(old, list) and isinstance(new, list):
        for index in range(max(len(old), len(new))):
            if index >= len(new):
                yield (*path, index), Change.DELETE, None
            elif index >= len(old):
                yield (*path, index), Change.ADD, new[index]
            else:
                yield from _walk((*path, index), old[index], new[index])
    elif new is values.UNKNOWN or not same(path, old, new):
        yield path, Change.UPDATE, new


_QUANTITY = re.compile(r"^([+-]?[0-9.]+)([eE][+-]?[0-9]+|[numkKMGTPE]i?|)$")
_SCALE: dict[str, int | decimal.Decimal] = {
    "": 1, "n": decimal.Decimal("1e-9"), "u": decimal.Decimal("1e-6"), "m": decimal.Decimal("1e-3"),
    "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "P": 10**15, "E": 10**18,
    "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "Pi": 2**50, "Ei": 2**60,
}  # fmt: skip
_QUANTITY_PARENTS = frozenset({
    "limits", "requests", "capacity", "hard", "overhead", "podFixed", "max", "min", "default", "defaultRequest",
    "maxLimitRequestRatio",
})  # fmt: skip
_QUANTITY_FIELDS = frozenset({"sizeLimit", "divisor", "averageValue"})


def same(path: Path, old: Any, new: Any) -> bool:
    """Return whether two values are equal for the API server: `1000m` CPUs are `1`.

    Args:
        path: their place, which decides whether a text is a quantity.
        old: one value.
        new: the other.
    """
    if old == new:
        return type(old) is type(new) or not (isinstance(old, bool) or isinstance(new, bool))
    names = [step for step in path if isinstance(step, str)]
    if not names or not (names[-1] in _QUANTITY_FIELDS or (len(names) > 1 and names[-2] in _QUANTITY_PARENTS)):
        return False
    amounts = _amount(old), _amount(new)
    return None not in amounts and amounts[0] == amounts[1]


def _amount(value: Any) -> decimal.Decimal | None:
    match = _QUANTITY.match(str(value)) if isinstance(value, str | int | float) else None
    if match is None:
        return None
    number, suffix = match.groups()
    try:
        if suffix[:1] in ("e", "E") and len(suffix) > 1 and suffix[1:2] != "i":
            return decimal.Decimal(number + suffix)
        return decimal.Decimal(number) * _SCALE[suffix]
    except (decimal.InvalidOperation, KeyError):
        return None


def must_delete_first(new: Manifest, live: Manifest) -> bool:
    """Return whether the old object must be deleted before the new one is created, since both share a name."""
    same_name = kinds.name_of(new) != "" and kinds.name_of(new) == kinds.name_of(live)
    return same_name and kinds.namespace_of(new) == kinds.namespace_of(live)
