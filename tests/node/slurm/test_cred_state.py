"""slurmd is told of jobs whose prolog ran, and of no others, before it starts after it was killed."""

from __future__ import annotations

import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from slurm_node.slurm import cred_state

EMPTY = struct.pack(">HII", cred_state.VERSION, 0, 0)
SLUID = "s1RQG1Z8E7NW00"
HOLD = "import fcntl, sys; file = open(sys.argv[1], 'w'); fcntl.lockf(file, fcntl.LOCK_EX, 1, 1); print(); input()"
"""As job_init holds its job's file for as long as it lives."""


def job(sluid: int, number: int, revoked: int = 0) -> bytes:
    """An entry as slurmd writes it."""
    never = 0x7FFFFFFF
    return struct.pack(">QIIIqqqq", sluid, number, 0xFFFFFFFE, 0xFFFFFFFE, revoked, 100, never, never)


class Node:
    """Folders of a node on which jobs come and go."""

    def __init__(self, folder: Path) -> None:
        self.spool, self.prologs, self.jobs = (folder / name for name in ("spool", "prologs", "jobs"))
        self.spool.mkdir()
        self.jobs.mkdir()
        self.prologs.mkdir()
        self.inits: list[subprocess.Popen[str]] = []

    def lives(self, number: int) -> None:
        command = [sys.executable, "-c", HOLD, str(self.jobs / str(number))]
        init = subprocess.Popen(command, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.inits.append(init)
        assert init.stdout
        assert init.stdout.readline() == "\n"

    def restore(self) -> bytes | None:
        cred_state.restore(self.spool, self.prologs, self.jobs)
        file = self.spool / "cred_state"
        return file.read_bytes() if file.exists() else None


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    made = Node(tmp_path)
    yield made
    for init in made.inits:
        init.communicate()


def test_a_job_that_lives_and_whose_prolog_ran_is_told(node: Node) -> None:
    node.lives(7)
    (node.prologs / "7").write_text(f"{SLUID}\n")
    found = node.restore()
    assert found is not None
    head, entry, rest = found[:6], found[6:-4], found[-4:]
    assert (head, rest) == (struct.pack(">HI", cred_state.VERSION, 1), struct.pack(">I", 0))
    assert struct.unpack(">QIII", entry[:20]) == (cred_state.parse_sluid(SLUID), 7, 0xFFFFFFFE, 0xFFFFFFFE)
    assert struct.unpack(">q", entry[20:28]) == (0,), "it is not revoked"
    assert (node.spool / "cred_state").stat().st_mode & 0o777 == 0o600


def test_a_job_whose_prolog_did_not_run_is_not_told(node: Node) -> None:
    node.lives(7)
    assert node.restore() is None


def test_a_job_whose_extern_step_is_gone_is_not_told(node: Node) -> None:
    (node.jobs / "7").touch()
    for number in ("7", "8"):
        (node.prologs / number).write_text(f"{SLUID}\n")
    assert node.restore() is None


def test_what_is_there_stays_and_only_missing_jobs_are_added() -> None:
    credentials = struct.pack(">I", 1) + b"credential"
    ending = job(5, 70, revoked=123)
    state = struct.pack(">HI", cred_state.VERSION, 2) + job(4, 60) + ending + credentials
    told = cred_state.with_jobs(state, {5: 70, 6: 70}, now=100)
    assert told == struct.pack(">HI", cred_state.VERSION, 3) + job(4, 60) + ending + job(6, 70) + credentials
    assert cred_state.with_jobs(state, {4: 60, 5: 70}, now=200) == state


@pytest.mark.parametrize(
    "state",
    [b"", EMPTY[:4], struct.pack(">HII", 46 << 8, 0, 0), struct.pack(">HI", cred_state.VERSION, 2) + job(1, 1)],
    ids=["empty", "half a head", "another Slurm's", "half the jobs"],
)
def test_a_state_that_cannot_be_read_stays_and_keeps_no_slurmd_from_its_start(
    node: Node, state: bytes, capfd: pytest.CaptureFixture[str]
) -> None:
    node.lives(7)
    (node.prologs / "7").write_text(f"{SLUID}\n")
    (node.spool / "cred_state").write_bytes(state)
    assert node.restore() == state
    assert "may start no further steps: slurmd's cred_state" in capfd.readouterr().err


def test_a_sluid_is_read_as_slurm_writes_it() -> None:
    # Its parts: a cluster of 12 bits, milliseconds in 42 bits, a counter of 10 bits (src/common/sluid.c).
    assert cred_state.parse_sluid("s0000000000001") == 1
    assert cred_state.parse_sluid("s0000000000010") == 32
    assert cred_state.parse_sluid("sFZZZZZZZZZZZZ") == 2**64 - 1
    for wrong in ("", "7", "x0000000000001", "s000000000000", "s000000000000U", "sG000000000000"):
        with pytest.raises(ValueError, match="is no SLUID"):
            cred_state.parse_sluid(wrong)
