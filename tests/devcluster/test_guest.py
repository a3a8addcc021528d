"""Promises of the guest in which tests of cgroup v2 and NFS run: its results come back, and it always ends."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from devcluster import testing
from devcluster.bootstrap import CHECKOUT
from devcluster.progress import StepFailed
from devcluster.tally import Spent
from devcluster.vm import guest, kernel
from devcluster.vm import tests as vm_tests

SMALL = guest.Size(memory_mib=512, disk_gib=1)
needs_kernel = pytest.mark.skipif(not kernel.is_built(), reason="the cache has no kernel of the guest: make test-vm")


def run(folder: Path, *command: str, seconds: float = 60) -> int:
    return guest.run(command, folder, directory=CHECKOUT, environment={}, seconds=seconds, size=SMALL)


@needs_kernel
def test_a_command_runs_on_the_other_kernel_and_its_status_and_files_come_back(tmp_path: Path) -> None:
    line = f"cp /sys/fs/cgroup/cgroup.controllers {tmp_path}/found; pwd > {tmp_path}/where; nproc; exit 7"
    assert run(tmp_path, "sh", "-c", line) == 7
    assert {*(tmp_path / "found").read_text().split()} >= vm_tests.CONTROLLERS
    assert (tmp_path / "where").read_text() == f"{CHECKOUT}\n"


@needs_kernel
def test_what_a_guest_writes_elsewhere_is_gone_with_it(tmp_path: Path) -> None:
    assert run(tmp_path, "sh", "-c", "touch /of-the-guest /scratch/of-the-guest") == 0
    assert not Path("/of-the-guest").exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["first", "init", "off", "script", "status"]


@needs_kernel
def test_a_guest_that_hangs_is_ended(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert run(tmp_path, "sh", "-c", "echo begun; sleep 1000", seconds=8) == guest.TIMED_OUT
    assert "begun" in capfd.readouterr().out
    assert not subprocess.run(["pgrep", "-f", f"vmfolder={tmp_path}"], capture_output=True, check=False).stdout


@needs_kernel
def test_a_guest_ends_with_who_started_it(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from tests.devcluster.test_guest import run;"
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
    status = vm_tests.run(["tests/devcluster/test_guest.py::test_on_whatever_kernel_this_is"], report)
    assert status == 0
    (case,) = ElementTree.parse(report).getroot().iter("testcase")
    assert case.get("name") == "test_on_whatever_kernel_this_is"


def test_on_whatever_kernel_this_is() -> None:
    assert Path("/proc/self/cgroup").exists()


def test_a_machine_says_what_its_kernel_lacks(tmp_path: Path) -> None:
    file_systems = tmp_path / "filesystems"
    file_systems.write_text("nodev\tproc\n\text4\n")
    assert vm_tests.lacking(tmp_path, file_systems) == [
        "cgroup v2 with the controllers cpu, cpuset, io, memory, pids",
        "the file systems nfs, nfs4, nfsd",
    ]
    (tmp_path / "cgroup.controllers").write_text("cpuset cpu io memory hugetlb pids rdma\n")
    file_systems.write_text("".join(f"nodev\t{name}\n" for name in ("nfs", "nfs4", "nfsd")))
    assert vm_tests.lacking(tmp_path, file_systems) == []


def test_a_guest_that_has_no_room_says_where_and_how_much(tmp_path: Path) -> None:
    with pytest.raises(StepFailed, match="the guest takes 1048576 GiB of memory at /dev/shm"):
        guest.run(
            ["true"], tmp_path, directory=tmp_path, environment={}, seconds=1, size=guest.Size(memory_mib=1 << 30)
        )


def test_a_kernel_that_cannot_be_built_says_what_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PULUMI_SLURM_CACHE", str(tmp_path))
    with monkeypatch.context() as without:
        without.setenv("PATH", "/nowhere")
        with pytest.raises(
            StepFailed, match="built with gcc, make, flex, bison, bc, patch, xz, strip, which this machine lacks"
        ):
            kernel.build()
    with monkeypatch.context() as without:
        without.setattr(kernel, "BUILD_BYTES", 1 << 60)
        with pytest.raises(StepFailed, match="set PULUMI_SLURM_CACHE to a folder on a larger disk"):
            kernel.build()
    monkeypatch.setattr(kernel, "SOURCES", (kernel.Source("linux-source-0.1", "0.1-1", "0" * 64),))
    with pytest.raises(StepFailed, match=r"no source of the guest's kernel can be had from .*linux-source-0.1_0.1-1"):
        kernel.build()


def test_without_a_kernel_and_without_time_make_test_says_what_it_leaves_out(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(kernel, "is_built", lambda: False)
    monkeypatch.setattr(vm_tests, "lacking", lambda: ["cgroup v2"])
    tally = testing.Tally(parts={"e2e": Spent(testing.WITHOUT_KERNEL_MINUTES + 1, 40)})
    assert testing._life_on_v2(tally, tmp_path) == 0
    assert "left out after 56 minutes, run make test-vm: a job's life on cgroup v2" in capsys.readouterr().err


def test_every_root_that_the_tests_in_a_guest_unpack_is_made_before_it_starts() -> None:
    """A guest has no network: what is not in the cache then can't be had."""
    sources = (CHECKOUT / vm_tests.FOLDER).rglob("*.py")
    used = {name for source in sources for name in re.findall(r'roots\.make\("(\w+)"', source.read_text())}
    assert used
    assert used == {*vm_tests.ROOTS}
