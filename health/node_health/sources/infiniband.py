"""The RDMA adapters that the pod may open, by sysfs (Linux, Documentation/ABI/stable/sysfs-class-infiniband)."""

import re
from dataclasses import dataclass, field
from pathlib import Path

from node_health.check import CannotJudgeError, Machine
from node_health.counters import Increase, increase
from node_health.sources.gone import gone

FOLDER = "/sys/class/infiniband"
VERBS = "/sys/class/infiniband_verbs"
DEVICES = "/dev/infiniband"
ERRORS = ("symbol_error", "link_error_recovery", "port_rcv_errors", "local_link_integrity_errors")
LOSSES = "link_downed"
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
        rate: in Gb/s.
        width: lanes; None: the driver does not say.
        signal: the lanes' signaling, such as NDR.
        is_infiniband: whether its link is InfiniBand's, not Ethernet's.
        partitions: partition keys other than 0.
        board: its adapter's board, such as MT_0000000838; empty: the driver does not say.
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

    def __str__(self) -> str:
        return f"{self.adapter} port {self.number}"

    @property
    def is_active(self) -> bool:
        """Return whether the port carries data: its state is ACTIVE."""
        return self.state == "ACTIVE"


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


def look(machine: Machine) -> Adapters:
    """Reads the adapters, their ports, and how much the ports' counters grew."""
    names = tuple(_usable(machine))
    folders = [machine.path(FOLDER) / name for name in names]
    ports = [port for folder in folders for port in sorted((folder / "ports").iterdir())]
    counters = {
        f"{port.parents[1].name} port {port.name} {kind}": sum(_counter(port, name) for name in names)
        for port in ports
        for kind, names in (("errors", ERRORS), ("losses", (LOSSES,)))
    }
    grew = increase(machine, "infiniband", counters)
    return Adapters(names, tuple(map(_port, ports)), grew, gone(machine, "adapters", names))


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
    rate = _RATE.match(_text(folder / "rate"))
    if not rate:
        raise ValueError(f"{folder}/rate: {_text(folder / 'rate')}")
    keys = sorted((folder / "pkeys").iterdir()) if (folder / "pkeys").is_dir() else []
    return Port(
        folder.parents[1].name,
        folder.name,
        _text(folder / "state").partition(": ")[2],
        _text(folder / "phys_state").partition(": ")[2],
        float(rate[1]),
        int(rate[2]) if rate[2] else None,
        rate[3] or "",
        _text(folder / "link_layer") == "InfiniBand",
        tuple(number for file in keys if (number := int(_text(file), 16))),
        _board(folder.parents[1]),
    )


def _board(adapter: Path) -> str:
    names = (adapter / name for name in ("board_id", "hca_type"))
    return next((_text(file) for file in names if file.exists()), "")


def _counter(port: Path, name: str) -> int:
    file = port / "counters" / name
    return int(_text(file)) if file.exists() else 0


def _text(file: Path) -> str:
    return file.read_text().strip()
