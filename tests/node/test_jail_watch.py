"""A jail that does not work is found by trials, and so is one that works again."""

import errno
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from slurm_node.conditions.jail_watch import PERIOD_SECONDS, JailWatch

from contract.reasons import JAIL


class Trial:
    """A watch over a trial that a test's file decides."""

    def __init__(self, folder: Path) -> None:
        self._script = folder / "script"
        self.now = 0.0
        self.broken, self.worked = folder / "broken", folder / "worked"
        self.says("exit 0")
        self.watch = JailWatch(("/bin/sh", str(self._script)), self.broken, self.worked)

    def says(self, script: str) -> None:
        self._script.write_text(script)

    def until(self, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + 20
        while not condition():
            assert time.monotonic() < deadline, self.watch.sentence
            self.now += 0.5
            self.watch.tick(self.now)
            time.sleep(0.01)


@pytest.fixture
def trial(tmp_path: Path) -> Trial:
    return Trial(tmp_path)


def test_a_failure_speaks_against_the_node_until_a_trial_works(trial: Trial) -> None:
    assert trial.watch.causes == {}
    trial.says("echo storage is gone; exit 1")
    trial.until(lambda: trial.watch.causes == {JAIL: "storage is gone"})
    assert trial.broken.read_text() == "storage is gone"
    assert not trial.worked.exists()
    trial.says("exit 0")
    trial.until(lambda: trial.watch.causes == {JAIL: None})
    assert not trial.broken.exists()
    assert trial.worked.exists()


def test_a_trial_that_can_not_be_started_speaks_against_the_node(trial: Trial, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")

    with monkeypatch.context() as patched:
        patched.setattr(subprocess, "Popen", fail)
        trial.until(lambda: bool(trial.watch.sentence))
    assert trial.broken.read_text() == "no probe can be started: Resource temporarily unavailable"
    trial.until(lambda: trial.watch.causes == {JAIL: None})


def test_a_trial_that_hangs_is_left_alone_and_no_second_one_started(trial: Trial, tmp_path: Path) -> None:
    started, gate = tmp_path / "started", tmp_path / "gate"
    trial.says(f"echo x >> {started}; echo it hangs; while [ ! -e {gate} ]; do sleep 0.05; done; exit 1")
    trial.until(lambda: trial.watch.sentence == "it hangs")
    for _ in range(100):
        trial.now += PERIOD_SECONDS
        trial.watch.tick(trial.now)
    assert started.read_text() == "x\n"
    trial.says("exit 0")
    gate.touch()
    trial.until(lambda: trial.watch.causes == {JAIL: None})


def test_a_login_node_tells_whoever_comes_in_a_sentence(trial: Trial, tmp_path: Path) -> None:
    trial.says("echo it is {stale}; exit 1")
    script = ("/bin/sh", str(tmp_path / "script"))
    trial.watch = JailWatch(script, trial.broken, trial.worked, words="can't enter the jail: {}.\n")
    trial.until(lambda: trial.watch.sentence == "it is {stale}")
    assert trial.broken.read_text() == "can't enter the jail: it is {stale}.\n"


def test_a_trial_that_says_nothing_for_long_counts_as_broken(trial: Trial, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    trial.says(f"while [ ! -e {gate} ]; do sleep 0.05; done")
    trial.until(lambda: "takes longer" in (trial.watch.sentence or ""))
    gate.touch()
    trial.until(lambda: trial.watch.causes == {JAIL: None})
