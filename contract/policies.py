"""Default policies of the stack's config, and of a NodeSet or pod that sets none."""

from dataclasses import dataclass
from typing import Final

MAX_UNAVAILABLE: Final = 1
"""Nodes that an update may take out of service at once."""
WEEKDAYS: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
"""Names of days in the start of a weekly window."""
_CLOCK: Final = "([01][0-9]|2[0-3]):[0-5][0-9]"
WINDOW_START: Final = f"({'|'.join(WEEKDAYS)}) {_CLOCK}|[0-9]{{4}}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])T{_CLOCK}Z"
"""Start of a window for updates, as a regular expression: each week, or once. Both are UTC."""
LEAST_WINDOW_SECONDS: Final = 600
"""A shorter window would end before the first slurmd that it lets go is back."""
WEEK_SECONDS: Final = 7 * 24 * 3600
MOST_DRAINS_KEPT: Final = 1000
"""Drains of others that a NodeSet's status keeps. More are nobody's to lift but a person's once Slurm replaces them."""
LEAST_FREE_PERCENT: Final = 2
"""Space that must stay free on a file system for health checks to pass, in percent of its size."""
TMP_MIB: Final = 1024
"""Size of a node's /tmp; /dev/shm is as large."""
KEEP_ROOTS: Final = 3
"""Roots of the jail that stay on the volume, those in use among them."""
LDAP_SECONDS: Final = 300
"""Time between two queries to an LDAP directory."""


@dataclass(frozen=True, slots=True)
class ReactionPolicy:
    """Repairs of unfit nodes: which, after how long, and how many; see components/config/nodes/reactions.py."""

    restart: bool = False
    replace: bool = False
    after_seconds: int = 300
    attempts: int = 2
    at_once: int = 1
    per_hour: int = 4
    breaker_percent: int = 50
    dry_run: bool = False
    approval: bool = False
