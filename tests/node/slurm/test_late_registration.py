"""After slurmd or slurmctld was killed, slurmd registers once more when slurmctld would miss a job that has gone."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Callable, Collection, Iterator
from pathlib import Path

import pytest
from slurm_node.pod.supervise import Daemon
from slurm_node.slurm.late_registration import AGAIN_SECONDS, LateRegistration, missed_after

HEAR = "import signal, sys, time\nsignal.signal(signal.SIGHUP, lambda *_: open(sys.argv[1], 'a').write('heard\\n'))\n"
HEAR += "open(sys.argv[2], 'w').close()\nwhile True: time.sleep(1)"


class Node:
    """A daemon that stands for slurmd, and what it heard."""

    def __init__(self, folder: Path) -> None:
        self.ready, self.heard = folder / "ready", folder / "heard"
        self.heard.touch()
        self.slurmd = Daemon("slurmd", [sys.executable, "-c", HEAR, str(self.heard), str(self.ready)])
        program = Path(sys.executable).resolve()
        self.conf, self.jobs = folder / "slurm.conf", folder / "jobs"
        self.conf.write_text("BatchStartTimeout=3\n")
        self.jobs.mkdir()
        self.running: set[str] | None = {"7"}
        self.asked = list[set[str]]()
        self.late = LateRegistration(program, folder, self.jobs, self.are_running)
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

    def are_running(self, jobs: Collection[str]) -> bool | None:
        """Answer as slurmctld would."""
        self.asked.append(set(jobs))
        return None if self.running is None else bool(self.running & set(jobs))

    def gets_configuration(self) -> None:
        """Change the file, as a start of slurmctld or slurmd does."""
        os.utime(self.conf, (self.conf.stat().st_mtime + 1,) * 2)

    def has(self, now: float, *jobs: str) -> None:
        """See these jobs' processes here, besides a jail probe's."""
        for file in self.jobs.iterdir():
            file.unlink()
        for job in ("0", *jobs):
            (self.jobs / job).touch()
        self.late.tick(now, self.slurmd)

    def ticks(self, *times: float) -> None:
        for now in times:
            self.late.tick(now, self.slurmd)

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


def test_a_job_that_ended_here_and_runs_for_a_new_slurmctld_has_slurmd_register_once(node: Node) -> None:
    node.has(90.0, "7", "8")
    node.has(95.0, "8")
    node.gets_configuration()
    node.ticks(100.0, 114.9)
    assert (node.lines(), node.asked) == (0, [])
    node.ticks(115.0)
    until(lambda: node.lines() == 1)
    node.gets_configuration()  # After SIGHUP slurmd fetches it.
    node.ticks(120.0, 135.0, 2000.0)
    assert (node.lines(), node.asked) == (1, [{"7"}])


@pytest.mark.parametrize("running", [set(), {"8"}], ids=["it ended", "another one runs"])
def test_slurmd_is_let_alone_if_slurmctld_knows_the_end(node: Node, running: set[str]) -> None:
    node.running = running
    node.has(90.0, "7", "8")
    node.has(95.0, "8")
    node.gets_configuration()
    node.ticks(100.0, 115.0, 2000.0)
    assert (node.lines(), node.asked) == (0, [{"7"}])


def test_a_node_where_no_job_ended_or_where_it_began_again_asks_nothing(node: Node) -> None:
    node.has(90.0, "7")
    node.gets_configuration()
    node.ticks(100.0, 115.0)
    node.has(120.0)
    node.gets_configuration()
    node.ticks(121.0)
    node.has(130.0, "7")  # It was queued again.
    node.ticks(136.0, 2000.0)
    assert (node.lines(), node.asked) == (0, [])


def test_a_slurmctld_that_is_away_again_is_asked_later_also_for_jobs_before_its_last_start(node: Node) -> None:
    node.running = None
    node.has(90.0, "7")
    node.has(95.0)
    node.gets_configuration()
    node.ticks(100.0, 115.0)
    node.gets_configuration()
    node.ticks(116.0)
    node.running = {"7"}
    node.ticks(131.0)
    until(lambda: node.lines() == 1)


def test_without_a_start_a_slurmctld_that_did_not_answer_is_asked_again(node: Node) -> None:
    node.running = None
    node.has(90.0, "7")
    node.has(95.0)
    node.gets_configuration()
    node.ticks(100.0, 115.0)
    node.running = {"7"}
    node.ticks(115.0 + AGAIN_SECONDS)
    until(lambda: node.lines() == 1)


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
