"""The guard that runs first in slurmstepd lets a step run only if the jail plugin will surely be loaded."""

import os
import struct
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.native.conftest import Guard, mounted

RAN = "the real slurmstepd ran"
# Linux lets only root make one. `.ci/run` has root, so nothing is skipped there.
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="makes a mount namespace")


def test_a_right_configuration_lets_slurmstepd_run_with_its_input_untouched(guard: Guard) -> None:
    output, log = guard.run(guard.good)
    assert output == f"{RAN}\nthe step\n".encode()
    assert log == ""


@pytest.mark.parametrize(
    ("name", "text", "sentence"),
    [
        ("plugstack.conf", "optional {plugin} jail=/run/jail\n", "has no line"),
        ("plugstack.conf", "#required {plugin}\n", "has no line"),
        ("plugstack.conf", "required spank_jail.so\n", "has no line"),
        ("plugstack.conf", "required {plugin}.old\n", "has no line"),
        ("plugstack.conf", "", "has no line"),
        ("slurm.conf", "PlugStackConfig=plugstack.conf\n", "PlugStackConfig"),
        ("slurm.conf", "plugstackconfig = /nowhere\n", "PlugStackConfig"),
        ("slurm.conf", "ClusterName=x PlugStackConfig=a\n", "PlugStackConfig"),
        ("slurm.conf", "PlugStack\\\nConfig=a\n", "PlugStackConfig"),
        ("slurm.conf", "Include more.conf\n", "PlugStackConfig"),
        ("slurm.conf", "include missing.conf\n", "No such file"),
        ("slurm.conf", "include slurm.conf\n", "too deeply"),
    ],
)
def test_a_configuration_that_could_leave_the_jail_starts_nothing(
    guard: Guard, name: str, text: str, sentence: str
) -> None:
    files = {**guard.good, "more.conf": "PlugStackConfig=x\n", name: text.format(plugin=guard.plugin)}
    output, log = guard.run(files)
    assert RAN.encode() not in output
    assert struct.unpack("i", output) == (8004,), "slurmd waits for a return code: ESLURM_PLUGIN_NOT_LOADED"
    assert sentence in log


def test_a_missing_plugin_starts_nothing(guard: Guard) -> None:
    guard.plugin.rename(guard.plugin.with_suffix(".away"))
    try:
        output, log = guard.run(guard.good)
    finally:
        guard.plugin.with_suffix(".away").rename(guard.plugin)
    assert RAN.encode() not in output
    assert "No such file" in log


def test_a_plugin_that_slurm_would_not_load_starts_nothing(guard: Guard) -> None:
    refused = guard.folder / "refused"
    refused.write_text("it was built for Slurm 25.11.1")
    output, log = guard.run(guard.good)
    refused.unlink()
    assert struct.unpack("i", output) == (8010,), "ESLURM_PLUGIN_BAD_VERSION"
    assert "it was built for Slurm 25.11.1" in log


def test_a_missing_configuration_starts_nothing(guard: Guard) -> None:
    output, _ = guard.run({})
    assert RAN.encode() not in output


def test_a_comment_about_the_forbidden_line_is_no_reason_to_refuse(guard: Guard) -> None:
    output, _ = guard.run({**guard.good, "slurm.conf": "# no PlugStackConfig here\nClusterName=x\n"})
    assert RAN.encode() in output


def test_modes_that_run_no_step_need_no_configuration(guard: Guard) -> None:
    output, _ = guard.run({}, "getenv")
    assert output.startswith(f"{RAN} getenv".encode())


@pytest.fixture
def run_folder(guard: Guard) -> Iterator[Path]:
    """Stands for the pod's /run, a mount."""
    with mounted(guard.folder / "run") as folder:
        yield folder


@needs_root
def test_what_is_secret_in_the_pod_is_covered_before_slurmstepd_begins(guard: Guard, run_folder: Path) -> None:
    secrets, volume = guard.folder / "secrets", guard.folder / "volume"
    hidden = [secrets / "slurm/slurm.key", volume / "roots/r1", run_folder / "own/slurm.key"]
    for path in hidden:
        path.parent.mkdir(parents=True)
        path.write_text("secret")
    wanted = ":".join(map(str, hidden))
    output, log = guard.run(guard.good, shows=wanted)
    assert log == ""
    assert output.decode().splitlines()[1:-1] == ["No such file or directory", "No such file or directory", "0"]
    assert [path.read_text() for path in hidden] == ["secret"] * 3, "nobody else loses sight of them"
    assert guard.run({}, "getenv", shows=wanted)[0].decode().splitlines()[1:-1] == ["6"] * 3, "the test can fail"


@dataclass(frozen=True)
class Shared:
    """The view of all slurmstepds, in mounts that no other test changes.

    Args:
        guard: runs in these mounts.
        root: of them, as a path of the test.
        folder: the pod's /run.
    """

    guard: Guard
    root: Path
    folder: Path

    @property
    def view(self) -> Path:
        return Path(f"{self.root}{self.folder}/own/view")

    def in_use(self) -> str:
        return f"mnt:[{self.view.stat().st_ino}]"

    def mount(self, *command: str | Path) -> None:
        subprocess.run([*self.guard.within, *command], check=True, timeout=30)

    def look(self) -> tuple[list[str], str]:
        """Returns what a slurmstepd saw of all that is secret, and its mount namespace."""
        guard, hidden = self.guard, ("secrets/slurm.key", "volume/r1", "run/own/slurm.key")
        shows = ":".join(str(guard.folder / each) for each in hidden)
        output, log = guard.run(guard.good, shows=shows, makes=f"{self.folder}/new", view="1")
        assert log == ""
        *seen, namespace, _ = output.decode().splitlines()[1:]
        return seen, namespace


NOTHING = ["No such file or directory", "No such file or directory", "0", "Read-only file system"]


@pytest.fixture
def shared(guard: Guard, run_folder: Path) -> Iterator[Shared]:
    for path in (guard.folder / "secrets/slurm.key", guard.folder / "volume/r1", run_folder / "own/slurm.key"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("secret")
    with subprocess.Popen(["unshare", "--mount", "cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as keeper:
        assert keeper.stdin and keeper.stdout
        keeper.stdin.write(b"it has its mounts\n")
        keeper.stdin.flush()
        assert keeper.stdout.readline(), "unshare became cat"
        guard.within = ("nsenter", f"--mount=/proc/{keeper.pid}/ns/mnt")
        try:
            yield Shared(guard, Path(f"/proc/{keeper.pid}/root"), run_folder)
        finally:
            guard.within = ()
            keeper.stdin.close()


@needs_root
def test_all_slurmstepds_have_the_view_that_was_made_before_while_it_covers_all(shared: Shared) -> None:
    for _ in ("slurmd starts", "slurmd starts again"):
        assert shared.guard.run({}, "prepare") == (b"", "")
        assert shared.look() == shared.look(), "one namespace for all"
        assert shared.look() == (NOTHING, shared.in_use())
    secrets = shared.guard.folder / "secrets"
    subprocess.run(["nsenter", f"--mount={shared.view}", "umount", secrets], check=True, timeout=30)
    seen, namespace = shared.look()
    assert seen == NOTHING
    assert namespace != shared.in_use(), "each makes its own once what all have is uncovered"


@needs_root
def test_a_mount_that_changes_in_the_pod_is_seen_by_each_slurmstepd_after_it(shared: Shared) -> None:
    volume = shared.guard.folder / "volume"
    shared.mount("mount", "--bind", volume, volume)
    with shared.guard.slurmd() as view:
        assert {view(), view()} == {shared.in_use()}
        for change in ("remount,bind,ro", "remount,bind,rw,nosuid"):
            shared.mount("mount", "-o", change, volume)
            assert shared.in_use() not in {view(), view()}, f"each makes its own after {change}"
        shared.mount("mount", "-o", "remount,bind,suid", volume)
        assert {view(), view()} == {shared.in_use()}, "the mounts are as they were"
        shared.mount("umount", volume)
        assert shared.in_use() not in {view(), view()}
    with shared.guard.slurmd() as view:
        shared.view.with_name("view-mounts").unlink()  # As the slurmd before it does, whose mounts differ.
        assert {view(), view()} == {shared.in_use()}, "slurmd starts again"


@needs_root
def test_slurmstepd_writes_no_configuration_and_what_is_the_nodes(guard: Guard, run_folder: Path) -> None:
    configuration, jobs = run_folder / "slurm/conf", run_folder / "own/jobs"
    for folder in (configuration, jobs):
        folder.mkdir(parents=True)
    output, _ = guard.run(guard.good, makes=f"{configuration}/new:{jobs}/new")
    assert output.decode().splitlines()[1:-1] == ["Read-only file system", "done"]


GIVEN_UP = 1 << 10 | 1 << 19
"""NET_BIND_SERVICE and SYS_PTRACE: who lacks one that tini and slurmd have can't look into them."""


def test_the_first_thread_already_lacks_what_a_look_into_tini_and_slurmd_takes(guard: Guard) -> None:
    def first(*arguments: str) -> list[int]:
        output, _ = guard.run(guard.good, *arguments, threads="1")
        return [int(line.split()[1], 16) for line in output.decode().splitlines()[1:3]]

    assert [held & GIVEN_UP for held in first()] == [0, 0]
    assert [held & GIVEN_UP for held in first("getenv")] == [GIVEN_UP] * 2, "a mode that gives nothing up has both"


def test_the_deadline_is_for_getting_the_step_and_not_for_starting_it(guard: Guard) -> None:
    """slurmstepd makes its first thread when it has all. On a busy node the rest takes longer; srun waits for it."""
    output, _ = guard.run(guard.good, timers="1")
    assert output.decode().splitlines()[1:3] == ["a timer", "no timer"]


def test_threads_are_born_with_what_ending_a_job_takes_alone(guard: Guard) -> None:
    output, _ = guard.run(guard.good, threads="1")
    first, others = output.decode().splitlines()[1:3], output.decode().splitlines()[3:5]
    kept = {line.split()[1] for line in others}
    assert kept == {f"{1 << 1 | 1 << 5 | 1 << 6 | 1 << 7 | 1 << 8:016x}"}, "native/stepd/kept_rights.h"
    assert all(int(line.split()[1], 16) & 1 << 21 for line in first), "the first thread makes namespaces: SYS_ADMIN"
