"""The verdict of each check: tables of facts in, verdict out."""

from pathlib import Path

import pytest
from node_health.checks import CHECKS, cpus, gpus, jail, kernel_log, memory, space, user_namespaces
from node_health.node import Declared
from node_health.verdict import Finding, Verdict, worst, worst_of

PASS, WARNING, UNKNOWN, FAIL = Verdict
MIB = 1024**2


def test_unknown_is_worse_than_a_warning_and_nothing_asked_is_unknown() -> None:
    assert worst([PASS, WARNING, UNKNOWN]) is UNKNOWN
    assert worst([UNKNOWN, FAIL, PASS]) is FAIL
    assert worst([]) is UNKNOWN
    assert worst_of([Finding(PASS, "a"), Finding(FAIL, "b"), Finding(FAIL, "c")]) == Finding(FAIL, "b; c")


def test_there_are_seven_checks() -> None:
    assert list(CHECKS) == ["jail", "space", "memory", "cpus", "gpus", "kernel log", "user namespaces"]


@pytest.mark.parametrize(
    ("probes", "verdict", "evidence"),
    [
        (jail.Probes("it is stale", None), FAIL, "it is stale"),
        (jail.Probes("it is stale", 1.0), FAIL, "it is stale"),
        (jail.Probes(None, 3.0), PASS, "can be made"),
        (jail.Probes(None, None), UNKNOWN, "no jail probe is done yet"),
        (jail.Probes(None, 300.0), UNKNOWN, "the last jail probe was 300 s ago"),
    ],
)
def test_jail(probes: jail.Probes, verdict: Verdict, evidence: str) -> None:
    found = jail.judge(probes)
    assert found.verdict is verdict
    assert evidence in found.evidence


def test_jail_is_read_from_what_the_probes_left(tmp_path: Path) -> None:
    broken, worked = tmp_path / "broken", tmp_path / "worked"
    assert jail.look(broken, worked) == jail.Probes(None, None)
    worked.touch()
    broken.write_text("why")
    seen = jail.look(broken, worked)
    assert seen.broken == "why"
    assert seen.worked_seconds_ago is not None


ROOMY = space.Room(100 * MIB, 50 * MIB, 1000, 900)


@pytest.mark.parametrize(
    ("rooms", "verdict", "evidence"),
    [
        ({"/tmp": ROOMY}, PASS, "/tmp has 50 of 100 MiB free"),
        ({"/tmp": space.Room(100 * MIB, 2 * MIB)}, PASS, "2 of 100"),
        ({"/tmp": space.Room(100 * MIB, 2 * MIB - 1)}, FAIL, "/tmp has less than 2 percent of its 100 MiB free"),
        ({"/tmp": space.Room(100 * MIB, 50 * MIB, 1000, 19)}, FAIL, "/tmp has less than 2 percent of its files free"),
        (
            {"the jail": space.Room(100 * MIB, 0, shared=True)},
            WARNING,
            "the jail has less than 2 percent of its 100 MiB",
        ),
        (
            {"/tmp": ROOMY, "slurmd's spool": space.Room(MIB, 0)},
            FAIL,
            "slurmd's spool has less than 2 percent of its 1 MiB",
        ),
        # A file system that counts no files, or has no size (a pseudo one).
        ({"/tmp": space.Room(100 * MIB, 50 * MIB, 0, 0)}, PASS, ""),
        ({"/tmp": space.Room(0, 0)}, PASS, ""),
    ],
)
def test_space(rooms: dict[str, space.Room], verdict: Verdict, evidence: str) -> None:
    found = space.judge(rooms, Declared(least_free_percent=2))
    assert found.verdict is verdict
    assert evidence in found.evidence


def test_space_is_asked_of_file_systems(tmp_path: Path) -> None:
    rooms = space.look({"the jail": tmp_path}, {"/tmp": tmp_path})
    assert rooms["the jail"].shared
    assert not rooms["/tmp"].shared
    assert 0 < rooms["/tmp"].free <= rooms["/tmp"].size


@pytest.mark.parametrize(
    ("seen", "verdict", "evidence"),
    [
        (memory.Memory(64_000, 2048), PASS, "2048 MiB (the pod's limit), 1024 MiB declared"),
        (memory.Memory(64_000, None), PASS, "the machine's memory"),
        (memory.Memory(512, 2048), FAIL, "512 MiB (the machine's memory), 1024 MiB declared"),
        (memory.Memory(64_000, 1023), FAIL, "1023 MiB (the pod's limit)"),
    ],
)
def test_memory(seen: memory.Memory, verdict: Verdict, evidence: str) -> None:
    found = memory.judge(seen, Declared(memory_mib=1024))
    assert found.verdict is verdict
    assert evidence in found.evidence


@pytest.mark.parametrize(
    ("file", "content", "limit"),
    [
        ("memory.max", "max\n", None),
        ("memory.max", f"{100 * MIB}\n", 100),
        ("memory/memory.limit_in_bytes", f"{100 * MIB}\n", 100),
        ("other", "", None),
    ],
)
def test_memory_is_read_from_either_version_of_cgroups(
    tmp_path: Path, file: str, content: str, limit: int | None
) -> None:
    (tmp_path / file).parent.mkdir(exist_ok=True)
    (tmp_path / file).write_text(content)
    (tmp_path / "meminfo").write_text("MemTotal:        2048000 kB\nMemFree: 1 kB\n")
    assert memory.look(tmp_path / "meminfo", tmp_path) == memory.Memory(2000, limit)


@pytest.mark.parametrize(
    ("seen", "declared", "verdict", "evidence"),
    [
        (cpus.Cpus(8, None), Declared(cpus=8), PASS, "8 CPUs (no limit), 8 declared"),
        (cpus.Cpus(64, 8000), Declared(cpus=8), PASS, "limit 8"),
        (cpus.Cpus(64, 7999), Declared(cpus=8), PASS, ""),
        (cpus.Cpus(64, 4000), Declared(cpus=8), FAIL, "64 CPUs (limit 4), 8 declared"),
        (cpus.Cpus(7, None), Declared(cpus=8), FAIL, "7 CPUs"),
        (cpus.Cpus(2, 4000), Declared(cpus=4, shares_cpus=True), WARNING, "2 CPUs (limit 4), 4 declared"),
    ],
)
def test_cpus(seen: cpus.Cpus, declared: Declared, verdict: Verdict, evidence: str) -> None:
    found = cpus.judge(seen, declared)
    assert found.verdict is verdict
    assert evidence in found.evidence


@pytest.mark.parametrize(
    ("files", "limit"),
    [
        ({"cpu.max": "max 100000\n"}, None),
        ({"cpu.max": "150000 100000\n"}, 1500),
        ({"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"}, None),
        ({"cpu/cpu.cfs_quota_us": "400000\n", "cpu/cpu.cfs_period_us": "100000\n"}, 4000),
        ({}, None),
    ],
)
def test_cpus_are_read_from_either_version_of_cgroups(tmp_path: Path, files: dict[str, str], limit: int | None) -> None:
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(content)
    seen = cpus.look(tmp_path)
    assert seen.limit_millis == limit
    assert seen.allowed > 0


TWO = "0, GPU-aa, 0\n1, GPU-bb, 0"


@pytest.mark.parametrize(
    ("asked", "declared", "verdict", "evidence"),
    [
        (gpus.Asked(None), 0, PASS, "none declared"),
        (gpus.Asked(None), 2, UNKNOWN, "2 declared, and the pod has no nvidia-smi"),
        (gpus.Asked(0, TWO), 2, PASS, "2 GPUs answer, 2 declared; 2 count memory errors (ECC), and had none"),
        (gpus.Asked(0, TWO), 3, FAIL, "2 of 3 GPUs answer"),
        (gpus.Asked(0, TWO), 1, WARNING, "2 GPUs answer, 1 declared"),
        (gpus.Asked(0, "0, GPU-aa, [N/A]"), 1, PASS, "0 count memory errors"),
        (gpus.Asked(0, "0, GPU-aa, [Not Supported]"), 1, PASS, ""),
        (gpus.Asked(0, "0, GPU-aa, 0\n1, GPU-bb, 3"), 2, FAIL, "since the driver was loaded: GPU 1 (GPU-bb): 3"),
        (gpus.Asked(15, "Unable to determine the device handle for GPU0: GPU is lost."), 1, FAIL, "GPU is lost"),
        (gpus.Asked(9, "NVIDIA-SMI has failed because it couldn't communicate with the driver."), 1, FAIL, "9"),
        (gpus.Asked(6, "No devices were found"), 1, FAIL, "No devices were found"),
        (gpus.Asked(2, 'Field "uuuid" is not a valid field to query.'), 1, UNKNOWN, "not a valid field"),
        (gpus.Asked(12, "couldn't find libnvidia-ml.so"), 1, UNKNOWN, "libnvidia-ml"),
        (gpus.Asked(0, "surprise"), 1, UNKNOWN, "nvidia-smi printed surprise"),
        (gpus.Asked(0, ""), 1, FAIL, "0 of 1 GPUs answer"),
    ],
)
def test_gpus(asked: gpus.Asked, declared: int, verdict: Verdict, evidence: str) -> None:
    found = gpus.judge(asked, Declared(gpus=declared))
    assert found.verdict is verdict
    assert evidence in found.evidence


def test_gpus_are_asked_of_one_program_and_no_path_is_searched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "nvidia-smi"
    monkeypatch.setenv("PATH", str(tmp_path))
    assert gpus.look(tmp_path / "elsewhere") == gpus.Asked(None)
    program.write_text('#!/bin/sh\necho "$1 $2" $LD_PRELOAD\nexit 3\n')
    program.chmod(0o755)
    monkeypatch.setenv("LD_PRELOAD", "/nowhere.so")
    fields = "index,uuid,ecc.errors.uncorrected.volatile.total"
    assert gpus.look(program) == gpus.Asked(3, f"--query-gpu={fields} --format=csv,noheader,nounits")


XID = "NVRM: Xid (PCI:0000:3b:00): {}, pid=1, name=train"


@pytest.mark.parametrize(
    ("messages", "verdict", "evidence"),
    [
        ("/dev/kmsg: Operation not permitted", UNKNOWN, "can't be read (/dev/kmsg: Operation not permitted)"),
        (None, PASS, "nobody looks for Xids"),
        ([], PASS, "0 messages"),
        (["eth0: link up"], PASS, "1 messages, none of harm"),
        ([XID.format(79), XID.format(79)], FAIL, "Xid 79 of GPU 0000:3b:00"),
        ([XID.format(31), XID.format(48)], FAIL, "Xid 48"),
        ([XID.format(31)], WARNING, "Xid 31 of GPU 0000:3b:00"),
        (["NVRM: Xid (0000:03:00): 14, Channel 1"], WARNING, "Xid 14"),
        (["Out of memory: Killed process 7 (a)"] * 2, WARNING, "ran out of memory and killed 2 processes"),
        (["Memory cgroup out of memory: Killed process 7 (a)"], PASS, ""),
    ],
)
def test_kernel_log(messages: list[str] | str | None, verdict: Verdict, evidence: str) -> None:
    found = kernel_log.judge(messages)
    assert found.verdict is verdict
    assert evidence in found.evidence


def test_a_kernel_log_that_cannot_be_read_is_told_and_one_that_is_not_given_is_no_fault(tmp_path: Path) -> None:
    assert kernel_log.look(tmp_path / "kmsg") is None
    (tmp_path / "loop").symlink_to("loop")
    assert kernel_log.look(tmp_path / "loop") == f"{tmp_path}/loop: Too many levels of symbolic links"


@pytest.mark.parametrize(
    ("file", "content", "times"),
    [
        ("memory.events.local", "low 0\nhigh 0\nmax 9\noom 2\noom_kill 3\n", 2),
        ("memory/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n", 3),
        ("memory/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\n", 0),
        ("other", "", 0),
    ],
)
def test_a_pod_that_ran_out_of_memory_is_a_warning(tmp_path: Path, file: str, content: str, times: int) -> None:
    (tmp_path / file).parent.mkdir(exist_ok=True)
    (tmp_path / file).write_text(content)
    assert kernel_log.out_of_memory(tmp_path) == times
    found = kernel_log.judge(None, times)
    assert found.verdict is (WARNING if times else PASS)
    assert (f"ran out of memory {times} times" in found.evidence) == bool(times)


@pytest.mark.parametrize(
    ("sysctls", "evidence"),
    [
        ({"user.max_user_namespaces": 0}, ["sysctl -w user.max_user_namespaces=28633"]),
        (
            {"user.max_user_namespaces": 7000, "kernel.unprivileged_userns_clone": 0},
            ["this machine has kernel.unprivileged_userns_clone=0", "kernel.unprivileged_userns_clone=1"],
        ),
        (
            {"kernel.unprivileged_userns_clone": 1, "kernel.apparmor_restrict_unprivileged_userns": 1},
            ["kernel.apparmor_restrict_unprivileged_userns=0"],
        ),
        ({"user.max_user_namespaces": 7000}, ["no known sysctl forbids it"]),
    ],
)
def test_refused_user_namespaces_are_a_warning_that_names_what_to_change(
    tmp_path: Path, sysctls: dict[str, int], evidence: list[str]
) -> None:
    for name, value in sysctls.items():
        file = tmp_path / name.replace(".", "/")
        file.parent.mkdir(exist_ok=True)
        file.write_text(f"{value}\n")
    refusing = ("sh", "-c", "echo 'unshare failed: Operation not permitted' >&2; exit 1")
    attempt = user_namespaces.look(refusing, tmp_path, user=None)
    assert attempt == user_namespaces.Attempt("unshare failed: Operation not permitted", sysctls)
    found = user_namespaces.judge(attempt)
    assert found.verdict is WARNING
    assert "containers won't start (unshare failed: Operation not permitted)" in found.evidence
    assert all(words in found.evidence for words in evidence), found.evidence
    assert found.evidence.count("sysctl -w") == (0 if evidence == ["no known sysctl forbids it"] else 1)


def test_user_namespaces_that_work_pass_and_an_attempt_without_an_answer_is_refused(tmp_path: Path) -> None:
    assert user_namespaces.judge(user_namespaces.look(("true",), user=None)).verdict is PASS
    assert user_namespaces.look(("sleep", "60"), user=None, seconds=0.1).refused == "no answer within 0.1 s"
    missing = user_namespaces.look((str(tmp_path / "unshare"),), user=None)
    assert missing.refused is not None
    assert "No such file" in missing.refused
