"""Errors and checks of single values; an error's text completes "got …; want …"."""

import re
from typing import Any, Final

from pydantic import AfterValidator, BeforeValidator
from pydantic_core import PydanticCustomError

WANT: Final = "want"
"""Type of the validation errors raised here; their message completes "want …"."""


def wrong(want: str) -> PydanticCustomError:
    """An error whose text completes "got …; want …"."""
    return PydanticCustomError(WANT, "{want}", {"want": want})


def matching(pattern: str | re.Pattern[str], want: str) -> AfterValidator:
    """A check that the whole text fits a pattern; ``want`` completes "got …; want …".

    In a pattern that is text, digits are 0 to 9: neither Slurm nor Kubernetes reads those of other scripts.
    """
    compiled = re.compile(pattern, re.ASCII) if isinstance(pattern, str) else pattern

    def check(value: str) -> str:
        if not compiled.fullmatch(value):
            raise wrong(want)
        return value

    return AfterValidator(check)


def text_of(want: str) -> BeforeValidator:
    """Accepts a number as text, since YAML reads an unquoted "2" as the number 2."""

    def check(value: Any) -> Any:
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise wrong(want)
        return str(value)

    return BeforeValidator(check)
