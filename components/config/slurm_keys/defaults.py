"""Values of Slurm's keys that this program chooses for a site, each with its source; options replace any of them."""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from components.config.slurm_keys.parameter_words import LONGEST_WINDOW_MINUTES
from components.config.slurm_keys.slurm_options import LIST_KEYS

_LARGE_TABLE: Final = 1024
"""MaxNodeCount of clusters up to 512 nodes; larger ones have more."""
_LISTEN_BACKLOG: Final = 4096
"""Linux' net.core.somaxconn: connections beyond it would not reach slurmctld."""
_DAY_MINUTES: Final = 1440
_COARSEST_SECONDS: Final = 600

_MANUAL: Final = "slurm.conf(5)"
_BIG_SYSTEMS: Final = "big_sys.html"
_HIGH_THROUGHPUT: Final = "high_throughput.html"


@dataclass(frozen=True, slots=True)
class Facts:
    """Facts that values depend on.

    Attributes:
        max_node_count: MaxNodeCount, the room for nodes: twice their number, as a power of two.
        longest_minutes: The longest time limit of a partition that has one; 0 if none has.
    """

    max_node_count: int
    longest_minutes: int

    @property
    def is_large(self) -> bool:
        """Return whether there may be more than 512 nodes."""
        return self.max_node_count > _LARGE_TABLE

    @property
    def window_minutes(self) -> int:
        """Return how far backfill looks ahead."""
        return min(max(self.longest_minutes, _DAY_MINUTES), LONGEST_WINDOW_MINUTES)


@dataclass(frozen=True, slots=True)
class Chosen:
    """A value that this program chooses.

    Attributes:
        key: Key of slurm.conf or cgroup.conf.
        word: Word of the list that the key takes; empty if the key has one value.
        value: The value for these facts; empty for a word that has none; None to leave it to Slurm.
        when: When and what it is, in words.
        slurms: Slurm's own default.
        source: Page of SchedMD's that the choice rests on.
        reason: Why.
    """

    key: str
    word: str
    value: Callable[[Facts], str | None]
    when: str
    slurms: str
    source: str
    reason: str

    def item(self, facts: Facts) -> str | None:
        """Return the value as it stands in the file; a list's item with its word."""
        value = self.value(facts)
        if value is None or not self.word:
            return value
        return f"{self.word}={value}" if value else self.word


def _always(value: str) -> Callable[[Facts], str]:
    return lambda _: value


def _if_large(value: Callable[[Facts], str]) -> Callable[[Facts], str | None]:
    return lambda facts: value(facts) if facts.is_large else None


def _window(facts: Facts) -> str | None:
    return str(facts.window_minutes) if facts.window_minutes > _DAY_MINUTES else None


def _resolution(facts: Facts) -> str | None:
    """Seconds that divide the window into as many steps as Slurm's own day has."""
    if facts.window_minutes <= _DAY_MINUTES:
        return None
    return str(min(60 * math.ceil(facts.window_minutes / _DAY_MINUTES), _COARSEST_SECONDS))


_LARGE: Final = "with more than 512 nodes"
_LONG: Final = "if a partition has a time limit over a day"

SLURM_CONF: Final = (
    Chosen(
        key="MessageTimeout",
        word="",
        value=_if_large(_always("30")),
        when=f"30 {_LARGE}",
        slurms="10",
        source=_HIGH_THROUGHPUT,
        reason="a slurmctld that serves many nodes answers late; small clusters find a lost daemon sooner",
    ),
    Chosen(
        key="TCPTimeout",
        word="",
        value=_if_large(_always("10")),
        when=f"10 {_LARGE}",
        slurms="2",
        source=_HIGH_THROUGHPUT,
        reason="connections wait when all nodes register at once; the page tries it before more connections",
    ),
    Chosen(
        key="SlurmctldParameters",
        word="conmgr_max_connections",
        value=_if_large(lambda facts: str(min(facts.max_node_count, _LISTEN_BACKLOG))),
        when=f"MaxNodeCount {_LARGE}, {_LISTEN_BACKLOG} at most",
        slurms="512",
        source=_HIGH_THROUGHPUT,
        reason="each node has a connection of its own (TreeWidth); more than Linux queues would not come through",
    ),
    Chosen(
        key="SlurmdTimeout",
        word="",
        value=_always("300"),
        when="300",
        slurms="300",
        source=_BIG_SYSTEMS,
        reason="a node may be silent while its pod restarts; the page asks for 120 or more on large clusters",
    ),
    Chosen(
        key="MinJobAge",
        word="",
        value=_always("300"),
        when="300",
        slurms="300",
        source=_HIGH_THROUGHPUT,
        reason="without accounting an ended job is nowhere else; sites of many short jobs set a few seconds",
    ),
    Chosen(
        key="EnforcePartLimits",
        word="",
        value=_always("NO"),
        when="NO",
        slurms="NO",
        source=_MANUAL,
        reason="ALL would refuse jobs that ask for more nodes than there are; autoscalers start nodes for them",
    ),
    Chosen(
        key="SlurmctldParameters",
        word="enable_expedited_requeue",
        value=_always(""),
        when="on",
        slurms="off",
        source="sbatch(1), --requeue=expedite",
        reason="who asks for it starts first and at once after a node failed, and is held after a failure of his own",
    ),
    Chosen(
        key="SchedulerParameters",
        word="bf_continue",
        value=_always(""),
        when="on",
        slurms="off",
        source=_HIGH_THROUGHPUT,
        reason="else a busy cluster's backfill begins anew at each change and never reaches the queue's end",
    ),
    Chosen(
        key="SchedulerParameters",
        word="bf_window",
        value=_window,
        when=f"the longest of them in minutes, {LONGEST_WINDOW_MINUTES} at most, {_LONG}",
        slurms="1440",
        source=_MANUAL,
        reason="jobs longer than the window may starve",
    ),
    Chosen(
        key="SchedulerParameters",
        word="bf_resolution",
        value=_resolution,
        when=f"60 for each day of bf_window, {_COARSEST_SECONDS} at most, {_LONG}",
        slurms="60",
        source=_MANUAL,
        reason="a longer window with fine steps makes backfill slow",
    ),
)
"""Values in slurm.conf; `slurm.options` replaces them."""

CGROUP_CONF: Final = (
    Chosen(
        key="CgroupJobIdPaths",
        word="",
        value=_always("no"),
        when="no",
        slurms="no",
        source="cgroup.conf(5)",
        reason="a requeued job keeps its number, and would meet the group of its last run",
    ),
)
"""Values in cgroup.conf; `slurm.cgroupOptions` replaces them."""

_WORDS: Final = {(chosen.key.lower(), chosen.word) for chosen in SLURM_CONF if chosen.word}


def removable(key: str) -> list[str]:
    """Return the words of a list that an option takes out by `-WORD`."""
    return sorted(word for known, word in _WORDS if known == key.lower())


def removal_refusal(name: str, value: str) -> str:
    """Return a sentence about items of an option that would take out what this program needs; empty if none would.

    Args:
        name: Key of the option.
        value: Its value. Only lists take out items; elsewhere `-` begins a number.
    """
    known = [f"-{word}" for word in removable(name)]
    away = [item for item in value.lower().split(",") if item.startswith("-")]
    if name.lower() not in LIST_KEYS or all(item in known for item in away):
        return ""
    return (
        f"{name} with no item to take out but {' or '.join(known)}" if known else f"{name} without `-` before an item"
    )


def items(key: str, facts: Facts) -> list[str]:
    """Return the chosen items of a list of slurm.conf."""
    ours = (chosen.item(facts) for chosen in SLURM_CONF if chosen.key == key and chosen.word)
    return [item for item in ours if item is not None]


def single(chosen: Iterable[Chosen], facts: Facts) -> dict[str, str]:
    """Return key → chosen value, of the keys that take one value."""
    values = ((one.key, one.item(facts)) for one in chosen if not one.word)
    return {key: item for key, item in values if item is not None}


def merged(key: str, ours: str, options: str) -> str:
    """Return a list's items: those of options are added to ours, replace a chosen one, or take it out.

    Args:
        key: The list's key.
        ours: This program's items, separated by commas.
        options: A user's items. One that begins with `-` takes a chosen item out.
    """
    words = removable(key)
    kept = dict.fromkeys(item for item in ours.split(",") if item)
    for item in options.split(","):
        word = item.removeprefix("-").partition("=")[0].lower()
        if word in words:
            kept = {other: None for other in kept if other.partition("=")[0] != word}
        if not item.startswith("-"):
            kept[item] = None
    return ",".join(kept)
