"""Reservations in which long checks try drained nodes again."""

from __future__ import annotations

from contract import names
from slurm_operator.actions import Reserve
from slurm_operator.state.slurm import Reservation


def for_retry(node: str) -> str:
    """Return the name of a node's reservation."""
    return f"{names.RETRY_PREFIX}{node}"


def is_for_retry(of: Reserve | Reservation) -> bool:
    """Return whether the operator made the reservation for long checks, or is to make it."""
    user = of.user if isinstance(of, Reserve) else of.users
    others = "" if isinstance(of, Reserve) else of.accounts or of.unread
    ours = user == names.RETRY_USER and not others and {*names.RETRY_FLAGS} <= {*of.flags}
    return ours and of.name.startswith(names.RETRY_PREFIX)
