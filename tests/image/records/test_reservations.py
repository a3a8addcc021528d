"""Promises about reservations for updates and about reboots, of the real slurmctld and slurmrestd."""

from __future__ import annotations

import asyncio
import dataclasses
import datetime
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import pytest
from slurm_operator.clients.slurm import slurmrestd
from slurm_operator.clients.slurm.slurm_error import SlurmError
from slurm_operator.decide.node_sets import window
from slurm_operator.decide.nodes import slurm_nodes
from slurm_operator.state.slurm import Reservation, SlurmNode

from bench.worlds.real_slurm import RealSlurm
from contract import names

NAME = f"{names.RESERVATION_PREFIX}cpu"
T = TypeVar("T")
HOUR = datetime.timedelta(hours=1)


def test_slurm_takes_the_operators_reservation_and_shows_whose_it_is(image: Path, tmp_path: Path) -> None:
    now = datetime.datetime.now(datetime.UTC).replace(microsecond=0)

    async def work(rest: slurmrestd.SlurmRest) -> tuple[tuple[Reservation, ...], ...]:
        await rest.reserve(NAME, ("cpu-0", "cpu-1"), now + HOUR, now + 2 * HOUR)
        made = await rest.reservations()
        await rest.change_reservation(NAME, ("cpu-1",), now + 3 * HOUR, now)
        changed = await rest.reservations()
        maintained = await rest.node("cpu-1")
        assert maintained
        assert {"MAINTENANCE", "RESERVED"} <= maintained.states
        await rest.change_reservation(NAME, ("cpu-0",), now + 3 * HOUR)
        freed = await rest.node("cpu-1")
        assert freed
        assert not {"MAINTENANCE", "RESERVED"} & freed.states
        with pytest.raises(SlurmError, match="already started"):
            await rest.change_reservation(NAME, ("cpu-0",), now + 3 * HOUR, now + HOUR)
        await rest.end_reservation(NAME)
        return made, changed, await rest.reservations()

    with RealSlurm(image, tmp_path / "slurm", b"k" * 32) as there:
        there.make_nodes("cpu", 2)
        (made,), (changed,), gone = asyncio.run(_asked(there, tmp_path, work))
    assert window.is_ours(made)
    assert (made.nodes, made.starts, made.ends) == (frozenset({"cpu-0", "cpu-1"}), now + HOUR, now + 2 * HOUR)
    assert (changed.nodes, changed.starts, changed.ends) == (frozenset({"cpu-1"}), now, now + 3 * HOUR)
    assert gone == ()


def test_slurm_issues_a_reboot_of_an_idle_node_and_keeps_what_a_person_said(image: Path, tmp_path: Path) -> None:
    async def work(rest: slurmrestd.SlurmRest) -> SlurmNode:
        for _ in range(120):
            found = await rest.node("cpu-1")
            if found and slurm_nodes.is_rebooting(found):
                return found
            await asyncio.sleep(0.5)  # Slurm looks each few seconds, and tells nobody.
        raise AssertionError(found)

    with RealSlurm(image, tmp_path / "slurm", b"k" * 32) as there:
        there.make_nodes("cpu", 2)
        there.command("scontrol update nodename=cpu-1 state=drain reason=bad-fan && scontrol reboot cpu-1")
        node = asyncio.run(_asked(there, tmp_path, work))
    # A node without a slurmd is EXTERNAL here, and no worker is.
    assert slurm_nodes.may_reboot(dataclasses.replace(node, states=node.states - {"EXTERNAL"}))
    assert {"DRAIN", "DOWN"} <= node.states
    assert node.reason == "bad-fan"


async def _asked(there: RealSlurm, folder: Path, work: Callable[[slurmrestd.SlurmRest], Awaitable[T]]) -> T:
    rest = slurmrestd.SlurmRest(there.url, folder / "slurm/keys/jwt.key")
    try:
        return await work(rest)
    finally:
        await rest.close()
