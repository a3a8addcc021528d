"""Old roots go when nobody uses them and there are too many, and never otherwise."""

import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from slurm_node.accounts import account_sync
from slurm_node.pod import paths, settings
from slurm_node.roles import roots_controller
from slurm_node.roots import old_roots
from slurm_node.roots.old_roots import OldRoot, surplus

from tests.node.accounts.volume_roots import make_root
from tests.node.roots.nested_folders import nest

HOUR = 3600.0
NOW = 100 * HOUR
NAMED = ("r9",)


def root(name: str, made: float, used: float = 0.0) -> OldRoot:
    """A root whose times are hours ago."""
    return OldRoot(name, NOW - made * HOUR, NOW - used * HOUR if used else 0.0)


@pytest.mark.parametrize(
    ("roots", "keep", "gone"),
    [
        ([root("a", 9), root("b", 8), root("c", 7), root("d", 6)], 3, ["a"]),
        ([root("named", 9), root("b", 8), root("c", 7), root("d", 6)], 2, ["b"]),
        ([root("named", 9, 8), root("b", 9, 0.1)], 1, []),
        ([root("a", 9), root("b", 8)], 3, []),
        ([root("a", 9, 0.01), root("b", 8), root("c", 7)], 1, ["c", "b"]),
        ([root("a", 9, 0.5), root("b", 8, 0.5), root("c", 7, 0.5)], 1, []),
        ([root("a", 0.5), root("b", 0.4), root("c", 0.3)], 1, []),
        ([root("a", 9)], 0, []),
    ],
    ids=[
        "too many",
        "named",
        "named, of old",
        "few",
        "the used one counts as newest",
        "all in use",
        "just made",
        "one always stays",
    ],
)
def test_only_what_is_unused_and_too_many_goes(roots: list[OldRoot], keep: int, gone: list[str]) -> None:
    assert surplus(roots, keep, NOW, {"named"}) == gone


def test_nothing_goes_while_the_configuration_is_not_known() -> None:
    assert surplus([root("a", 9), root("b", 8)], 1, NOW, set()) == []


def age(path: Path, hours: float) -> None:
    moment = time.time() - hours * HOUR
    os.utime(path, (moment, moment))


@pytest.fixture
def volume(tmp_path: Path) -> Path:
    for number in (1, 2, 3):
        make_root(tmp_path, f"r{number}")
        age(tmp_path / f"manifests/r{number}.json", 10 - number)
    account_sync.synchronize(tmp_path)
    return tmp_path


def use(volume: Path, revision: str, hours: float) -> None:
    """A pod used a root some hours ago."""
    pod = paths.facts_of(volume, revision) / "uses/cpu-0"
    pod.parent.mkdir(exist_ok=True)
    pod.touch()
    age(pod, hours)


def test_a_collected_root_leaves_its_report_and_nothing_that_would_be_taken_for_a_root(volume: Path) -> None:
    old_roots.collect(volume, 2, (), NAMED)
    assert sorted(path.name for path in (volume / "roots").iterdir()) == ["r2", "r3"]
    assert account_sync.complete_roots(volume) == ["r3", "r2"]
    assert not paths.manifest_of(volume, "r1").exists()


def test_a_root_stays_whose_changes_can_not_be_told(volume: Path) -> None:
    (paths.facts_of(volume, "r1") / "files.gz").write_bytes(b"broken")
    age(volume / "manifests/r2.json", 12)
    old_roots.collect(volume, 1, (), NAMED)
    assert account_sync.complete_roots(volume) == ["r3", "r1"], "and r2, which nothing was noted of, is gone"


def test_a_root_in_use_stays_however_old(volume: Path) -> None:
    use(volume, "r1", 0.1)
    use(volume, "r2", 5)
    old_roots.collect(volume, 1, (), NAMED)
    assert account_sync.complete_roots(volume) == ["r1"]


def test_a_root_that_the_configuration_names_stays_without_any_pod(volume: Path, tmp_path: Path) -> None:
    folder = tmp_path / "mounted"
    (folder / "..data").mkdir(parents=True)  # As kubelet lays a ConfigMap out.
    for revision in ("r1", "r3"):
        (folder / "..data" / revision).touch()
        (folder / revision).symlink_to(f"..data/{revision}")
    old_roots.collect(volume, 1, (), old_roots.named(folder))
    assert account_sync.complete_roots(volume) == ["r3", "r1"]
    assert old_roots.named(tmp_path / "missing") == frozenset()


def test_what_a_collector_that_was_ended_left_is_removed(volume: Path) -> None:
    (volume / "roots/.collecting-r0/etc").mkdir(parents=True)
    old_roots.collect(volume, 9, (), NAMED)
    assert not (volume / "roots/.collecting-r0").exists()


def test_a_root_goes_however_deep_people_nested_folders_in_it(volume: Path) -> None:
    nest(volume / "roots/r1", "d", 3000)
    try:
        old_roots.collect(volume, 2, (), NAMED)
        assert sorted(path.name for path in (volume / "roots").iterdir()) == ["r2", "r3"]
    finally:
        # Nor could the tests' own way, if it is still there.
        subprocess.run(["rm", "-rf", volume / "roots"], check=True)


def test_a_root_that_can_not_be_deleted_is_said_tried_again_and_holds_up_no_other(
    volume: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    (volume / "roots/.collecting-r0").mkdir()
    (volume / "roots/.collecting-r0/.nfs0001").touch()
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/rm").write_text("#!/bin/sh\necho 'rm: no' >&2\nexit 1\n")
    (tmp_path / "bin/rm").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    old_roots.collect(volume, 2, (), NAMED)
    said = capfd.readouterr().err
    assert ".collecting-r1 is not deleted whole: rm: no; trying again in 10 minutes" in said
    assert ".collecting-r0 is not deleted whole: a process on this node still has" in said
    assert ".nfs0001 open; trying again in 10 minutes" in said
    monkeypatch.undo()
    old_roots.collect(volume, 2, (), NAMED)
    assert list((volume / "roots").glob(".collecting-*")) == []


def test_a_pod_says_that_it_uses_its_root(volume: Path) -> None:
    used = old_roots.Use("r1", "cpu-0", volume)
    used.tick(0.0)
    deadline = time.monotonic() + 60
    while not old_roots._read(volume, "r1").used and time.monotonic() < deadline:
        time.sleep(0.05)  # Another thread writes the file.
    assert old_roots._read(volume, "r1").used


class Ended(Exception):
    """The looks that a test wants are done."""


@pytest.fixture
def look(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """The controller's loop for so many looks, without its waits and its other cares."""
    monkeypatch.setattr(settings, "read_jail", lambda: settings.Jail("r1", ()))
    monkeypatch.setattr(old_roots, "collect", lambda *_: None)
    monkeypatch.setattr(roots_controller.driver.Links, "tick", lambda _: None)
    monkeypatch.setattr(old_roots.Use, "tick", lambda *_: None)

    def looks(number: int) -> None:
        left = iter(range(1, number))

        def pause(_: float) -> None:
            if next(left, None) is None:
                raise Ended

        monkeypatch.setattr(roots_controller.time, "sleep", pause)
        with pytest.raises(Ended):
            roots_controller.main()

    return looks


def test_people_that_can_not_be_synchronized_hold_up_no_collection(
    monkeypatch: pytest.MonkeyPatch, look: Callable[[int], None]
) -> None:
    def fail(*_: object) -> None:
        raise OSError("somebody has held the account files for long")

    collected: list[int] = []
    monkeypatch.setattr(account_sync, "signature", fail)
    monkeypatch.setattr(old_roots, "collect", lambda _, keep, *__: collected.append(keep))
    look(1)
    assert collected == [settings.Jail("r1", ()).keep_roots]


def test_a_change_that_falls_into_a_synchronization_is_seen_at_the_next_look(
    monkeypatch: pytest.MonkeyPatch, look: Callable[[int], None]
) -> None:
    said, taken = ["alice"], list[tuple[str, ...]]()

    def synchronize(_: object) -> None:
        taken.append(tuple(said))
        if len(taken) == 1:
            said.append("dora")  # By useradd, which waited for the lock.

    monkeypatch.setattr(account_sync, "signature", lambda _: tuple(said))
    monkeypatch.setattr(account_sync, "synchronize", synchronize)
    look(3)
    assert taken == [("alice",), ("alice", "dora")]
