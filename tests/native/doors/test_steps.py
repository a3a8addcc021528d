"""slurmctld reads a user's request for a step only if it can count by its numbers (native/doors/step_guard.c)."""

from __future__ import annotations

import struct

import pytest

from tests.native.message_programs import ALICE, NO_VALUE, STEP_BYTES, Ask, signed

STEP_CREATE, NO_SHORT = 5001, 0xFFFE
ARBITRARY, PLANE = 3, 4
MANY = "gres/gpu:2147483647"


def text(value: str) -> bytes:
    """Packs a text as Slurm does."""
    return struct.pack("!I", len(value) + 1) + value.encode() + b"\0" if value else bytes(4)


def step(
    tasks: int,
    threads: int,
    cpus: str,
    flags: int = 0,
    nodes: int = 1,
    total: int = 1,
    least: int = 1,
    distribution: int = 1,
    plane: int = 0,
    names: str = "",
    gpu_tasks: int = NO_SHORT,
    number: int = NO_VALUE,
    host: str = "a",
    gpus: tuple[str, str, str] = ("", "", ""),
) -> str:
    """A request for a step, as the probe takes a launch: what stands before the text of its CPUs, and that text.

    gpus has the CPUs for a GPU, the GPUs, and those for a node.
    """
    body = struct.pack("!QIIIIIII", 0, 1, number, NO_VALUE, NO_VALUE, ALICE, least, nodes) + bytes(3 * 4)
    body += struct.pack("!IIIIIQIHH", total, 0, 0, 0, tasks, 0, 0, threads, 0xFFFF)
    body += struct.pack("!HIHHHHII", 0, distribution, plane, 0, 0, 0, 1, flags)
    body += text(host) + bytes(2 * 4) + text(names) + bytes(4 * 4) + text(gpus[0]) + bytes(4)
    body += struct.pack("!H", gpu_tasks) + bytes(7 * 4) + text(gpus[1]) + text(gpus[2]) + bytes(4)
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
        (step(1, 0xFFFE, "", number=7), "read"),
        (step(1, 0xFFFE, "", number=0xFFFFFFF5), "refused"),
        (step(1, 0xFFFE, "", least=0), "refused"),
        (step(1, 0xFFFE, "", distribution=ARBITRARY, names=", "), "refused"),
        (step(2, 0xFFFE, "", distribution=ARBITRARY, names="n1,n1"), "read"),
        (step(2, 0xFFFE, "", flags=1 << 8, distribution=ARBITRARY, names="n1,n1"), "read"),
        (step(4, 0xFFFE, "", distribution=PLANE, plane=2), "read"),
        (step(4, 0xFFFE, "", distribution=PLANE, plane=0xFFFD), "refused"),
        (step(4, 0xFFFE, "", total=32, gpus=("gres/gpu:8", "cpu:32,gres/gpu:1080ti:4", "")), "read"),
        (step(1, 0xFFFE, "", gpus=("gres/gpu:1", MANY, "")), "refused"),
        (step(1, 0xFFFE, "", least=2, gpus=("gres/gpu:1", "", "gres/gpu:a=16M")), "refused"),
        (step((1 << 31) - 1, 0xFFFE, "gres/gpu:1", gpus=("gres/gpu:1", "", "")), "refused"),
        (step(2, 0xFFFE, "", total=3, gpu_tasks=2, gpus=("", "gres/gpu:1,gres/gpu:b", "")), "read"),
        (step(2, 0xFFFE, "", total=3, gpu_tasks=2, gpus=("", MANY, "")), "refused"),
        (step(1, 0xFFFE, "", gpus=("", MANY, "")), "read"),
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
        "a number",
        "one of the last numbers",
        "no nodes",
        "no names of nodes",
        "names of nodes",
        "an external launcher's nodes, without their order",
        "planes",
        "too large planes",
        "CPUs for a GPU",
        "CPUs for too many GPUs",
        "CPUs for too many GPUs of a node",
        "CPUs for the GPUs of too many tasks",
        "tasks for a GPU",
        "tasks for too many GPUs",
        "too many GPUs, which slurmctld refuses",
    ],
)
def test_slurmctld_takes_no_step_by_whose_numbers_it_ends(ask: Ask, asked: str, becomes: str) -> None:
    assert ask("slurmctld", STEP_CREATE, ALICE, asked) == becomes


@pytest.mark.parametrize("host", ["", "login-0", "10.1.2.3", "fd00::1"])
def test_a_steps_srun_is_at_an_address_or_a_host_of_the_cluster(ask: Ask, host: str) -> None:
    assert ask("slurmctld", STEP_CREATE, ALICE, step(1, 0xFFFE, "", host=host)) == "read"


@pytest.mark.parametrize("host", ["a.example", "a.", "10.1.2", "a:b"])
def test_slurmctld_waits_for_no_other_domains_names(ask: Ask, host: str) -> None:
    """It would, under the lock of all jobs, for as long as that domain's server likes."""
    assert ask("slurmctld", STEP_CREATE, ALICE, step(1, 0xFFFE, "", host=host)) == "refused"


def test_slurmctld_takes_no_step_with_endless_texts(ask: Ask) -> None:
    assert ask("slurmctld", STEP_CREATE, ALICE, step(1, 0xFFFE, "a" * (STEP_BYTES // 2))) == "read"
    assert ask("slurmctld", STEP_CREATE, ALICE, step(1, 0xFFFE, "a" * STEP_BYTES)) == "refused"
