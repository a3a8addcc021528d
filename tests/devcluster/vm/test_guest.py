"""Promises of the guest in which tests of cgroup v2 and NFS run: its results come back, and it always ends."""

from __future__ import annotations

import os
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from devcluster.machine.bootstrap import CHECKOUT
from devcluster.vm import guest, kernel, own_kernel
from devcluster.vm import tests as vm_tests

SMALL = guest.Size(memory_mib=512, disk_gib=1)
needs_kernel = pytest.mark.skipif(not kernel.is_built(), reason="the cache has no kernel of the guest: make test-vm")

ONE_PASSES_ONE_HANGS = """
import time

def test_that_passes():
    pass

def test_that_hangs():
    time.sleep(1000)  # Stands for a test that hangs: the deadline under test ends it.
"""


def run(folder: Path, *command: str, seconds: float = 60) -> int:
    return guest.run(command, folder, directory=CHECKOUT, environment={}, seconds=seconds, size=SMALL)


@needs_kernel
def test_a_command_runs_on_the_other_kernel_and_its_status_and_files_come_back(tmp_path: Path) -> None:
    line = f"cp /sys/fs/cgroup/cgroup.controllers {tmp_path}/found; pwd > {tmp_path}/where; nproc; exit 7"
    assert run(tmp_path, "sh", "-c", line) == 7
    assert {*(tmp_path / "found").read_text().split()} >= own_kernel.CONTROLLERS
    assert (tmp_path / "where").read_text() == f"{CHECKOUT}\n"


@needs_kernel
def test_what_a_guest_writes_elsewhere_is_gone_with_it(tmp_path: Path) -> None:
    assert run(tmp_path, "sh", "-c", "touch /of-the-guest /scratch/of-the-guest") == 0
    assert not Path("/of-the-guest").exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["first", "init", "off", "script", "status"]


@needs_kernel
def test_a_guest_that_hangs_is_ended(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert run(tmp_path, "sh", "-c", "echo begun; sleep 1000", seconds=20) == guest.TIMED_OUT
    assert "begun" in capfd.readouterr().out
    assert not subprocess.run(["pgrep", "-f", f"vmfolder={tmp_path}"], capture_output=True, check=False).stdout


@needs_kernel
def test_a_guest_ends_with_who_started_it(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from tests.devcluster.vm.test_guest import run;"
        "run(Path(sys.argv[1]), 'sh', '-c', 'echo begun; sleep 1000')"
    )
    starter = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)], cwd=CHECKOUT, env={**os.environ, "PYTHONPATH": "."},
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert starter.stdout is not None
    assert any("begun" in line for line in starter.stdout)
    starter.kill()
    starter.wait()
    # Its end closes the last copy of what it prints to.
    assert starter.stdout.read() == ""


@needs_kernel
def test_results_of_tests_come_back_as_junit(tmp_path: Path) -> None:
    report = tmp_path / "report.xml"
    status = vm_tests.run(["tests/devcluster/vm/test_guest.py::test_on_whatever_kernel_this_is"], report)
    assert status == 0
    (case,) = ElementTree.parse(report).getroot().iter("testcase")
    assert case.get("name") == "test_on_whatever_kernel_this_is"


@needs_kernel
def test_results_come_back_of_tests_that_hang(tmp_path: Path) -> None:
    (tmp_path / "test_hang.py").write_text(ONE_PASSES_ONE_HANGS)
    report = tmp_path / "report.xml"
    assert vm_tests.run([str(tmp_path / "test_hang.py")], report, seconds=30) == guest.TIMED_OUT
    assert "test_that_passes" in {case.get("name") for case in ElementTree.parse(report).getroot().iter("testcase")}


@needs_kernel
def test_tests_that_are_begun_in_a_guest_run_on_its_own_kernel(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """A machine that lacks nothing, as the guest: no second guest starts in it."""
    report = tmp_path / "report.xml"
    begin = f"tests.run(['tests/vm/test_this_kernel.py'], Path({str(report)!r}))"
    code = f"import sys; from pathlib import Path; from devcluster.vm import tests; sys.exit({begin})"
    environment = vm_tests.environment()
    status = guest.run(
        [sys.executable, "-c", code], tmp_path, directory=CHECKOUT, environment=environment, seconds=120, size=SMALL
    )
    assert status == 0
    assert "on this machine's own kernel" in capfd.readouterr().out
    (case,) = ElementTree.parse(report).getroot().iter("testcase")
    assert case.get("name") == "test_a_kernel_that_runs_these_tests_lacks_nothing_that_they_need"


def test_on_whatever_kernel_this_is() -> None:
    assert Path("/proc/self/cgroup").exists()
