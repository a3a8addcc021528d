"""The fake of tests/image/jail/file_server.py behaves like a real server, with the exceptions that are shown here."""

from __future__ import annotations

import errno
import fcntl
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.image.jail.far_mount import Mount
from tests.vm.nfs.nfs_cluster import EVERY_VERSION, options
from tests.vm.nfs.nfs_server import NfsServer, wait

CACHE_SECONDS = 3.0
"""Option with which the program mounts NFS (actimeo)."""
FAKE = "fake"


@dataclass(frozen=True)
class Far:
    """One storage as two nodes see it."""

    name: str
    first: Path
    second: Path
    silence: Callable[[], None]
    recover: Callable[[], None]


def real(folder: Path, version: str) -> Iterator[Far]:
    with NfsServer(folder, ("node-1", "node-2"), mebibytes=64) as server:
        first, second = (server.mount(node, folder / node, options(version)) for node in server.nodes)
        yield Far(version, first, second, lambda: server.hang("node-2"), server.recover)


def fake(folder: Path) -> Iterator[Far]:
    (folder / "volume").mkdir()
    mounts = [Mount(folder / "volume", folder / node, CACHE_SECONDS) for node in ("node-1", "node-2")]
    try:
        first, second = mounts
        yield Far(FAKE, first.folder, second.folder, lambda: second.become("mute"), lambda: second.become("well"))
    finally:
        for mount in mounts:
            mount.end()


@pytest.fixture(scope="module", params=[*EVERY_VERSION, FAKE])
def far(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Far]:
    folder = tmp_path_factory.mktemp(f"far-{request.param}")
    yield from fake(folder) if request.param == FAKE else real(folder, request.param)


def only_real(far: Far) -> None:
    if far.name == FAKE:
        pytest.skip("the fake does not claim it")


def seen(condition: Callable[[], object]) -> float:
    return wait("the other node sees it", condition, 30)


def test_a_name_that_was_looked_for_in_vain_is_found_at_once(far: Far) -> None:
    for _ in range(3):
        assert not (far.second / "program").exists()
    (far.first / "program").touch()
    assert seen((far.second / "program").exists) < 1


def test_who_opens_a_file_reads_what_another_node_wrote_and_closed(far: Far) -> None:
    (far.first / "note").write_text("one")
    assert (far.second / "note").read_text() == "one"
    (far.first / "note").write_text("three")
    assert seen(lambda: (far.second / "note").read_text() == "three") < CACHE_SECONDS + 1


def test_attributes_are_remembered_for_no_longer_than_they_may(far: Far) -> None:
    (far.first / "log").write_text("12345")
    assert (far.second / "log").stat().st_size == 5
    with (far.first / "log").open("a") as log:
        log.write("67890")
    assert seen(lambda: (far.second / "log").stat().st_size == 10) < CACHE_SECONDS + 1


def test_a_rename_over_a_file_is_seen_by_who_opens_it(far: Far) -> None:
    (far.first / "passwd").write_text("old")
    assert (far.second / "passwd").read_text() == "old"
    (far.first / "passwd.new").write_text("newer")
    (far.first / "passwd.new").rename(far.first / "passwd")
    assert seen(lambda: (far.second / "passwd").read_text() == "newer") < CACHE_SECONDS + 1


def test_a_call_waits_while_the_storage_is_silent_and_is_answered_later(far: Far) -> None:
    (far.first / "asked").write_text("answer")
    heard: list[str] = []
    asker = threading.Thread(target=lambda: heard.append((far.second / "asked").read_text()), daemon=True)
    far.silence()
    try:
        asker.start()
        asker.join(1.0)
        assert heard == [], "no answer, and no error"
        (far.first / "meanwhile").touch()
    finally:
        far.recover()
    asker.join(60)
    assert heard == ["answer"]


def test_a_program_that_waits_for_silent_storage_can_be_killed(far: Far) -> None:
    (far.first / "never").write_text("x")
    far.silence()
    try:
        waiting = subprocess.Popen(["cat", str(far.second / "never")], stdout=subprocess.DEVNULL)
        with pytest.raises(subprocess.TimeoutExpired):
            waiting.wait(1.0)
        waiting.kill()
        assert waiting.wait(10) == -9
    finally:
        far.recover()


HOLD = """
import fcntl, sys
file = open(sys.argv[1], "a")
getattr(fcntl, sys.argv[2])(file, fcntl.LOCK_EX)
print(1, flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("kind", ["lockf", "flock"])
def test_locks_hold_between_nodes(far: Far, kind: str) -> None:
    only_real(far)
    (far.first / "lock").touch()
    command = [sys.executable, "-c", HOLD, str(far.first / "lock"), kind]
    with (
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder,
        (far.second / "lock").open("a") as mine,
    ):
        assert holder.stdout is not None
        assert holder.stdin is not None
        assert holder.stdout.readline() == b"1\n"
        with pytest.raises(BlockingIOError):
            getattr(fcntl, kind)(mine, fcntl.LOCK_EX | fcntl.LOCK_NB)
        holder.stdin.close()

        def free() -> bool:
            try:
                getattr(fcntl, kind)(mine, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
            return True

        assert seen(free) < 30


def test_a_deleted_file_that_is_open_here_keeps_a_name_until_it_is_closed(far: Far) -> None:
    only_real(far)
    folder = far.second / "folder"
    folder.mkdir()
    (folder / "held").write_text("still here")
    with (folder / "held").open() as held:
        (folder / "held").unlink()
        assert [path.name[:4] for path in folder.iterdir()] == [".nfs"]
        with pytest.raises(OSError, match="not empty"):
            folder.rmdir()
        assert held.read() == "still here"
    assert seen(lambda: not list(folder.iterdir())) < CACHE_SECONDS + 1
    folder.rmdir()


def test_what_another_node_deleted_is_stale_in_version_3_and_stays_readable_in_version_4(far: Far) -> None:
    (far.first / "gone").write_text("whole")
    with (far.second / "gone").open() as opened:
        (far.first / "gone").unlink()
        wait("the name is gone", lambda: not (far.second / "gone").exists(), CACHE_SECONDS + 1)
        try:
            wait("the node asks again", lambda: os.fstat(opened.fileno()).st_nlink == 0, CACHE_SECONDS + 1)
        except OSError as error:
            assert (far.name, error.errno) == ("3", errno.ESTALE)
            return
        assert opened.read() == "whole"
    assert far.name != "3"
