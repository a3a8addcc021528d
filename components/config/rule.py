"""Rules between fields: a section checks values that are each valid alone."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from functools import cache
from typing import Any, Final, TypeVar

WRITTEN: Final = object()
"""Stands for the value as the user wrote it."""

_Row = TypeVar("_Row")
_Rule = TypeVar("_Rule", bound=Callable[..., "Iterator[Violation]"])


class Violation:
    """A value that does not fit others.

    Args:
        path: Keys and positions that lead to the value from where its rule stands.
        want: What would be right; completes "got …; want …".
        got: What to show in place of the value.
    """

    def __init__(self, *path: str | int, want: str, got: Any = WRITTEN) -> None:
        self.path = path
        self.want = want
        self.got = got

    def inside(self, *prefix: str | int) -> "Violation":
        """The same violation with the path from further out."""
        return Violation(*prefix, *self.path, want=self.want, got=self.got)


def rule(method: _Rule) -> _Rule:
    """Marks a method of a model as a rule. It runs on validated values, and is skipped if it reads an invalid field."""
    method.__dict__["is_rule"] = True
    return method


@cache
def rules_of(model: type) -> tuple[Callable[[Any], Iterator[Violation]], ...]:
    """The rules of a model, in their order."""
    return tuple(member for part in model.__mro__ for member in vars(part).values() if hasattr(member, "is_rule"))


def one_of(what: str, known: Iterable[str]) -> str:
    """Say what would be right in place of a name that nothing has.

    Args:
        what: Whose name it has to be, such as "the name of a node set".
        known: The names that there are.
    """
    return f"{what}; there are: {', '.join(known) or 'none'}"


class ValidRows(list[Any]):
    """The valid elements of a list of which others are wrong.

    Args:
        rows: Position in the list → element.
        written: Elements of the list, with those that are wrong.
    """

    def __init__(self, rows: Mapping[int, Any], written: int) -> None:
        super().__init__(rows.values())
        self.positions = list(rows)
        self.written = written


def number_written(rows: Sized) -> int:
    """Return how many elements of a list or map the user wrote: wrong ones are told of by themselves, and count."""
    return int(getattr(rows, "written", len(rows)))


def is_whole(rows: Sized) -> bool:
    """Return whether all elements of a list or map are valid: a rule that looks one up has to see them all."""
    return number_written(rows) == len(rows)


def first_written(rows: Sequence[_Row]) -> _Row | None:
    """Return the first element that the user wrote; None if it is wrong, or there is none."""
    is_valid = not isinstance(rows, ValidRows) or rows.positions[:1] == [0]
    return rows[0] if rows and is_valid else None


def rows_with(rows: Iterable[_Row], *fields: str) -> list[tuple[int, _Row]]:
    """Return the rows in which these fields are valid, with their positions: a wrong row hides no error of others.

    A rule that looks a name up reads all rows: while one name is wrong, nobody knows whether it is the one.
    """
    return [(index, row) for index, row in enumerate(rows) if all(hasattr(row, field) for field in fields)]


def named_twice(rows: Sequence[Any], at: str, key: str = "name") -> Iterator[Violation]:
    """Violations by rows of a list that repeat the name of an earlier row.

    Args:
        rows: Models with a field `key`.
        at: Key of the list.
        key: Key of the name.
    """
    first: dict[str, int] = {}
    for index, row in enumerate(rows):
        name = getattr(row, key, None)
        if name in first:
            yield Violation(at, index, key, want=f"another name: {at}[{first[name]}] has this one")
        elif name is not None:
            first[name] = index
