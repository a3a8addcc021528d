"""Storage that can't hold a root is refused in a sentence before anything is written; tests/vm has the real server."""

from __future__ import annotations

import errno
import fcntl
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from slurm_node.pod import settings
from slurm_node.pod.log import NodeError
from slurm_node.roles import populate
from slurm_node.roots import nfs_mounts, volume_probe

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="sets owners")

LINE = (
    "601 29 0:59 / /mnt/jail rw,relatime shared:1 - nfs4 10.88.0.1:/ rw,vers=4.2,hard,{}local_lock=none,addr=10.88.0.1"
)
HERE = Path("/mnt/jail")


@pytest.fixture
def volume(open_folder: Path) -> Path:
    """A volume that any user may reach and write to, as an export for all is."""
    made = open_folder / "volume"
    made.mkdir()
    made.chmod(0o1777)
    return made


@contextmanager
def squashed() -> Iterator[None]:
    """Root is nobody meanwhile, as on a server that squashes him."""
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


def raising(number: int) -> object:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    return refuse


def test_a_volume_that_can_hold_a_root_has_no_problem_and_keeps_nothing(volume: Path) -> None:
    assert volume_probe.problems(volume) == []
    assert list(volume.iterdir()) == []


def test_root_squash_is_told_where_root_may_write_as_somebody_else(volume: Path) -> None:
    with squashed():
        (sentence,) = volume_probe.problems(volume)
    assert sentence == (
        "the jail's storage makes root another user (root_squash): export it with no_root_squash to the addresses of"
        " all nodes (root's file belongs to 65534)"
    )
    assert list(volume.iterdir()) == []


def test_root_squash_is_told_where_root_may_not_write(volume: Path) -> None:
    volume.chmod(0o755)
    with squashed():
        (sentence,) = volume_probe.problems(volume)
    assert sentence == (
        "the jail's storage does not let root write: export it with no_root_squash to the addresses of all nodes"
    )


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (errno.EROFS, "is read-only: export it with rw, and mount it without ro"),
        (errno.ENOSPC, "is full: make room on it, or enlarge pulumi-slurm:jail.storage.size"),
        (errno.EDQUOT, "is full: make room on it"),
        (errno.ESTALE, "is not what was mounted (stale file handle): export the same folder again"),
        (errno.EIO, "refuses to be written (Input/output error)"),
    ],
)
@pytest.mark.parametrize("call", ["mkdir", "fsync"])
def test_each_refusal_of_a_write_is_one_sentence(
    volume: Path, monkeypatch: pytest.MonkeyPatch, call: str, number: int, words: str
) -> None:
    monkeypatch.setattr(os, call, raising(number))
    (sentence,) = volume_probe.problems(volume)
    assert sentence.startswith("the jail's storage ")
    assert words in sentence
    monkeypatch.undo()
    assert list(volume.iterdir()) == []


@pytest.mark.parametrize(
    ("module", "call", "number", "words"),
    [
        (os, "chown", errno.EPERM, "refuses root a change of owner or mode (Operation not permitted)"),
        (os, "chmod", errno.EPERM, "refuses root a change of owner or mode"),
        (os, "symlink", errno.EOPNOTSUPP, "refuses a symbolic link (Operation not supported)"),
        (os, "link", errno.EPERM, "refuses a hard link"),
        (fcntl, "lockf", errno.ENOLCK, "has no POSIX locks"),
        (fcntl, "flock", errno.EOPNOTSUPP, "has no flock locks"),
    ],
)
def test_what_else_a_root_needs_is_tried(
    volume: Path, monkeypatch: pytest.MonkeyPatch, module: object, call: str, number: int, words: str
) -> None:
    monkeypatch.setattr(module, call, raising(number))
    (sentence,) = volume_probe.problems(volume)
    assert words in sentence
    monkeypatch.undo()
    assert list(volume.iterdir()) == []


def test_all_problems_are_told_at_once(volume: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "chown", raising(errno.EPERM))
    monkeypatch.setattr(fcntl, "lockf", raising(errno.ENOLCK))
    with pytest.raises(NodeError, match=r"change of owner .*; the jail's storage has no POSIX locks"):
        volume_probe.check(volume)


def test_what_a_pod_that_was_ended_left_goes_after_an_hour(volume: Path) -> None:
    old, young = volume / ".probe-old", volume / ".probe-young"
    for left in (old, young):
        left.mkdir()
        (left / "file").touch()
    before = time.time() - 2 * volume_probe.LEFT_OVER_SECONDS
    os.utime(old, (before, before))
    assert volume_probe.problems(volume) == []
    assert list(volume.iterdir()) == [young]


def test_a_storage_that_is_silent_is_told_of(volume: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    told = threading.Event()

    def say(sentence: str) -> None:
        said.append(sentence)
        told.set()

    def slow(_: Path) -> list[str]:
        assert told.wait(30)
        return []

    monkeypatch.setattr(volume_probe, "PATIENCE_SECONDS", 0.05)
    monkeypatch.setattr(volume_probe, "say", say)
    monkeypatch.setattr(volume_probe, "problems", slow)
    volume_probe.check(volume)
    assert "see whether its server runs and can be reached" in said[0]


def test_populate_writes_nothing_where_the_probe_refuses(volume: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(populate.paths, "VOLUME", volume)
    monkeypatch.setattr(populate, "is_mount_point", lambda _: True)
    monkeypatch.setenv("SLURM_JAIL", '{"revision": "r1", "persistent": ["/home"], "tmpMib": 64, "shmMib": 64}')
    monkeypatch.setenv("SLURM_USERS", "[]")
    with squashed(), pytest.raises(NodeError, match="root_squash"):
        populate.main()
    assert list(volume.iterdir()) == []
    assert settings.read_jail().revision == "r1"


def test_the_options_of_the_volumes_own_mount_are_read() -> None:
    other = LINE.replace("/mnt/jail", "/mnt/other").format("lookupcache=none,")
    table = f"{other}\n{LINE.format('soft,')}\n{LINE.format('lookupcache=pos,')}\n"
    found = nfs_mounts.of(table, HERE)
    assert found is not None
    assert (found["lookupcache"], found["vers"], "soft" in found) == ("pos", "4.2", False)


@pytest.mark.parametrize("table", ["", "29 1 8:1 / /mnt/jail rw - ext4 /dev/sda1 rw\n"])
def test_other_storage_has_no_nfs_options(table: str) -> None:
    assert nfs_mounts.of(table, HERE) is None


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"local_lock": "all"}, "mounted with nolock or local_lock"),
        ({"local_lock": "flock"}, "mounted with nolock or local_lock"),
        ({"soft": "", "local_lock": "none"}, "mounted soft"),
    ],
)
def test_options_that_lose_what_is_written_are_refused(options: dict[str, str], words: str) -> None:
    (sentence,) = nfs_mounts.problems(options)
    assert words in sentence


def test_good_options_are_no_problem() -> None:
    assert nfs_mounts.problems({"hard": "", "local_lock": "none"}) == []


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "lookupcache=positive"),
        ({"acregmax": "3"}, "lookupcache=positive"),
        ({"lookupcache": "pos"}, "actimeo=3"),
        ({"acregmax": "3", "acdirmax": "30", "lookupcache": "none"}, "actimeo=3"),
    ],
)
def test_options_that_show_changes_late_are_advised_against(options: dict[str, str], words: str) -> None:
    (sentence,) = nfs_mounts.advice(options)
    assert words in sentence


def test_a_version_that_loses_times_is_advised_against() -> None:
    (sentence,) = nfs_mounts.advice({"noac": "", "vers": "4.2"})
    assert sentence.endswith("mount it with nfsvers=4.1")


@pytest.mark.parametrize(
    "options",
    [
        {"lookupcache": "pos", "vers": "4.1", "acregmin": "3", "acregmax": "3", "acdirmin": "3", "acdirmax": "3"},
        {"lookupcache": "none", "acregmax": "1", "acdirmax": "5"},
        {"noac": ""},
    ],
)
def test_options_that_show_changes_in_time_need_no_advice(options: dict[str, str]) -> None:
    assert nfs_mounts.advice(options) == []
