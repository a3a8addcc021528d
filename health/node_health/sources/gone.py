"""Devices that an earlier run of this pod found, and that are gone: the machine lost them."""

import json
from collections.abc import Collection
from pathlib import Path

from node_health import node
from node_health.check import Machine

BOOT = "/proc/sys/kernel/random/boot_id"
"""Another one with each boot, after which devices may have other names."""


def gone(machine: Machine, kind: str, names: Collection[str]) -> tuple[str, ...]:
    """Returns the names that an earlier run had, and this one has not; remembers those that are new.

    Args:
        machine: whose devices.
        kind: of the devices; names the file.
        names: those that are there now.
    """
    file, boot = machine.path(node.COUNTERS / f"known-{kind}.json"), _boot(machine)
    known = _read(file, boot)
    if not known.issuperset(names):
        node.keep(file, json.dumps([boot, sorted(known.union(names))]))
    return tuple(sorted(known.difference(names)))


def _read(file: Path, boot: str) -> frozenset[str]:
    """Returns what a file keeps of this boot; nothing of a file that can't be read."""
    try:
        of_boot, names = json.loads(file.read_text())
        return frozenset(map(str, names)) if of_boot == boot else frozenset()
    except (OSError, ValueError, TypeError):
        return frozenset()


def _boot(machine: Machine) -> str:
    try:
        return machine.text(BOOT)
    except OSError:
        return ""
