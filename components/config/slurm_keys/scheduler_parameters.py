"""SchedulerParameters of slurm.conf: numbers that Slurm would replace by its default, or whose unit it would drop."""

import re
from typing import Final

LONGEST_WINDOW_MINUTES: Final = 43_200
_NUMBER: Final = re.compile("[0-9]{1,10}")
_RANGES: Final = {
    "bf_interval": (1, 10_800),
    "bf_job_part_count_reserve": (0, 100_000),
    "bf_max_job_array_resv": (0, 1_000),
    "bf_max_job_start": (0, 10_000),
    "bf_max_job_test": (1, 1_000_000),
    "bf_max_time": (1, 3_600),
    "bf_min_age_reserve": (0, 2_592_000),
    "bf_min_prio_reserve": (1, 4_294_967_295),
    "bf_node_space_size": (2, 2_000_000),
    "bf_resolution": (1, 3_600),
    "bf_window": (1, LONGEST_WINDOW_MINUTES),
    "bf_yield_interval": (1, 10_000_000),
    "bf_yield_rpc_cnt": (0, 200),
    "bf_yield_rpc_count": (0, 200),
    "bf_yield_sleep": (1, 10_000_000),
    "max_rpc_cnt": (0, 1_000),
    "max_rpc_count": (0, 1_000),
}
"""Word → its least and most number (_load_config of backfill.c). The config dry run ends before backfill reads them."""
_OFF: Final = ("bf_interval", "-1")


def refusal(value: str) -> str:
    """Return what the first number that is out of range has to be; empty if none is."""
    for item in value.split(","):
        word, _, number = item.partition("=")
        least, most = _RANGES.get(word.lower(), (None, None))
        if least is None or most is None or (word.lower(), number) == _OFF:
            continue
        if not (_NUMBER.fullmatch(number) and least <= int(number) <= most):
            return f"{word} from {least} to {most} without a unit: Slurm would read another number"
    return ""
