"""Tests of cgroup v2 and NFS run on this machine's kernel if it has all features, else in a guest."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from devcluster.vm import guest, own_kernel
from devcluster.vm import tests as vm_tests
from devcluster.vm.own_kernel import Need

ALL = "cpuset cpu io memory hugetlb pids rdma\n"
HANGS = """
import pathlib
import pytest

@pytest.fixture
def mount():
    yield
    pathlib.Path({ended!r}).touch()

def test_that_hangs(mount):
    pathlib.Path({began!r}).touch()
    import time
    while True:
        time.sleep(1)
"""


@pytest.fixture
def hierarchy(tmp_path: Path) -> Path:
    (tmp_path / "cgroup.controllers").write_text(ALL)
    return tmp_path


def test_a_machine_that_can_do_everything_needs_no_guest(hierarchy: Path) -> None:
    assert own_kernel.lacking(hierarchy, [Need("bridges", lambda: True)]) == []


def test_each_thing_that_the_kernel_cannot_do_is_named(hierarchy: Path) -> None:
    needs = [Need("bridges", lambda: False), Need("loop devices", lambda: True), Need("netem", lambda: False)]
    assert own_kernel.lacking(hierarchy, needs) == ["bridges", "netem"]


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({}, "cgroup v2 with the controllers cpu, cpuset, io, memory, pids"),
        ({"cgroup.controllers": "cpu memory pids\n"}, "cgroup v2 with the controllers cpuset, io"),
        (
            {"cgroup.controllers": ALL, "cgroup.type": "domain\n"},
            "a cgroup v2 hierarchy that is the machine's (this is a container's part of one)",
        ),
    ],
)
def test_control_groups_that_do_not_serve_are_told(tmp_path: Path, files: dict[str, str], words: str) -> None:
    for name, content in files.items():
        (tmp_path / name).write_text(content)
    assert own_kernel.lacking(tmp_path, []) == [words]


def test_the_kernel_itself_is_asked_for_a_file_system() -> None:
    """The kernel has what is loaded. It would load a module from disk, which no machine of these tests has."""
    known = {line.split()[-1] for line in Path("/proc/filesystems").read_text().splitlines()}
    assert {name for name in ("tmpfs", "proc", "nosuch") if own_kernel.has_file_system(name)} == {"tmpfs", "proc"}
    assert known & set(own_kernel.FILE_SYSTEMS) <= {
        name for name in own_kernel.FILE_SYSTEMS if own_kernel.has_file_system(name)
    }


def test_questions_leave_nothing_behind() -> None:
    def here() -> tuple[object, ...]:
        links = [name for name in ("bridge0", "veth0", "veth1") if Path("/sys/class/net", name).exists()]
        return links, Path("/mnt").is_mount(), len(list(Path("/proc/self/fd").iterdir()))

    before = here()
    own_kernel.lacking()
    assert here() == before


def test_a_question_that_fails_or_hangs_counts_as_no(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_kernel, "_ANSWER_SECONDS", 0.2)
    assert [own_kernel.can(script) for script in ("true", "false", "sleep 60")] == [True, False, False]


def test_a_device_program_is_refused_to_who_may_not_load_one() -> None:
    """The same question to a kernel that refuses."""
    child = os.fork()
    if child == 0:
        os.setuid(65534)
        os._exit(own_kernel.takes_device_programs())
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert own_kernel.takes_device_programs()


@pytest.fixture
def serves(monkeypatch: pytest.MonkeyPatch) -> None:
    """This machine's kernel counts as one that lacks nothing."""
    monkeypatch.setattr(own_kernel, "lacking", list)
    monkeypatch.setattr(guest, "run", lambda *_, **__: pytest.fail("a guest was started"))


@pytest.mark.usefixtures("serves")
def test_tests_run_on_the_machines_own_kernel_where_it_lacks_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, report = tmp_path / "test_here.py", tmp_path / "report.xml"
    file.write_text("def test_here():\n    pass\n")
    assert vm_tests.run([str(file)], report) == 0
    assert 'name="test_here"' in report.read_text()
    assert "on this machine's own kernel" in capsys.readouterr().err
    assert vm_tests.run([str(file)], report, seconds=0.01) == guest.TIMED_OUT


def await_file(path: Path) -> None:
    deadline = time.monotonic() + 60
    while not path.exists():
        assert time.monotonic() < deadline
        time.sleep(0.05)  # Another process writes the file, and tells nobody.


def test_tests_that_hang_in_a_guest_end_with_a_report_before_the_guest_does(tmp_path: Path) -> None:
    began, ended, file = tmp_path / "began", tmp_path / "ended", tmp_path / "test_hangs.py"
    file.write_text("def test_that_passes():\n    pass\n" + HANGS.format(began=str(began), ended=str(ended)))
    report = tmp_path / "report.xml"
    process = subprocess.Popen(vm_tests.bounded(vm_tests.command([str(file)], report), 600))
    await_file(began)
    process.send_signal(signal.SIGALRM)  # As timeout(1) has it sent at its deadline.
    assert process.wait(60) == guest.TIMED_OUT
    assert ended.exists(), "its fixtures took down what they had made"
    assert 'name="test_that_passes"' in report.read_text()


def test_tests_that_hang_there_are_ended_with_what_they_started(tmp_path: Path) -> None:
    began, ended, file = tmp_path / "began", tmp_path / "ended", tmp_path / "test_hangs.py"
    file.write_text(HANGS.format(began=str(began), ended=str(ended)))
    process = subprocess.Popen(vm_tests.command([str(file)], tmp_path / "report.xml"))
    await_file(began)
    vm_tests._end(process)
    assert process.returncode is not None
    assert ended.exists(), "its fixtures took down what they had made"


@pytest.mark.parametrize(("paths", "said"), [(["tests/vm"], True), ([], True), (["tests/vm/test_v2_jobs.py"], False)])
def test_a_run_of_all_says_what_it_leaves_out(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str], paths: list[str], said: bool
) -> None:
    monkeypatch.setattr(own_kernel, "lacking", list)
    monkeypatch.setattr(vm_tests, "_run_here", lambda *_: 0)
    vm_tests.run(paths, tmp_path / "report.xml")
    left_out = "left out: tests/vm/kubelet, which takes half an hour: make test-vm TESTS=tests/vm/kubelet"
    assert (left_out in capsys.readouterr().err) == said
