"""Schedules: cron lines, whose times are UTC."""

import datetime
import itertools
from typing import Annotated, Final

from cronsim import CronSim, CronSimError
from pydantic import AfterValidator

from components.config.values.validation import matching, text_of, wrong

LONGEST_SCHEDULE: Final = 256
SCHEDULE: Final = " ".join([r"[-*/,0-9]+"] * 3 + [r"[-*/,0-9A-Za-z]+"] * 2)
"""Five fields as a regular expression; their numbers and names are checked beside it."""
_WANTED: Final = (
    "a cron line of five fields (minute, hour, day, month, weekday) in UTC, such as 0 3 * * * for each day at 03:00"
)
_A_MONDAY: Final = datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC)
_DAY: Final = datetime.timedelta(days=1)


def least_pause_seconds(schedule: str) -> int:
    """Return the shortest time between two ticks of a schedule that is met each day."""
    minute, hour, *_ = schedule.split()
    ticks = CronSim(f"{minute} {hour} * * *", _A_MONDAY)
    first = next(ticks)
    day = itertools.takewhile(lambda tick: tick <= first + _DAY, ticks)
    return int(min(after - before for before, after in itertools.pairwise([first, *day])).total_seconds())


def _has_ticks(value: str) -> str:
    """The same text, if it has ticks."""
    try:
        ticks = next(CronSim(value, _A_MONDAY), None)
    except CronSimError as error:
        raise wrong(f"{_WANTED}; this one has a {str(error).lower()}") from None
    if ticks is None or len(value) > LONGEST_SCHEDULE:
        raise wrong(_WANTED)
    return value


Schedule = Annotated[str, text_of(_WANTED), matching(SCHEDULE, _WANTED), AfterValidator(_has_ticks)]
