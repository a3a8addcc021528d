"""slurmctld reads a user's request for a step only if it can count by its numbers (native/doors/step_guard.c)."""

from __future__ import annotations

import struct

import pytest

from tests.native.message_programs import ALICE, NO_VALUE, STEP_BYTES, Ask, signed

STEP_CREATE = 5001


def step(tasks: int, threads: int, cpus: str, flags: int = 0, nodes: int = 1, total: int = 1) -> str:
    """A request for a step, as the probe takes a launch: what stands before the text of its CPUs, and that text."""
    body = struct.pack("!QIIIIIII", 0, 1, NO_VALUE, NO_VALUE, NO_VALUE, ALICE, 1, nodes) + bytes(3 * 4)
    body += struct.pack("!IIIIIQIHH", total, 0, 0, 0, tasks, 0, 0, threads, 0xFFFF)
    body += struct.pack("!HIHHHHII", 0, 1, 0, 0, 0, 0, 1, flags)
    body += struct.pack("!I4sIIIII", 4, b"a\0\0\0", 0, 0, 0, 0, 0) + bytes(4 + 3 * 4 + 2 + 10 * 4)
    return f"launch:{body.hex()}:{cpus}:{signed()}"


@pytest.mark.parametrize(
    ("asked", "becomes"),
    [
        (step(1, 0xFFFE, ""), "read"),
        (step(1, 0, ""), "refused"),
        (step(NO_VALUE, 0xFFFE, "gres/gpu:1,cpu:2"), "read"),
        (step(NO_VALUE, 0xFFFE, "gres/gpu:1"), "refused"),
        (step(NO_VALUE, 0xFFFE, "cpu:4294967295"), "refused"),
        (step(NO_VALUE, 0xFFFE, "", flags=1 << 8), "read"),
        (step(1, 0xFFFE, "", nodes=65536), "read"),
        (step(1, 0xFFFE, "", nodes=1 << 31), "refused"),
        (step(1, 0xFFFE, "", total=1 << 24), "read"),
        (step(1, 0xFFFE, "", total=(1 << 31) - 1), "refused"),
        (step(NO_VALUE, 0xFFFE, "cpu:2", total=NO_VALUE), "read"),
    ],
    ids=[
        "plain",
        "no threads",
        "CPUs for a task",
        "no number of CPUs",
        "none after all",
        "an external launcher's",
        "nodes",
        "too many nodes",
        "CPUs",
        "too many CPUs",
        "srun -c2 alone",
    ],
)
def test_slurmctld_takes_no_step_by_whose_numbers_it_ends(ask: Ask, asked: str, becomes: str) -> None:
    assert ask("slurmctld", STEP_CREATE, ALICE, asked) == becomes


def test_slurmctld_takes_no_step_with_endless_texts(ask: Ask) -> None:
    assert ask("slurmctld", STEP_CREATE, ALICE, step(1, 0xFFFE, "a" * (STEP_BYTES // 2))) == "read"
    assert ask("slurmctld", STEP_CREATE, ALICE, step(1, 0xFFFE, "a" * STEP_BYTES)) == "refused"
