"""Plan and decisions of the instance's init about its components. Pure, except for reading and writing JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

FIRST_BACKOFF_SECONDS = 0.5
LAST_BACKOFF_SECONDS = 30.0
STABLE_SECONDS = 60.0
"""A component that ran this long starts with the shortest back-off again."""


@dataclass(frozen=True, slots=True)
class Probe:
    """Readiness of a component, before the next may start: it accepts TCP, or answers /readyz with 200.

    Attributes:
        address: Host and port.
        authority: With it, https://address/readyz is asked, as the owner of `certificate`.
        certificate: PEM file.
        key: PEM file.
    """

    address: tuple[str, int]
    authority: str = ""
    certificate: str = ""
    key: str = ""


@dataclass(frozen=True, slots=True)
class Component:
    """A program of the node.

    Attributes:
        name: As in `status` and `logs`.
        command: Its command line; the first word is a path.
        environment: Of it, besides PATH and HOME.
        probe: What the components after it in the list wait for.
    """

    name: str
    command: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)
    probe: Probe | None = None


@dataclass(frozen=True, slots=True)
class NodePlan:
    """Everything that the instance's init needs, written down by `up`.

    Attributes:
        name: The instance's name, which is also its Node's.
        address: The node's address with its prefix length, as `10.213.0.2/30`.
        gateway: The host's address.
        binds: (folder, where it is seen) mounted before anything starts.
        logs: Folder of the components' logs.
        status: File that says how each component is.
        components: In order of start.
    """

    name: str
    address: str
    gateway: str
    binds: Sequence[tuple[str, str]]
    logs: str
    status: str
    components: Sequence[Component]

    def to_json(self) -> dict[str, Any]:
        """Return the plan as JSON data, for write_json."""
        return asdict(self)

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> NodePlan:
        """Return the plan of JSON data that `to_json` returned."""
        components = [
            Component(
                name=component["name"],
                command=tuple(component["command"]),
                environment=component["environment"],
                probe=_probe(component["probe"]),
            )
            for component in content["components"]
        ]
        binds = [(source, target) for source, target in content["binds"]]
        return cls(**{**content, "binds": binds, "components": components})


@dataclass(frozen=True, slots=True)
class ComponentState:
    """State of a component, as `status` shows it.

    Attributes:
        name: The component's.
        pid: As the host counts once read there, None when it does not run.
        since: Start of the running process, seconds since the epoch; None when it does not run.
        restarts: How often it ended by itself, and so was or will be started again.
        last_exit: How it ended the last time, in words; empty when it never did.
    """

    name: str
    pid: int | None = None
    since: float | None = None
    restarts: int = 0
    last_exit: str = ""


def backoff_seconds(failures_in_a_row: int) -> float:
    """Return the delay before the next start of a component that ended that often without becoming stable."""
    return min(LAST_BACKOFF_SECONDS, FIRST_BACKOFF_SECONDS * 2.0 ** min(failures_in_a_row - 1, 10))


def failures_after(failures_in_a_row: int, lived_seconds: float) -> int:
    """Return the count of failures in a row after one more end."""
    return 1 if lived_seconds >= STABLE_SECONDS else failures_in_a_row + 1


def changed(former: Mapping[str, Component], now: Mapping[str, Component]) -> list[str]:
    """Return the names of the components that a new plan changes, adds or drops."""
    return [name for name in dict.fromkeys([*now, *former]) if now.get(name) != former.get(name)]


def last_error_line(log: Path) -> str:
    """Return a log's last line with an error (klog's E and F, logfmt and JSON levels, panics); empty if none."""
    marks = (
        "level=error",
        "level=fatal",
        '"level":"error"',
        '"level":"fatal"',
        "panic:",
        "[ERROR]",
        "Error:",
        "error:",
    )
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - 65536))
            lines = file.read().decode(errors="replace").splitlines()
    except FileNotFoundError:
        return ""
    return next(
        (
            line.strip()
            for line in reversed(lines)
            if (line[:1] in {"E", "F"} and line[1:5].isdigit()) or any(mark in line for mark in marks)
        ),
        "",
    )


def _probe(content: Mapping[str, Any] | None) -> Probe | None:
    if content is None:
        return None
    host, port = content["address"]
    return Probe((host, port), content["authority"], content["certificate"], content["key"])
