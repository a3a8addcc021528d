"""The NFS programs of tests are fetched once, and a machine that cannot have them is told what to do."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from devcluster.machine.progress import StepFailed
from devcluster.vm import kernel, nfs_tools

ADVICE = "give apt a mirror that has them, or install nfs-kernel-server and nfs-common"


@pytest.fixture(autouse=True)
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The one folder with programs, on a machine without those of NFS and with an empty cache."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setenv("PULUMI_SLURM_CACHE", str(tmp_path / "cache"))
    return folder


def test_a_machine_whose_apt_reaches_no_mirror_is_told_what_to_do(programs: Path) -> None:
    (programs / "apt-get").write_text("#!/bin/sh\necho 'E: Unable to fetch some archives'\nexit 100\n")
    (programs / "apt-get").chmod(0o755)
    with pytest.raises(StepFailed, match=ADVICE) as failed:
        nfs_tools.unpack()
    assert failed.value.log is not None
    assert "Unable to fetch" in failed.value.log.read_text()


def test_a_machine_without_apt_is_told_what_to_do() -> None:
    with pytest.raises(StepFailed, match=ADVICE):
        nfs_tools.unpack()


def test_two_that_need_the_programs_at_once_fetch_them_once(monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[str] = []
    monkeypatch.setattr(nfs_tools, "run_logged", lambda command, *_, **__: ran.append(command[0]))
    other = threading.Thread(target=nfs_tools.unpack)
    with kernel.locked_cache():
        other.start()
        other.join(0.2)
        assert ran == [], "the one before is still at it"
    other.join(20)
    nfs_tools.unpack()
    assert ran == ["apt-get"]
