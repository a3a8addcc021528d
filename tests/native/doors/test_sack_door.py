"""The door to Slurm's authentication: who is refused, and as whom the others come through."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import struct
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="becomes other users")

ALICE, BOB, NAMELESS, SLURM, SLURMREST = 1000, 1001, 7777, 64030, 64031
OF_ONE, WAITING = 64, 512
"""Connections of one user that the door serves at once, and that wait besides."""
NO_VAL = 4294967294
"""The number that means none to Slurm."""
MOST_ASKED = 256 << 10
"""Bytes of one question."""
ASK = """
import socket, sys
with socket.socket(socket.AF_UNIX) as door:
    door.settimeout(20)
    door.connect(sys.argv[1])
    try:
        door.sendall(b"who am I")
        door.shutdown(socket.SHUT_WR)
        print(door.recv(100).decode(), end="")
    except OSError:
        pass
"""


class Real:
    """Plays the daemon's socket: says whom it takes its peer for, after all that he has to say."""

    def __init__(self, path: Path) -> None:
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        path.chmod(0o777)
        self._listener.listen(200)
        self.heard: list[bytes] = []
        self.taken = 0
        threading.Thread(target=self._answer, daemon=True).start()

    def _answer(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                peer, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(peer,), daemon=True).start()

    def _serve(self, peer: socket.socket) -> None:
        with peer, contextlib.suppress(OSError):
            pid, uid, gid = struct.unpack("3i", peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
            said = b""
            while part := peer.recv(1000):
                said += part
                self.taken += len(part)
            self.heard.append(said)
            status = Path(f"/proc/{pid}/status").read_text()
            rights = [line.split()[1] for line in status.splitlines() if line.startswith(("CapEff", "CapPrm"))]
            peer.sendall(
                f"{uid} {gid} {set(rights)} {status.partition('Groups:')[2].split(chr(10))[0].split()}".encode()
            )

    def close(self) -> None:
        # Wakes the thread: it would go on at the number of this descriptor, which the next test's may have.
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()


class Door:
    """A door between a folder that everybody may reach and the played socket."""

    def __init__(self, program: Path, folder: Path) -> None:
        self.path = folder / "sack.socket"
        self.real = Real(folder / "real.socket")
        self.log = (folder / "log").open("w+")
        command = [program, self.path, folder / "real.socket"]
        self.process = subprocess.Popen(command, stderr=self.log, env={"ASAN_OPTIONS": "detect_leaks=0"})
        deadline = time.monotonic() + 20
        while not self.path.exists():
            assert self.process.poll() is None and time.monotonic() < deadline
            time.sleep(0.01)  # The door tells nobody that it is there but by its socket.

    def ask(self, uid: int, *prefix: str) -> str:
        """Return what the real socket says to somebody who comes through the door."""
        become = ["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups"]
        asked = subprocess.run(
            [*become, *prefix, "/usr/bin/python3", "-I", "-c", ASK, str(self.path)],
            capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        assert asked.returncode == 0, asked.stderr
        return asked.stdout

    def connect(self, uid: int, count: int) -> list[socket.socket]:
        """Connections of somebody who says nothing."""
        os.setresuid(uid, uid, 0)
        try:
            made = [socket.socket(socket.AF_UNIX) for _ in range(count)]
            for each in made:
                each.connect(str(self.path))
            return made
        finally:
            os.setresuid(0, 0, 0)


@pytest.fixture
def door(make: Callable[..., Path], open_folder: Path) -> Iterator[Door]:
    yield from opened(make("sack_door_probe", open_folder), open_folder)


def opened(program: Path, folder: Path) -> Iterator[Door]:
    made = Door(program, folder)
    yield made
    made.process.kill()
    made.process.wait()
    made.real.close()


def through(uid: int) -> str:
    return f"{uid} {uid} {{'0000000000000000'}} []"


def test_a_user_comes_through_as_himself_without_any_right(door: Door) -> None:
    assert door.ask(ALICE) == through(ALICE)
    assert door.ask(BOB) == through(BOB)
    assert door.real.heard == [b"who am I"] * 2


@pytest.mark.parametrize("uid", [0, SLURM, SLURMREST, NO_VAL])
def test_root_and_slurms_own_ids_do_not_come_through(door: Door, uid: int) -> None:
    assert door.ask(uid) == ""
    assert door.real.heard == []
    assert door.ask(ALICE) == through(ALICE)


def test_root_of_a_user_namespace_is_the_user_who_made_it(door: Door) -> None:
    assert door.ask(ALICE, "unshare", "--user", "--map-root-user") == through(ALICE)


def test_a_question_without_an_end_is_cut_off(door: Door) -> None:
    """The daemon behind the door would keep all of it in memory."""
    (endless,) = door.connect(ALICE, 1)
    endless.settimeout(20)
    with endless, contextlib.suppress(ConnectionError):
        for _ in range(64):
            endless.sendall(bytes(MOST_ASKED))
        assert endless.recv(1) == b""
    assert door.ask(ALICE) == through(ALICE)
    assert door.real.taken <= MOST_ASKED + len("who am I")


def test_a_long_question_comes_through_whole(door: Door) -> None:
    """A token holds all groups of its user."""
    (asks,) = door.connect(ALICE, 1)
    asks.settimeout(20)
    with asks:
        asks.sendall(bytes(MOST_ASKED))
        asks.shutdown(socket.SHUT_WR)
        assert asks.recv(1000)
    assert door.real.taken == MOST_ASKED


def test_one_who_says_nothing_is_sent_away_and_one_user_does_not_shut_out_the_others(door: Door) -> None:
    silent = door.connect(ALICE, OF_ONE + WAITING + 10)
    assert door.ask(BOB) == through(BOB)
    began = time.monotonic()
    for each in silent:
        each.settimeout(30)
        with contextlib.suppress(ConnectionError):
            assert each.recv(1) == b""
        each.close()
    assert time.monotonic() - began < 20
    assert door.ask(ALICE) == through(ALICE)
    door.log.seek(0)
    assert door.log.read().count(f"{WAITING} connections of user {ALICE} wait: refusing one more") == 10


@pytest.fixture
def patient_door(make: Callable[..., Path], open_folder: Path) -> Iterator[Door]:
    """The image's own door: nobody is sent away within 20 s, on a busy machine either."""
    yield from opened(make("sack_door", open_folder), open_folder)


def test_more_connections_of_one_user_than_are_served_at_once_all_come_through(patient_door: Door) -> None:
    many = patient_door.connect(ALICE, 2 * OF_ONE)
    for each in many:
        each.settimeout(30)
        each.sendall(b"who am I")
        each.shutdown(socket.SHUT_WR)
    assert {each.recv(100).decode().split()[0] for each in many} == {str(ALICE)}
    for each in many:
        each.close()


def test_a_new_door_takes_the_place_of_one_that_was_killed(
    door: Door, make: Callable[..., Path], open_folder: Path
) -> None:
    door.process.kill()
    door.process.wait()
    with pytest.raises(AssertionError):
        door.ask(ALICE)
    again = subprocess.Popen([open_folder / "sack_door_probe", door.path, open_folder / "real.socket"])
    try:
        deadline = time.monotonic() + 20
        while True:
            with contextlib.suppress(AssertionError):
                assert door.ask(ALICE) == through(ALICE)
                break
            assert time.monotonic() < deadline
    finally:
        again.kill()
        again.wait()


def test_slurms_commands_tell_root_and_slurms_ids_in_the_jail_what_to_do_and_nobody_else(
    make: Callable[..., Path], open_folder: Path
) -> None:
    probe = make("root_guard_probe", open_folder)
    assert subprocess.run([probe], capture_output=True, text=True, check=True).stdout == "asked Slurm\n", "no door"
    (open_folder / "door").touch()
    refused = subprocess.run([probe, "-n1"], capture_output=True, text=True, check=False)
    assert (refused.returncode, refused.stdout) == (1, "")
    assert refused.stderr.startswith("root_guard_probe: root of the jail is nobody to Slurm: run root_guard_probe as")
    for uid, name in ((SLURM, "SlurmUser"), (SLURMREST, "slurmrestd's user")):
        as_slurm = ["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups", probe, "-n1"]
        refused = subprocess.run(as_slurm, capture_output=True, text=True, check=False)
        assert (refused.returncode, refused.stdout) == (1, "")
        assert refused.stderr.startswith(f"root_guard_probe: {name} of the jail is nobody to Slurm: run ")
    assert subprocess.run([probe, "--version"], capture_output=True, text=True, check=True).stdout == "asked Slurm\n"
    as_alice = ["setpriv", f"--reuid={ALICE}", f"--regid={ALICE}", "--clear-groups", probe]
    assert subprocess.run(as_alice, capture_output=True, text=True, check=True).stdout == "asked Slurm\n"
    srun = open_folder / "srun"
    shutil.copy(probe, srun)
    as_nobody = ["setpriv", f"--reuid={NAMELESS}", f"--regid={NAMELESS}", "--clear-groups"]
    refused = subprocess.run([*as_nobody, srun, "-n1"], capture_output=True, text=True, check=False)
    assert (refused.returncode, refused.stdout) == (1, "")
    assert refused.stderr.startswith(f"srun: uid {NAMELESS} has no account, so Slurm runs no job for it: add one by ")
    for harmless in ([*as_nobody, srun, "--version"], [*as_nobody, probe]):
        assert subprocess.run(harmless, capture_output=True, text=True, check=True).stdout == "asked Slurm\n"
