"""Users who are logged in to a node are told before it ends, and have some time."""

import os
import pty
from pathlib import Path

import pytest
from slurm_node.roles import prestop


class Clock:
    """Time that passes by sleeping; sessions end at some moment."""

    def __init__(self, end: float) -> None:
        self.now, self.end = 0.0, end

    def sessions(self) -> int:
        return int(self.now < self.end)

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.mark.parametrize(("sessions_end", "waited"), [(0.0, 0.0), (7.0, 7.0), (1000.0, 300.0)])
def test_the_wait_ends_with_the_sessions_or_with_the_grace(tmp_path: Path, sessions_end: float, waited: float) -> None:
    clock = Clock(sessions_end)
    prestop.wait(300, clock.sessions, tmp_path, lambda: clock.now, clock.sleep)
    assert clock.now == waited


def test_each_terminal_reads_it_at_once_and_again_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "0").touch()
    (tmp_path / "ptmx").touch()
    written: list[tuple[str, str]] = []
    monkeypatch.setattr(prestop, "write", lambda terminal, text: written.append((terminal.name, text)))
    clock = Clock(100.0)
    prestop.wait(130, clock.sessions, tmp_path, lambda: clock.now, clock.sleep)
    assert [name for name, _ in written] == ["0", "0"]
    assert "your session here ends in 2 minutes" in written[0][1]
    assert "your session here ends in 70 seconds" in written[1][1]


def test_a_terminal_is_written_and_nothing_else(tmp_path: Path) -> None:
    master, slave = pty.openpty()
    prestop.write(Path(os.ttyname(slave)), "hello")
    assert os.read(master, 100) == b"hello"
    (tmp_path / "0").touch()
    prestop.write(tmp_path / "0", "hello")
    assert (tmp_path / "0").read_text() == ""
    (tmp_path / "1").symlink_to(os.ttyname(slave))
    prestop.write(tmp_path / "1", "hello")
    os.set_blocking(master, False)
    with pytest.raises(BlockingIOError):
        os.read(master, 100)


def test_nobody_logged_in_is_a_count_of_none() -> None:
    assert prestop.sessions_of(0) == 0
    assert prestop.sessions_of(2**22 + 1) == 0
