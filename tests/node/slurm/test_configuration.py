"""The configuration of a node: what slurmctld answers, and nothing else."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest
from slurm_node.pod import slurmd_port
from slurm_node.slurm import configless_cache, configuration
from slurm_node.slurm.config_renewal import ANSWER_SECONDS, EVERY_SECONDS, ConfigRenewal

FILES = {"slurm.conf": "ClusterName=x\n", "plugstack.conf": "required x\n"}


class Asked:
    """A question that is answered at the given look, or never."""

    def __init__(self, at: int | None, files: dict[str, str] | None = None, *, over: bool = False) -> None:
        self._left, self._files, self._over = at, files or FILES, over
        self.ended = False

    def files(self) -> dict[str, str] | None:
        if self._left is None:
            return None
        self._left -= 1
        return self._files if self._left < 0 else None

    def is_over(self) -> bool:
        return self._over

    def end(self) -> None:
        self.ended = True


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def ask(*asked: Asked) -> tuple[dict[str, str] | None, float]:
    clock, left = Clock(), list(asked)
    found = configuration.fetch(lambda: left.pop(0) if left else Asked(None), clock=clock, sleep=clock.sleep)
    return found, clock.now


def test_files_are_taken_as_soon_as_all_are_there() -> None:
    asked = Asked(3)
    files, seconds = ask(asked)
    assert files == FILES
    assert seconds < 0.1
    assert asked.ended


def test_a_slurmd_that_waits_after_a_failure_is_started_anew() -> None:
    silent = Asked(None)
    files, seconds = ask(silent, Asked(0))
    assert files == FILES
    assert configuration.ATTEMPT_SECONDS <= seconds < 10
    assert silent.ended


def test_one_that_has_ended_is_not_waited_for() -> None:
    files, seconds = ask(Asked(None, over=True), Asked(0))
    assert files == FILES
    assert seconds < 0.1


def test_a_silent_slurmctld_holds_nothing_up_for_ever() -> None:
    files, seconds = ask()
    assert files is None
    assert seconds < configuration.DEADLINE_SECONDS + 1


def test_what_is_there_becomes_what_was_fetched(tmp_path: Path) -> None:
    folder = tmp_path / "conf"
    assert configuration.put(FILES, folder)
    (folder / "old.conf").write_text("gone")
    (folder / "slurm.conf").write_text("spoiled")
    before = (folder / "plugstack.conf").stat().st_ino
    assert configuration.put(FILES, folder)
    assert configless_cache.read(folder) == FILES
    assert sorted(each.name for each in folder.iterdir()) == sorted(FILES)
    assert (folder / "plugstack.conf").stat().st_ino != before, "configless_cache.Judge sees that it was fetched again"
    assert not configuration.put(FILES, folder)


def test_a_link_that_somebody_planted_is_not_followed(tmp_path: Path) -> None:
    victim, folder = tmp_path / "victim", tmp_path / "conf"
    victim.write_text("mine")
    folder.mkdir()
    for name in (".slurm.conf.new", "slurm.conf", "plugstack.conf"):
        (folder / name).symlink_to(victim)
    configuration.put(FILES, folder)
    assert victim.read_text() == "mine"
    assert configless_cache.read(folder) == FILES
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (tmp_path / "link").symlink_to(elsewhere)
    with pytest.raises(OSError, match=r"Not a directory|symbolic links"):
        configuration.put(FILES, tmp_path / "link")
    assert not list(elsewhere.iterdir())


SLURMD = """
cd "$0/spool"; mkdir -p conf-cache/sub
for name in slurm.conf ../outside ../../run/outside sub/below; do echo "$name" > "conf-cache/$name"; done
ln -s "$PWD/conf-cache" ../run/conf
exec sleep 60
"""
"""Stands for a slurmd that writes each name of an answer where it leads."""


def test_a_name_that_is_not_flat_gives_a_node_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(configuration, "APART", ("sh", "-c", SLURMD))
    work, folder = tmp_path / "work", tmp_path / "conf"
    files = configuration.fetch(lambda: configuration.Fetch("slurmctld:6817", tmp_path / "key", work))
    assert files == {"slurm.conf": "slurm.conf\n"}
    configuration.put(files, folder)
    assert [*tmp_path.rglob("*")] == [folder, folder / "slurm.conf"]
    for name in ("../outside", "sub/below", f"{tmp_path}/outside"):
        with pytest.raises(FileNotFoundError):
            configuration.put({name: "text"}, folder)
    assert {*tmp_path.rglob("*")} <= {folder, folder / "slurm.conf"}


def renewal(tmp_path: Path, begin: Callable[[], Asked]) -> tuple[ConfigRenewal, list[str]]:
    told: list[str] = []
    return ConfigRenewal(begin, lambda: told.append("changed"), tmp_path / "conf"), told


def test_sackd_is_told_of_other_files_alone(tmp_path: Path) -> None:
    made = iter([Asked(0), Asked(0), Asked(0, {**FILES, "slurm.conf": "ClusterName=y\n"})])
    renewed, told = renewal(tmp_path, lambda: next(made))
    for start in (0, EVERY_SECONDS + 1, 2 * EVERY_SECONDS + 2):
        renewed.tick(start)
        renewed.tick(start + 0.5)
    assert told == ["changed", "changed"]
    assert (configless_cache.read(tmp_path / "conf") or {})["slurm.conf"] == "ClusterName=y\n"


def test_a_question_without_an_answer_ends_and_is_asked_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    silent = Asked(None)
    made = iter([silent, Asked(0)])
    renewed, told = renewal(tmp_path, lambda: next(made))
    renewed.tick(0)
    renewed.tick(ANSWER_SECONDS - 1)
    assert not silent.ended
    renewed.tick(ANSWER_SECONDS)
    assert silent.ended
    assert "slurmctld gave no configuration" in "".join(capsys.readouterr())
    renewed.tick(ANSWER_SECONDS + EVERY_SECONDS)
    renewed.tick(ANSWER_SECONDS + EVERY_SECONDS + 1)
    assert told == ["changed"]


@pytest.mark.parametrize(
    ("words", "where"),
    [
        ("", ("AF_INET", "0.0.0.0", 6818)),
        ("CommunicationParameters=block_null_hash,EnableIPv6\n", ("AF_INET6", "::", 6818)),
        ("communicationparameters=noinaddrany\n", ("AF_INET", "cpu-0", 6818)),
    ],
)
def test_slurmds_port_is_held_where_slurmd_would_listen(words: str, where: tuple[str, str, int]) -> None:
    family, host, port = slurmd_port.address(f"SlurmdPort=6818\n{words}", "cpu-0")
    assert (family.name, host, port) == where


def test_the_port_is_nobody_elses_while_slurmd_is_away_and_takes_connections_again() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    held = slurmd_port.HeldPort(socket.AF_INET, "127.0.0.1", port)

    def connects() -> bool:
        with socket.socket() as client:
            return client.connect_ex(("127.0.0.1", port)) == 0

    def is_taken() -> bool:
        with socket.socket() as other:
            other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                other.bind(("127.0.0.1", port))
            except OSError:
                return False
            return True

    for _ in range(2):
        assert not connects()
        assert not is_taken()
        listening = socket.socket(fileno=os.dup(held.listen()))
        assert connects()
        accepted, _peer = listening.accept()  # a connection that slurmd leaves behind
        assert not is_taken()
        held.refuse()
        listening.close()
        accepted.close()
