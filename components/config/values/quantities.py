"""Quantities: memory, CPUs, durations, Slurm's times, whole numbers."""

import datetime
import math
import re
import string
from collections.abc import Callable
from typing import Annotated, Any, Final, get_args, get_origin

from pydantic import AfterValidator, BeforeValidator
from pydantic.fields import FieldInfo

from components.config.values.validation import matching, text_of, wrong
from contract import policies

_MEMORY = re.compile(r"([0-9]+)(Ki|Mi|Gi|Ti|Pi|k|M|G|T|P)")
_LARGEST_QUANTITY: Final = 2**63
"""Kubernetes takes a larger quantity for this one."""
_FACTOR: Final[dict[str, int]] = {
    **{f"{prefix}i": 1024**power for power, prefix in enumerate("KMGTP", 1)},
    **{prefix: 1000**power for power, prefix in enumerate("kMGTP", 1)},
}
_CPU = re.compile(r"([0-9]+(?:\.[0-9]{1,3})?)(m?)")
PERCENTAGE: Final = "([1-9][0-9]?|100)%"
"""1% to 100%, as a regular expression."""
_DURATION = re.compile(r"[1-9][0-9]*[smh]")
LONGEST_SECONDS: Final = 10 * 365 * 24 * 3600
"""The longest duration: beyond it, times that the operator adds up would leave the calendar."""
SLURM_TIME = re.compile(r"[0-9]+(:[0-9]{1,2}){0,2}|[0-9]+-[0-9]{1,2}(:[0-9]{1,2}){0,2}|UNLIMITED")
_MOST_SECONDS: Final = 2**31 - 60
"""The longest time that Slurm reads right (time_str2mins of parse_time.c): it would take a longer one for another."""
_LARGEST_AGE: Final = 65_535
_WANTED_TIME: Final = "a Slurm time such as 7-00:00:00, 12:00:00, 90 (minutes) or UNLIMITED"


def memory_bytes(quantity: str) -> int:
    """Bytes of a Kubernetes memory quantity such as `64Gi`.

    Raises:
        ValueError: The text is no such quantity, or more than Kubernetes counts.
    """
    match = _MEMORY.fullmatch(quantity)
    if not match:
        raise ValueError(quantity)
    amount = int(match[1]) * _FACTOR[match[2]]
    if amount >= _LARGEST_QUANTITY:
        raise ValueError(quantity)
    return amount


def memory_mib(quantity: str) -> int:
    """Whole MiB of a Kubernetes memory quantity, rounded down."""
    return memory_bytes(quantity) // 1024**2


def cpu_millis(quantity: str) -> int:
    """Thousandths of a CPU of a Kubernetes CPU quantity such as `2` or `500m`.

    Raises:
        ValueError: The text is no such quantity.
    """
    match = _CPU.fullmatch(quantity)
    if not match or (match[2] and "." in match[1]):
        raise ValueError(quantity)
    return int(match[1]) if match[2] else round(float(match[1]) * 1000)


def duration_seconds(duration: str) -> int:
    """Seconds of a duration such as `30m`."""
    return int(duration[:-1]) * {"s": 1, "m": 60, "h": 3600}[duration[-1]]


def slurm_seconds(time: str) -> float:
    """Return the seconds of a Slurm time such as `7-00:00:00`; infinite if it is UNLIMITED."""
    if time == "UNLIMITED":
        return math.inf
    days, dash, rest = time.rpartition("-")
    parts = [int(part) for part in rest.split(":")]
    if dash:
        hours, minutes, seconds = [*parts, 0, 0][:3]
    else:
        hours, minutes, seconds = parts if len(parts) == 3 else [0, *parts, 0][:3]
    return ((int(days or 0) * 24 + hours) * 60 + minutes) * 60 + seconds


def is_slurm_time(text: str) -> bool:
    """Return whether Slurm reads a text as the time that it says."""
    return SLURM_TIME.fullmatch(text) is not None and (text == "UNLIMITED" or slurm_seconds(text) <= _MOST_SECONDS)


def is_duration(field: FieldInfo) -> bool:
    """Return whether the type of a field is Duration, or Duration and None."""
    alternatives = (part for part in get_args(field.annotation) if get_origin(part) is Annotated)
    return _IN_TIME_UNITS in (*field.metadata, *(check for part in alternatives for check in get_args(part)))


def positive(measure: Callable[[str], int], want: str) -> AfterValidator:
    """A check that a measure of the text is above zero; ``want`` completes "got …; want …"."""

    def check(value: str) -> str:
        try:
            amount = measure(value)
        except ValueError:
            raise wrong(want) from None
        if amount <= 0:
            raise wrong(want)
        return value

    return AfterValidator(check)


def _ends_in_time(value: str) -> str:
    """The same text, if it is a duration of ten years at most."""
    if duration_seconds(value) > LONGEST_SECONDS:
        raise wrong(f"at most {LONGEST_SECONDS // 3600}h, which is ten years")
    return value


def _is_a_day(value: str) -> str:
    """The same text if its date, where it has one, is in the calendar."""
    try:
        if value.endswith("Z"):
            datetime.datetime.fromisoformat(value)
    except ValueError:
        raise wrong("a date of the calendar, such as 2026-12-05T03:00Z") from None
    return value


def _is_read_right(value: str) -> str:
    """The same text, if Slurm can count its seconds."""
    if not is_slurm_time(value):
        raise wrong(f"at most {_MOST_SECONDS // 86_400} days, which Slurm can count, or UNLIMITED")
    return value


def _is_kept_as_long(value: str) -> str:
    """The same text, if slurmdbd reads it right: the number's higher bits are its unit (SLURMDB_PURGE_BASE)."""
    if int(value.rstrip(string.ascii_lowercase)) > _LARGEST_AGE:
        raise wrong(f"at most {_LARGEST_AGE}, or a longer unit: slurmdbd would purge records much earlier")
    return value


def _whole_number(value: Any) -> Any:
    # Python takes `true` for 1, and pydantic takes 2.0 for a whole number. No user means that.
    # Text may be a number, too. Of `0-5`, pydantic makes -5.
    if isinstance(value, bool | float) or (isinstance(value, str) and not re.fullmatch(r"-?[0-9]+", value)):
        raise wrong("a whole number")
    return value


def nodes_or_percentage(most: int) -> BeforeValidator:
    """A check for a number of nodes from 1 to `most`, or a percentage such as 25%."""

    def check(value: Any) -> Any:
        counts = type(value) is int and 1 <= value <= most
        if counts or (isinstance(value, str) and re.fullmatch(PERCENTAGE, value)):
            return value
        raise wrong(f"1 or more nodes, {most} at most, or a percentage from 1% to 100%")

    return BeforeValidator(check)


Memory = Annotated[
    str, text_of("a Kubernetes quantity such as 64Gi"), positive(memory_bytes, "a Kubernetes quantity such as 64Gi")
]
SlurmMemory = Annotated[
    str,
    text_of("a Kubernetes quantity such as 64Gi, of 1Mi or more"),
    positive(memory_mib, "a Kubernetes quantity such as 64Gi, of 1Mi or more"),
]
"""Memory that Slurm counts in MiB; it takes 0 for no limit."""
Cpu = Annotated[
    str,
    text_of("a Kubernetes CPU quantity such as 2 or 500m"),
    positive(cpu_millis, "a Kubernetes CPU quantity such as 2 or 500m"),
]
PageSize = Annotated[str, matching(r"64Ki|2Mi|32Mi|512Mi|1Gi|16Gi", "the size of a huge page such as 2Mi or 1Gi")]
_IN_TIME_UNITS: Final = matching(_DURATION, "a duration such as 90s, 30m or 2h")
Duration = Annotated[str, _IN_TIME_UNITS, AfterValidator(_ends_in_time)]
_WINDOW_START: Final = (
    f"a weekday ({', '.join(policies.WEEKDAYS)}) and a time of UTC, such as Sun 03:00, or one date, such as "
    "2026-12-05T03:00Z"
)
WindowStart = Annotated[
    str, text_of(_WINDOW_START), matching(policies.WINDOW_START, _WINDOW_START), AfterValidator(_is_a_day)
]
SlurmTime = Annotated[str, text_of(_WANTED_TIME), matching(SLURM_TIME, _WANTED_TIME), AfterValidator(_is_read_right)]
SlurmAge = Annotated[
    str,
    matching(
        r"[1-9][0-9]*(hours|days|months)", "a number of hours, days or months as Slurm writes it, such as 12months"
    ),
    AfterValidator(_is_kept_as_long),
]
WholeNumber = Annotated[int, BeforeValidator(_whole_number)]
