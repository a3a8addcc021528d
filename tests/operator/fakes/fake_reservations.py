"""Reservations of the fake slurmctld: made, changed and deleted as slurmctld 26.05.5 does."""

from __future__ import annotations

import time
from collections.abc import Collection
from typing import Any

from slurm_operator.clients.slurm import hostlist

INVALID_TIME, INVALID_NODE, INVALID_RESERVATION, RUNNING_RESERVATION = 2054, 2018, 2053, 2104
"""Slurm's numbers of errors (slurm_errno.h)."""
BACK_SECONDS = 600
"""A reservation may begin so long ago."""


class ReservationError(Exception):
    """slurmctld refuses a change of reservations: where, with which number, and in which words."""

    def __init__(self, where: str, number: int, words: str) -> None:
        super().__init__(where, number, words)
        self.where, self.number, self.words = where, number, words


class Reservations(dict[str, dict[str, Any]]):
    """slurmctld's reservations by name, in the form of slurmrestd's listing."""

    def reserve(self, name: str, nodes: str, begins_in: int = 3600, *, users: str = "alice", flags: str = "") -> None:
        """Add another user's reservation of an hour, without asking slurmctld."""
        starts = int(time.time()) + begins_in
        self[name] = {
            "name": name,
            "node_list": nodes,
            "start_time": moment(starts),
            "end_time": moment(starts + 3600),
            "users": users,
            "accounts": "",
            "flags": [*flags.split(), "SPEC_NODES"],
        }

    def flags_of(self, node: str) -> list[str]:
        """Return the flags that a node has by reservations that have begun."""
        now, flags = time.time(), list[str]()
        for each in self.values():
            lasts = each["start_time"]["number"] <= now < each["end_time"]["number"]
            if lasts and node in hostlist.expand(each["node_list"]):
                flags += ["RESERVED", *(["MAINTENANCE"] if "MAINT" in each["flags"] else [])]
        return [*dict.fromkeys(flags)]

    def write(self, body: dict[str, Any], nodes: Collection[str]) -> None:
        """Create or change a reservation as create_resv and update_resv do (src/slurmctld/reservation.c).

        Args:
            body: What slurmrestd's client sent.
            nodes: The nodes that slurmctld knows.

        Raises:
            ReservationError: slurmctld would refuse it.
        """
        name, now = body["name"], time.time()
        there = self.get(name)
        if unknown := {*body["node_list"]} - {*nodes} or not body["node_list"]:
            raise ReservationError(
                f"Error with reservation {name}: {unknown}", INVALID_NODE, "Invalid node name specified"
            )
        if there is None:
            if "users" not in body or body["start_time"]["number"] < now - BACK_SECONDS:
                raise ReservationError(f"Error creating reservation {name}", INVALID_TIME, "Requested time is invalid")
            there = {"name": name, "accounts": "", "users": ",".join(body["users"])}
            there["flags"] = [*body["flags"], "SPEC_NODES"]
        elif "start_time" in body and there["start_time"]["number"] <= now:
            raise ReservationError(
                f"Error updating reservation {name}", RUNNING_RESERVATION, "Reservation already started"
            )
        times = {key: body[key] for key in ("start_time", "end_time") if key in body}
        self[name] = there | times | {"node_list": ",".join(body["node_list"])}

    def delete(self, name: str) -> None:
        """Delete a reservation as delete_resv does.

        Raises:
            ReservationError: There is none.
        """
        if self.pop(name, None) is None:
            raise ReservationError("slurm_delete_reservation", INVALID_RESERVATION, "Requested reservation is invalid")


def moment(seconds: int) -> dict[str, Any]:
    """Return a time that is set, in slurmrestd's form."""
    return {"set": True, "infinite": False, "number": seconds}
