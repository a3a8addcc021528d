"""After slurmd or slurmctld was killed, slurmd registers once more when slurmctld would miss a job that has gone."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from slurm_node.pod.supervise import Daemon
from slurm_node.slurm.late_registration import (
    AGAIN_SECONDS,
    SURE_SECONDS,
    UNSAVED_SECONDS,
    LateRegistration,
    missed_after,
)

HEAR = "import signal, sys, time\nsignal.signal(signal.SIGHUP, lambda *_: open(sys.argv[1], 'a').write('heard\\n'))\n"
HEAR += "open(sys.argv[2], 'w').close()\nwhile True: time.sleep(1)"


class Node:
    """A daemon that stands for slurmd, and what it heard."""

    def __init__(self, folder: Path) -> None:
        self.ready, self.heard = folder / "ready", folder / "heard"
        self.heard.touch()
        self.slurmd = Daemon("slurmd", [sys.executable, "-c", HEAR, str(self.heard), str(self.ready)])
        program = Path(sys.executable).resolve()
        self.conf, self.prologs = folder / "slurm.conf", folder / "prologs"
        self.conf.write_text("BatchStartTimeout=3\n")
        self.prologs.mkdir()
        self.clock = self.conf.stat().st_mtime
        self.job_changes(-1000)
        self.jobs = folder / "jobs"
        self.running: set[str] | None = {"7", "8"}
        self.jobs.mkdir()
        for living in ("0", "8"):  # 0 is a jail probe's
            (self.jobs / living).touch()
        self.late = LateRegistration(program, folder, self.prologs, self.jobs, lambda: self.running)
        self.begin(0.0)

    def begin(self, now: float) -> None:
        """Starts it anew, as a tick at that time would, and waits until it hears."""
        if self.slurmd.process:
            self.slurmd.process.kill()
            self.slurmd.process.wait()
        self.ready.unlink(missing_ok=True)
        self.slurmd.process, self.slurmd.not_before = None, 0.0
        self.slurmd.tick(now)
        until(self.ready.exists)
        self.late.tick(now, self.slurmd)

    def gets_configuration(self) -> None:
        """Change the file, as a start of slurmctld or slurmd does, a minute after the last time."""
        self.clock += 60
        os.utime(self.conf, (self.clock, self.clock))

    def job_changes(self, seconds: float) -> None:
        """A job begins or ends, so long after slurmctld's or slurmd's last start."""
        os.utime(self.prologs, (self.clock + seconds, self.clock + seconds))

    def lines(self) -> int:
        return len(self.heard.read_text().splitlines())


def until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)  # Between two looks at a file.


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    made = Node(tmp_path)
    yield made
    made.slurmd.stop(0)


def test_a_slurmd_after_one_that_was_killed_registers_once_more(node: Node) -> None:
    node.begin(100.0)
    node.late.tick(114.9, node.slurmd)
    assert node.lines() == 0
    node.late.tick(115.0, node.slurmd)
    until(lambda: node.lines() == 1)
    node.begin(200.0)
    node.late.tick(1000.0, node.slurmd)
    until(lambda: node.lines() == 2)
    node.late.tick(2000.0, node.slurmd)
    assert node.lines() == 2


def test_after_a_start_of_slurmctld_a_node_without_a_job_of_its_registers_once_more(node: Node) -> None:
    node.late.tick(10.0, node.slurmd)
    node.job_changes(50)
    node.gets_configuration()
    for now in (100.0, 114.9, 115.0, 119.9):
        node.late.tick(now, node.slurmd)
    assert node.lines() == 0
    node.late.tick(120.0, node.slurmd)
    until(lambda: node.lines() == 1)
    node.gets_configuration()  # After SIGHUP slurmd fetches it.
    node.late.tick(125.0, node.slurmd)
    node.late.tick(2000.0, node.slurmd)
    assert node.lines() == 1


def test_slurmd_is_let_alone_while_all_jobs_have_processes_also_if_one_just_begins(node: Node) -> None:
    for began, running in ((100.0, {"8"}), (1000.0, {"7", "8"}), (2000.0, set[str]())):
        node.job_changes(50)
        node.gets_configuration()
        node.running = running
        node.late.tick(began, node.slurmd)
        node.late.tick(began + 15, node.slurmd)
        (node.jobs / "7").touch()
        for later in (20, 200, 400):
            node.late.tick(began + later, node.slurmd)
    assert node.lines() == 0


def test_a_slurmctld_that_is_away_again_is_asked_later(node: Node) -> None:
    node.job_changes(50)
    node.gets_configuration()
    node.running = None
    node.late.tick(100.0, node.slurmd)
    node.late.tick(115.0, node.slurmd)
    node.running = {"7"}
    node.late.tick(115.0 + AGAIN_SECONDS, node.slurmd)
    node.late.tick(115.0 + AGAIN_SECONDS + SURE_SECONDS, node.slurmd)
    until(lambda: node.lines() == 1)


def test_a_node_whose_jobs_all_changed_before_slurmctlds_last_start_asks_nothing(node: Node) -> None:
    node.job_changes(-UNSAVED_SECONDS - 1)
    node.gets_configuration()
    for now in (100.0, 115.0, 120.0, 1000.0):
        node.late.tick(now, node.slurmd)
    assert node.lines() == 0


def test_the_first_slurmd_of_a_container_has_registered_already(node: Node) -> None:
    node.late.tick(1000.0, node.slurmd)
    node.begin(2000.0)
    assert node.lines() == 0


def test_what_still_fetches_its_configuration_is_let_alone(tmp_path: Path) -> None:
    node = Node(tmp_path)
    # The same process, which runs another program yet.
    other = LateRegistration(Path(shutil.which("true") or ""), tmp_path, tmp_path)
    node.begin(100.0)
    other.tick(1000.0, node.slurmd)
    node.slurmd.stop(0)
    assert node.lines() == 0


@pytest.mark.parametrize(
    ("slurm_conf", "seconds"),
    [
        ("", 22),
        ("BatchStartTimeout=60\n", 72),
        ("messagetimeout = 5  # as it was\n", 17),
        ("BatchStartTimeout=1\nMessageTimeout=100\n", 13),
    ],
)
def test_slurmctld_misses_a_job_after_what_the_configuration_says(slurm_conf: str, seconds: int) -> None:
    assert missed_after(slurm_conf) == seconds
