"""Checks that the jail's submounts are mounted and answer, have room, and did not become read-only.

Nobody writes to them for this: a site's storage may refuse root, and many nodes would load it. Linux mounts a local
file system with errors read-only. One that always was so, such as CVMFS, is well.
"""

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

from contract import paths, reasons
from node_health import node
from node_health.check import Check, DoesNotApplyError, Machine
from node_health.sources import file_systems, mounts
from node_health.sources.file_systems import Room
from node_health.verdict import Finding, fails, passes, warns

WRITABLE = node.COUNTERS / "writable-submounts.json"
"""Submounts that were mounted writable since this pod began."""


@dataclass(frozen=True, slots=True)
class Submount:
    """A submount's room, or the words for what is wrong with it."""

    room: Room | None = None
    wrong: str = ""


def look(machine: Machine) -> dict[str, Submount]:
    """Asks each declared submount."""
    if not machine.declared.submounts:
        raise DoesNotApplyError("none declared")
    mounted = machine.once(mounts.look)
    submounts = {path: _ask(machine, path, mounted) for path in machine.declared.submounts}
    read_only = {path for path, submount in submounts.items() if submount.room and submount.room.read_only}
    before = _were_writable(machine)
    writable = before | {path for path, submount in submounts.items() if submount.room} - read_only
    if writable != before:
        node.keep(machine.path(WRITABLE), json.dumps(sorted(writable)))
    return submounts | dict.fromkeys(read_only & before, Submount(wrong="became read-only"))


def judge(submounts: Mapping[str, Submount], machine: Machine) -> Finding:
    """FAIL when one is not mounted, became read-only or returns an error; WARNING when one is full.

    One that hangs is UNKNOWN by the time box. One is full by its users, often for all nodes alike: no drain repairs it.
    """
    if bad := [f"{path} {submount.wrong}" for path, submount in submounts.items() if submount.wrong]:
        return fails("; ".join(bad))
    least = machine.declared.least_free_percent
    rooms = {
        path: submount.room for path, submount in submounts.items() if submount.room and not submount.room.read_only
    }
    scarce = {path: room.lacks(least) for path, room in rooms.items()}
    if full := [f"{path} has {lacking}" for path, lacking in scarce.items() if lacking]:
        return warns("; ".join(full))
    return passes(f"{', '.join(submounts)} answer")


def _were_writable(machine: Machine) -> frozenset[str]:
    try:
        return frozenset(map(str, json.loads(machine.text(WRITABLE))))
    except (OSError, ValueError, TypeError):
        return frozenset()


def _ask(machine: Machine, path: str, mounted: Mapping[str, mounts.Mount]) -> Submount:
    point = f"{paths.JAIL_TREE}{path}"
    if point not in mounted:
        return Submount(wrong="is not mounted")
    try:
        room = file_systems.room(machine.path(point))
        # A server that refuses root to list a folder of users has answered.
        with suppress(PermissionError), os.scandir(machine.path(point)) as entries:
            next(entries, None)
    except PermissionError:  # Not even the size, as with Kerberos or FUSE: it has answered, too.
        return Submount()
    except OSError as error:
        return Submount(wrong=f"returns an error: {error.strerror}")
    return Submount(room)


CHECK = Check(
    reasons.Check.SUBMOUNTS,
    look,
    judge,
    fails="a declared submount is not mounted, returns an error, or became read-only",
    warns="one has less free than `health.leastFreePercent` (bytes or files)",
    remedy="repair the volume's storage, then restart the pod; delete files in one that is full",
)
