"""Since when a job is quiet on a node: by its CPU time, or by its heartbeat."""

import os
import pwd
from pathlib import Path

import pytest
from node_health.checks.slurm import quiet_jobs
from node_health.checks.slurm.quiet_jobs import Mark, advanced
from node_health.sources.jobs import Use, look
from node_health.verdict import Finding, Result, Verdict

from tests.health.fakes import fake_machine

CLOCK = 1_795_694_400.0


@pytest.mark.parametrize(
    ("seconds", "worked", "is_quiet"),
    [
        (30, 0.0, True),
        (30, 0.01, True),
        (30, 0.05, False),
        (3600, 3.0, True),
        (3600, 4.0, False),
        (30, -5.0, False),
    ],
)
def test_a_job_that_uses_a_thousandth_of_a_cpu_or_whose_process_ended_is_at_work(
    seconds: float, worked: float, is_quiet: bool
) -> None:
    before = {7: Mark(1000.0, 50.0, 400.0, CLOCK)}
    after = advanced(before, {7: Use(50.0 + worked, 1001)}, 1000.0 + seconds, CLOCK + 900)
    assert after[7].since == (CLOCK if is_quiet else CLOCK + 900)
    assert (after[7].at, after[7].cpu) == (1000.0 + seconds, 50.0 + worked)


def test_little_work_between_many_looks_adds_up() -> None:
    """Two runs in one second, as after a job's end, are one look."""
    marks = {7: Mark(0.0, 0.0, 0.0, CLOCK)}
    for second in range(1, 31):
        marks = advanced(marks, {7: Use(0.01 * second, 1001)}, float(second), CLOCK + second)
    assert marks[7].since > CLOCK


def test_a_new_job_is_at_work_and_one_that_ended_is_forgotten() -> None:
    after = advanced({7: Mark(0.0, 0.0, 0.0, CLOCK)}, {8: Use(0.0, 1001)}, 100.0, CLOCK + 100)
    assert after == {8: Mark(100.0, 0.0, 100.0, CLOCK + 100)}


def test_cpu_time_is_that_of_the_users_processes_by_cgroup_or_descent(tmp_path: Path) -> None:
    def stat(number: int, parent: int, seconds: int) -> dict[str, str]:
        started = 99_000 * fake_machine.TICKS
        used = f"{seconds * fake_machine.TICKS} 0"
        name = "slurmstepd" if number == 10 else "x"
        return {f"/proc/{number}/stat": f"{number} ({name}) S {parent} 1 1 {'0 ' * 7}{used} {'0 ' * 6}{started} 0\n"}

    machine = fake_machine.build(
        tmp_path,
        {
            **stat(10, 1, 90),
            **stat(11, 1, 3),
            **fake_machine.process(12, "python\0", 1001, None), **stat(12, 10, 4),
            **fake_machine.process(13, "job_init\0", 0, 7), **stat(13, 10, 50),
        },
    )  # fmt: skip
    seen = look(machine)
    assert seen.used == {7: Use(7.0, 1001)}
    assert seen.left == ()


def test_the_cpu_time_of_a_container_is_that_of_its_job_whoever_runs_in_it(tmp_path: Path) -> None:
    """The user is of an LDAP directory, and what runs in his container has a subordinate id."""
    machine = fake_machine.build(
        tmp_path,
        {
            **fake_machine.process(9, "inner\0", 165_536 + 1000, 7, age=50),
            **fake_machine.process(11, "podman\0", 200_001, 7, age=60),
            **fake_machine.process(12, "conmon\0", 165_536, 7, age=55),
        },
    )
    assert look(machine).used == {7: Use(0.0, 200_001)}


@pytest.mark.parametrize("name", [b"\xff\xfe", b"a) S 1 (", b"\rUid:\t0\r"])
def test_the_name_of_a_process_is_of_any_bytes_and_changes_nothing(tmp_path: Path, name: bytes) -> None:
    """A user gives it to his process (prctl(2), PR_SET_NAME)."""
    machine = fake_machine.build(tmp_path, {})
    for file, before in (("stat", b"train (x)"), ("status", b"x")):
        path = tmp_path / "proc/11" / file
        path.write_bytes(path.read_bytes().replace(before, name, 1))
    assert look(machine).used == {7: Use(0.0, 1001)}


HOMES = {1001: "/home/alice", 1002: "/home/bob", 1003: "/linked/alice", 1004: "/home/../../outside", 1005: ""}


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The jail's root; HOMES has its users, and alice's home is there."""

    def getpwuid(user: int) -> pwd.struct_passwd:
        return pwd.struct_passwd(("name", "x", user, user, "", HOMES[user], "/bin/sh"))

    monkeypatch.setattr(pwd, "getpwuid", getpwuid)
    jail = tmp_path / "run/jail"
    (jail / "home/alice").mkdir(parents=True)
    return jail


def beat(folder: Path) -> None:
    """Leaves the heartbeat of job 7, of the moment CLOCK."""
    (folder / ".slurm-heartbeat-7").touch()
    os.utime(folder / ".slurm-heartbeat-7", (CLOCK, CLOCK))


def test_an_old_heartbeat_counts_though_the_job_works(tmp_path: Path, tree: Path) -> None:
    beat(tree / "home/alice")
    used = {7: Use(1.0, 1001), 8: Use(1.0, 1001), 9: Use(1.0, 1002), 10: Use(1.0, 4711)}
    found = quiet_jobs.heartbeats(fake_machine.build(tmp_path, {}), used, CLOCK + 4000)
    assert found == {7: (4000.0, CLOCK)}


def test_a_heartbeat_of_a_time_that_has_no_date_is_as_old_as_the_clock(tmp_path: Path, tree: Path) -> None:
    beat(tree / "home/alice")
    os.utime(tree / "home/alice/.slurm-heartbeat-7", (CLOCK, -5_000_000.0))
    machine = fake_machine.build(tmp_path, {})
    found = quiet_jobs.heartbeats(machine, {7: Use(1.0, 1001)}, CLOCK)
    assert found[7][1] == 0.0
    told = quiet_jobs.judge(quiet_jobs.Quiet(found), machine)
    assert quiet_jobs.read(Result("quiet jobs", told)) == {7: "1970-01-01T00:00:00Z"}


def test_a_heartbeat_in_a_home_that_refuses_root_is_found(
    tmp_path: Path, tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a server that squashes root does for a home of mode 0700."""
    beat(tree / "home/alice")
    really = os.open

    def refuses_root(path: str | Path, flags: int, *, dir_fd: int | None = None) -> int:
        if path == "alice" and os.geteuid() == 0:
            raise PermissionError(13, "Permission denied")
        return really(path, flags, dir_fd=dir_fd)

    before = os.geteuid()
    monkeypatch.setattr(os, "open", refuses_root)
    found = quiet_jobs.heartbeats(fake_machine.build(tmp_path, {}), {7: Use(1.0, 1001)}, CLOCK + 4000)
    assert found == {7: (4000.0, CLOCK)}
    assert os.geteuid() == before


@pytest.mark.parametrize("user", [1003, 1004, 1005])
def test_a_home_leads_to_nothing_of_the_pods_own(tmp_path: Path, tree: Path, user: int) -> None:
    """Root in a job writes links, and the homes of users."""
    outside = tmp_path / "outside"
    (outside / "alice").mkdir(parents=True)
    (tree / "linked").symlink_to(outside)
    for folder in (outside / "alice", outside, tmp_path / "run/outside", tree):
        folder.mkdir(exist_ok=True)
        beat(folder)
    machine = fake_machine.build(tmp_path, {})
    assert quiet_jobs.heartbeats(machine, {7: Use(1.0, user)}, CLOCK + 4000) == {}


def test_what_it_tells_is_read_again() -> None:
    warned = Finding(Verdict.WARNING, "812 since 2026-11-26T12:00:00Z, 9 since 2026-11-26T13:00:00Z")
    assert quiet_jobs.read(Result("quiet jobs", warned)) == {812: "2026-11-26T12:00:00Z", 9: "2026-11-26T13:00:00Z"}
    assert quiet_jobs.read(Result("quiet jobs", Finding(Verdict.PASS, "2 jobs run"))) == {}
    assert quiet_jobs.read(None) == {}
