"""Files that must survive a crash reach the disk in a safe order: no moment loses them."""

from __future__ import annotations

import ctypes
import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from slurm_node.accounts import account_files, account_sync
from slurm_node.pod import durable, system
from slurm_node.roles import populate
from slurm_node.roots import copying

Steps = list[tuple[str, str]]


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> Steps:
    """Return what was synchronized and renamed, in order, by the last part of its name."""
    seen: Steps = []

    def noted(call: str, original: Callable[..., object]) -> Callable[..., object]:
        def run(*arguments: object, **named: object) -> object:
            what = arguments[-1] if call == "rename" else arguments[0]
            path = Path(f"/proc/self/fd/{what}").readlink() if isinstance(what, int) else what
            seen.append((call, Path(str(path)).name))
            return original(*arguments, **named)

        return run

    monkeypatch.setattr(os, "fsync", noted("fsync", os.fsync))
    monkeypatch.setattr(os, "rename", noted("rename", os.rename))
    monkeypatch.setattr(os, "replace", noted("rename", os.replace))
    for module in (copying, durable, populate):
        monkeypatch.setattr(module, "sync_file_system", noted("syncfs", system.sync_file_system))
    return seen


def test_a_file_is_on_the_disk_before_its_name_and_its_name_before_anybody_builds_on_it(
    tmp_path: Path, steps: Steps
) -> None:
    durable.write_durably(tmp_path / "marker.json", "{}\n")
    assert steps == [("fsync", ".marker.json.new"), ("rename", "marker.json"), ("fsync", tmp_path.name)]
    assert (tmp_path / "marker.json").read_text() == "{}\n"


def test_what_only_root_may_read_was_never_readable(tmp_path: Path) -> None:
    (tmp_path / ".people.json.new").write_text("of a crash")
    (tmp_path / ".people.json.new").chmod(0o644)
    account_sync._save(tmp_path / "people.json", {("shadow", "alice"): "alice:!:"})
    assert (tmp_path / "people.json").stat().st_mode & 0o777 == 0o600
    assert account_sync._load(tmp_path / "people.json") == {("shadow", "alice"): "alice:!:"}


def test_a_home_is_whole_on_the_disk_before_it_gets_its_name(tmp_path: Path, steps: Steps) -> None:
    (tmp_path / "aside/.ssh").mkdir(parents=True)
    (tmp_path / "aside/.ssh/authorized_keys").touch()
    (tmp_path / "aside/link").symlink_to("nowhere")
    durable.move(tmp_path / "aside", tmp_path / "alice")
    before = {("fsync", "aside"), ("fsync", ".ssh"), ("fsync", "authorized_keys")}
    assert set(steps[:3]) == before
    assert steps[3:] == [("rename", "alice"), ("fsync", tmp_path.name)]
    assert (tmp_path / "alice/.ssh/authorized_keys").exists()


def test_a_root_is_whole_on_the_disk_before_it_gets_its_name(tmp_path: Path, steps: Steps) -> None:
    (tmp_path / "building").mkdir()
    durable.move_root(tmp_path / "building", tmp_path / "root")
    assert steps == [("syncfs", "building"), ("rename", "root"), ("fsync", tmp_path.name)]
    assert (tmp_path / "root").is_dir()


def a_copy(folder: Path) -> copying.Copy:
    """One whose first part is there and not noted yet."""
    (folder / "building").mkdir()
    return copying.Copy(folder / "image", folder / "building", folder / "journal.json", total=1, done={"etc"})


def test_a_copied_part_is_on_the_volumes_disk_before_it_is_noted(
    tmp_path: Path, steps: Steps, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sync", lambda: pytest.fail("it waits for file systems that are not the volume's"))
    a_copy(tmp_path).note()
    assert steps == [
        ("syncfs", "building"),
        ("fsync", ".journal.json.new"),
        ("rename", "journal.json"),
        ("fsync", tmp_path.name),
    ]


def test_a_part_that_the_storage_lost_is_not_noted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def lost(_: Path) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(copying, "sync_file_system", lost)
    copy = a_copy(tmp_path)
    with pytest.raises(OSError, match="Input/output error"):
        copy.note()
    assert not copy.journal.exists()


def test_an_account_file_is_on_the_disk_when_it_was_replaced(tmp_path: Path, steps: Steps) -> None:
    folder = os.open(tmp_path, os.O_RDONLY)
    try:
        account_files.replace(folder, "passwd", "root:x:0:0::/root:/bin/sh\n", 0o644)
    finally:
        os.close(folder)
    assert steps == [("fsync", "passwd.pulumi-slurm.new"), ("rename", "passwd"), ("fsync", tmp_path.name)]


def test_a_write_that_failed_later_is_an_error_of_the_synchronization(monkeypatch: pytest.MonkeyPatch) -> None:
    class Full:
        @staticmethod
        def syncfs(_: int) -> int:
            return -1

    monkeypatch.setattr(system, "_LIBC", Full)
    monkeypatch.setattr(ctypes, "get_errno", lambda: 28)
    with pytest.raises(OSError, match="No space left on device"):
        system.sync_file_system(Path("/"))
