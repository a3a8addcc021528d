"""Jail probes find a jail that does not work, and one that works again."""

import errno
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from slurm_node.conditions.jail_watch import PERIOD_SECONDS, JailWatch

from contract.reasons import JAIL


class PlayedProbe:
    """A watch over a jail probe whose result a test decides by a file."""

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
            time.sleep(0.01)  # Between two looks at another process.


@pytest.fixture
def probe(tmp_path: Path) -> PlayedProbe:
    return PlayedProbe(tmp_path)


def test_a_failure_speaks_against_the_node_until_a_probe_works(probe: PlayedProbe) -> None:
    assert probe.watch.causes == {}
    probe.says("echo storage is gone; exit 1")
    probe.until(lambda: probe.watch.causes == {JAIL: "storage is gone"})
    assert probe.broken.read_text() == "storage is gone"
    assert not probe.worked.exists()
    probe.says("exit 0")
    probe.until(lambda: probe.watch.causes == {JAIL: None})
    assert not probe.broken.exists()
    assert probe.worked.exists()


def test_a_probe_that_can_not_be_started_speaks_against_the_node(
    probe: PlayedProbe, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")

    with monkeypatch.context() as patched:
        patched.setattr(subprocess, "Popen", fail)
        probe.until(lambda: bool(probe.watch.sentence))
    assert probe.broken.read_text() == "no probe can be started: Resource temporarily unavailable"
    probe.until(lambda: probe.watch.causes == {JAIL: None})


def test_a_probe_that_hangs_is_left_alone_and_no_second_one_started(probe: PlayedProbe, tmp_path: Path) -> None:
    started, gate = tmp_path / "started", tmp_path / "gate"
    probe.says(f"echo x >> {started}; echo it hangs; while [ ! -e {gate} ]; do sleep 0.05; done; exit 1")
    probe.until(lambda: probe.watch.sentence == "it hangs")
    for _ in range(100):
        probe.now += PERIOD_SECONDS
        probe.watch.tick(probe.now)
    assert started.read_text() == "x\n"
    probe.says("exit 0")
    gate.touch()
    probe.until(lambda: probe.watch.causes == {JAIL: None})


def test_a_login_node_tells_whoever_comes_in_a_sentence(probe: PlayedProbe, tmp_path: Path) -> None:
    probe.says("echo it is {stale}; exit 1")
    script = ("/bin/sh", str(tmp_path / "script"))
    probe.watch = JailWatch(script, probe.broken, probe.worked, words="can't enter the jail: {}.\n")
    probe.until(lambda: probe.watch.sentence == "it is {stale}")
    assert probe.broken.read_text() == "can't enter the jail: it is {stale}.\n"


def test_a_probe_that_says_nothing_for_long_counts_as_broken(probe: PlayedProbe, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    probe.says(f"while [ ! -e {gate} ]; do sleep 0.05; done")
    probe.until(lambda: "takes longer" in (probe.watch.sentence or ""))
    gate.touch()
    probe.until(lambda: probe.watch.causes == {JAIL: None})
