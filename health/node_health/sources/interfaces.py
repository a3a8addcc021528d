"""The pod's network interfaces that are up, by sysfs (Linux, Documentation/ABI/testing/sysfs-class-net)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from node_health.check import DoesNotApplyError, Machine
from node_health.sources.counters import Increase, increase
from node_health.sources.gone import gone

FOLDER = "/sys/class/net"
LOOPBACK = "lo"
IFF_UP = 1
ERRORS = ("rx_errors", "tx_errors", "rx_crc_errors")
PACKETS = ("rx_packets", "tx_packets")
KIND = ("type", "device/vendor", "device/device")
"""Files of an interface's kind: its link's type, such as 32 for InfiniBand, and its PCI device's maker and model."""


@dataclass(frozen=True, slots=True)
class Interface:
    """One interface that an administrator set up.

    Attributes:
        name: its name.
        carrier: whether it has a link.
        mtu: in bytes.
        speed: in Mb/s; None: a virtual one, or nobody knows.
        half_duplex: whether it sends and receives by turns.
        kin: what it shares with others that should be equal: their names without numbers, their link's type and the
            model of their device. Multus names those of all networks alike, net1 and so on.
    """

    name: str
    carrier: bool
    mtu: int
    speed: int | None
    half_duplex: bool
    kin: str


@dataclass(frozen=True, slots=True)
class Interfaces:
    """The interfaces.

    Attributes:
        up: those that are up.
        grew: increase of their counters: errors, packets and losses of the link, by interface.
        gone: names of those that were up in an earlier run, and are no more in the pod.
    """

    up: tuple[Interface, ...]
    grew: Increase = field(default_factory=lambda: Increase({}))
    gone: tuple[str, ...] = ()

    @property
    def all(self) -> tuple[Interface, ...]:
        """Those that are up.

        Raises:
            DoesNotApplyError: there is none.
        """
        if not self.up:
            raise DoesNotApplyError("the pod has no interface but the loopback")
        return self.up


def look(machine: Machine) -> Interfaces:
    """Reads the interfaces that are up, and how much their counters grew."""
    there = sorted(machine.path(FOLDER).iterdir())
    folders = [folder for folder in there if _is_up(folder)]
    counters: dict[str, int] = {}
    for folder in folders:
        counters |= _counters(folder)
    lost = set(gone(machine, "interfaces", [folder.name for folder in folders])) - {folder.name for folder in there}
    grew = increase(machine, "interfaces", counters)
    return Interfaces(tuple(map(_interface, folders)), grew, tuple(sorted(lost)))


def kin(interfaces: Interfaces) -> Mapping[str, list[Interface]]:
    """Returns the interfaces by their kin."""
    groups: dict[str, list[Interface]] = {}
    for interface in interfaces.all:
        groups.setdefault(interface.kin, []).append(interface)
    return groups


def _is_up(folder: Path) -> bool:
    """Returns whether an administrator set it up, and it leads somewhere: a bridge may well have no link."""
    flags = folder / "flags"  # bonding_masters is a file
    if folder.name == LOOPBACK or not flags.exists() or not int(flags.read_text(), 16) & IFF_UP:
        return False
    # The other end of a veth, or what a macvlan or ipvlan stands on, has another index.
    return (folder / "device").exists() or _read(folder / "iflink") != _read(folder / "ifindex")


def _interface(folder: Path) -> Interface:
    speed = _read(folder / "speed") if (folder / "device").exists() else ""
    return Interface(
        folder.name,
        _read(folder / "carrier") != "0",
        int(_read(folder / "mtu")),
        int(speed) if speed.isdigit() and int(speed) else None,
        _read(folder / "duplex") == "half" and (folder / "device").exists(),
        " ".join((folder.name.rstrip("0123456789"), *(_read(folder / file) for file in KIND))),
    )


def _counters(folder: Path) -> dict[str, int]:
    def total(names: tuple[str, ...]) -> int:
        return sum(int(_read(folder / "statistics" / name) or 0) for name in names)

    name = folder.name
    return {
        f"{name} errors": total(ERRORS),
        f"{name} packets": total(PACKETS),
        f"{name} losses": int(_read(folder / "carrier_down_count") or 0),
    }


def _read(file: Path) -> str:
    """Returns a file's text; empty where the driver has no such value (EINVAL, EOPNOTSUPP)."""
    try:
        return file.read_text().strip()
    except OSError:
        return ""
