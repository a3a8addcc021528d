"""The RDMA adapters that the pod may open, by sysfs (Linux, Documentation/ABI/stable/sysfs-class-infiniband)."""

import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from node_health.check import CannotJudgeError, DoesNotApplyError, Machine
from node_health.sources.counters import Increase, increase
from node_health.sources.gone import gone

FOLDER = "/sys/class/infiniband"
VERBS = "/sys/class/infiniband_verbs"
DEVICES = "/dev/infiniband"
ACTIVE = "ACTIVE"
ERRORS = ("symbol_error", "link_error_recovery", "port_rcv_errors", "local_link_integrity_errors")
LOSSES = "link_downed"
UNCABLED = frozenset({"Sleep", "Polling", "Disabled"})
"""Physical states of a port that finds no other one (drivers/infiniband/core/sysfs.c, phys_state_to_str)."""
FULL = {"symbol_error": 0xFFFF, "port_rcv_errors": 0xFFFF, LOSSES: 0xFF}
"""Counters that stay at their highest value (drivers/infiniband/core/sysfs.c, PORT_PMA_ATTR). Smaller ones of 4 and 8
bits are often full, and say little more than these."""
_RATE = re.compile(r"([\d.]+) Gb/sec(?: \((\d+)X ?(\w*))?")
"""Such as 400 Gb/sec (4X NDR) (Linux, drivers/infiniband/core/sysfs.c, rate_show)."""


@dataclass(frozen=True, slots=True)
class Port:
    """A port of an adapter.

    Attributes:
        adapter: its adapter, such as mlx5_0.
        number: its number.
        state: such as ACTIVE.
        physical: such as LinkUp.
        rate: in Gb/s; 0 unless it is active: Linux refuses to tell that of some others.
        width: lanes; None: the driver does not say.
        signal: the lanes' signaling, such as NDR.
        is_infiniband: whether its link is InfiniBand's, not Ethernet's.
        partitions: partition keys other than 0.
        board: its adapter's board, such as MT_0000000838; empty: the driver does not say.
        full: its counters that count no further.
        was_active: whether it was active since the machine's boot, as far as anybody knows.
    """

    adapter: str
    number: str
    state: str
    physical: str
    rate: float
    width: int | None
    signal: str = ""
    is_infiniband: bool = True
    partitions: tuple[int, ...] = ()
    board: str = ""
    full: tuple[str, ...] = ()
    was_active: bool = False

    def __str__(self) -> str:
        return f"{self.adapter} port {self.number}"

    @property
    def is_active(self) -> bool:
        """Return whether the port carries data: its state is ACTIVE."""
        return self.state == ACTIVE

    @property
    def is_unused(self) -> bool:
        """Return whether the port finds no other one, and never did: nobody plugged a cable in."""
        return self.physical in UNCABLED and not self.is_active and not self.was_active


@dataclass(frozen=True, slots=True)
class Adapters:
    """The adapters.

    Attributes:
        names: their names.
        ports: their ports.
        grew: increase of the ports' counters.
        gone: names of adapters that an earlier run had.
    """

    names: tuple[str, ...]
    ports: tuple[Port, ...] = ()
    grew: Increase = field(default_factory=lambda: Increase({}))
    gone: tuple[str, ...] = ()

    @property
    def active(self) -> tuple[Port, ...]:
        """The ports that carry data.

        Raises:
            CannotJudgeError: none does.
        """
        if ports := tuple(port for port in self.ports if port.is_active):
            return ports
        raise CannotJudgeError("no port is active")

    def counting(self, ports: Sequence[Port], kind: str) -> list[Port]:
        """Returns those of the ports that count errors or losses.

        Raises:
            DoesNotApplyError: none does, as adapters of some clouds.
        """
        if counting := [port for port in ports if f"{port} {kind}" in self.grew.by]:
            return counting
        raise DoesNotApplyError(f"the adapters do not count {kind}")


def look(machine: Machine) -> Adapters:
    """Reads the adapters, their ports, and how much the ports' counters grew."""
    names = tuple(_usable(machine))
    folders = [machine.path(FOLDER) / name for name in names]
    ports = [port for folder in folders for port in sorted((folder / "ports").iterdir())]
    counters = {
        f"{port.parents[1].name} port {port.name} {kind}": sum(counts.values())
        for port in ports
        for kind, names in (("errors", ERRORS), ("losses", (LOSSES,)))
        if (counts := _counts(port, names))
    }
    grew = increase(machine, "infiniband", counters)
    read = tuple(map(_port, ports))
    # A port that was active in an earlier run, and is not now.
    lost = gone(machine, "active-ports", [str(port) for port in read if port.is_active])
    read = tuple(replace(port, was_active=port.was_active or str(port) in lost) for port in read)
    return Adapters(names, read, grew, gone(machine, "adapters", names))


def _usable(machine: Machine) -> list[str]:
    """Returns the adapters whose device file the pod has; sysfs shows all of the machine."""
    folder, verbs, devices = (machine.path(place) for place in (FOLDER, VERBS, DEVICES))
    if not folder.is_dir():
        return []
    everything = sorted(adapter.name for adapter in folder.iterdir())
    if not verbs.is_dir():
        return everything
    files = {file.name for file in devices.iterdir()} if devices.is_dir() else set()
    mine = {(verb / "ibdev").read_text().strip() for verb in verbs.glob("uverbs*") if verb.name in files}
    return [name for name in everything if name in mine]


def _port(folder: Path) -> Port:
    state = _text(folder / "state").partition(": ")[2]
    rate, width, signal = _rate(folder / "rate") if state == ACTIVE else (0.0, None, "")
    keys = sorted((folder / "pkeys").iterdir()) if (folder / "pkeys").is_dir() else []
    return Port(
        folder.parents[1].name,
        folder.name,
        state,
        _text(folder / "phys_state").partition(": ")[2],
        rate,
        width,
        signal,
        _text(folder / "link_layer") == "InfiniBand",
        tuple(number for file in keys if (number := int(_text(file), 16))),
        _board(folder.parents[1]),
        tuple(name for name, count in _counts(folder, FULL).items() if count >= FULL[name]),
        any(_counts(folder, [LOSSES]).values()),
    )


def _rate(file: Path) -> tuple[float, int | None, str]:
    """Returns rate, lanes and signaling of an active port."""
    if not (rate := _RATE.match(_text(file))):
        raise ValueError(f"{file}: {_text(file)}")
    return float(rate[1]), int(rate[2]) if rate[2] else None, rate[3] or ""


def _board(adapter: Path) -> str:
    names = (adapter / name for name in ("board_id", "hca_type"))
    return next((_text(file) for file in names if file.exists()), "")


def _counts(port: Path, names: Iterable[str]) -> dict[str, int]:
    """Returns the counters that a port has. Linux refuses to read others, or shows "N/A (no PMA)"."""
    counts = {}
    for name in names:
        with suppress(OSError, ValueError):
            counts[name] = int(_text(port / "counters" / name))
    return counts


def _text(file: Path) -> str:
    return file.read_text().strip()
