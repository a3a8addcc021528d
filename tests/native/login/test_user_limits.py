"""A user's limits on a login node: the rules, as C carries them out on folders that stand for control groups."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from slurm_node.accounts import login_limits
from slurm_node.pod.cgroups import Controllers
from slurm_node.pod.settings import Login

LOGIN = Login(memory_mib=512, processes=100, cpu_millis=1500)
FILES = ("memory.limit_in_bytes", "pids.max", "cpu.cfs_quota_us", "memory.max", "cpu.max", "cgroup.procs")


def groups(folder: Path) -> Path:
    """A user's group as the kernel makes it, with every file."""
    (folder / "users/1001").mkdir(parents=True)
    for name in FILES:
        (folder / "users/1001" / name).touch()
    return folder


def apply(make, tmp_path: Path, lines: list[str], *command: str) -> subprocess.CompletedProcess[str]:
    rules = tmp_path / "rules"
    rules.write_text("".join(f"{line}\n" for line in lines))
    words = [str(make("limits_probe", tmp_path / "build")), str(rules), "1001", *(command or ("sh", "-c", "echo $$"))]
    # The sanitizers map more memory than any limit would leave them.
    return subprocess.run(words, capture_output=True, text=True, timeout=30, check=False)


def read(folder: Path) -> dict[str, str]:
    return {name: text for name in FILES if (text := (folder / "users/1001" / name).read_text())}


def test_version_1_has_a_group_in_each_hierarchy(make, tmp_path):
    by_name = {name: groups(tmp_path / name) for name in ("memory", "pids", "cpu")}
    done = apply(make, tmp_path, login_limits.rules(LOGIN, Controllers(tuple(by_name.values()), None, by_name)))
    process = done.stdout.strip()
    assert read(by_name["memory"]) == {"memory.limit_in_bytes": str(512 << 20), "cgroup.procs": process}
    assert read(by_name["pids"]) == {"pids.max": "100", "cgroup.procs": process}
    assert read(by_name["cpu"]) == {"cpu.cfs_quota_us": "150000", "cgroup.procs": process}


def test_version_2_has_one_group(make, tmp_path):
    done = apply(make, tmp_path, login_limits.rules(LOGIN, Controllers((), groups(tmp_path / "v2"))))
    assert read(tmp_path / "v2") == {
        "memory.max": str(512 << 20),
        "pids.max": "100",
        "cpu.max": "150000 100000",
        "cgroup.procs": done.stdout.strip(),
    }


@pytest.fixture
def unified(tmp_path: Path) -> Iterator[Path]:
    """A group of this kernel's own version 2 hierarchy, which every kernel has, if not with every controller."""
    mounted = tmp_path / "unified"
    mounted.mkdir()
    subprocess.run(["mount", "-t", "cgroup2", "none", mounted], check=True)
    group = mounted / f"pulumi-slurm-test-{os.getpid()}"
    try:
        (group / "users").mkdir(parents=True)
        yield group
    finally:
        for folder in (group / "users/1001", group / "users", group):
            if folder.is_dir():
                folder.rmdir()
        subprocess.run(["umount", mounted], check=True)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount a hierarchy and make groups in it")
def test_a_session_joins_its_users_group_of_a_real_version_2_hierarchy(make, tmp_path, unified):
    """Controllers that a version 1 hierarchy has are away here: then a limit that every group has stands for theirs."""
    limits = login_limits.rules(LOGIN, Controllers((), unified))
    wanted = {"memory", "pids", "cpu"}
    here = {*(unified.parent / "cgroup.subtree_control").read_text().split()}
    if wanted <= here:
        for folder in (unified, unified / "users"):
            (folder / "cgroup.subtree_control").write_text(" ".join(f"+{name}" for name in sorted(wanted)))
        show = "cd {}; cat memory.max pids.max; head -1 cpu.max"
        said = [str(512 << 20), "100", "150000 100000"]
    else:
        limits = [limits[0], "set cgroup.max.descendants 7"]
        show, said = "cat {}/cgroup.max.descendants", ["7"]
    where = f"{unified}/users/1001"
    done = apply(make, tmp_path, limits, "sh", "-c", f"grep ^0:: /proc/self/cgroup; {show.format(where)}")
    assert done.returncode == 0, done.stdout
    own, *shown = done.stdout.splitlines()
    assert own.endswith(f"/{unified.name}/users/1001")
    assert shown == said


def test_without_cgroups_each_process_is_limited(make, tmp_path):
    rules = login_limits.rules(Login(memory_mib=1 << 26, processes=100), Controllers((), None))
    assert apply(make, tmp_path, rules, "sh", "-c", "ulimit -v; ulimit -p").stdout.split() == [str(1 << 36), "100"]


def test_users_share_alike_where_none_has_a_limit_of_cpu() -> None:
    by_name = {name: Path("/cg") / name for name in ("memory", "pids", "cpu")}
    lines = login_limits.rules(Login(memory_mib=512, processes=100), Controllers((), None, by_name))
    assert lines[-1] == "group /cg/cpu/users"


@pytest.mark.parametrize(
    ("lines", "sentence"),
    [
        (["nonsense here"], "a rule of limits that nobody knows: nonsense here"),
        (["group"], "a rule of limits without a name"),
        (["set pids.max 10"], "a rule of limits that nobody knows: set pids.max"),
        (["rlimit nproc many"], "rlimit nproc many"),
        (["rlimit core 1"], "rlimit core 1"),
        (["group /nowhere/at/all"], "/nowhere/at/all/1001: No such file or directory"),
    ],
)
def test_a_rule_that_cannot_be_kept_lets_nobody_in(make, tmp_path, lines, sentence):
    done = apply(make, tmp_path, lines)
    assert done.returncode == 1
    assert sentence in done.stdout


def test_without_the_file_nobody_gets_in(make, tmp_path):
    probe = make("limits_probe", tmp_path / "build")
    done = subprocess.run(
        [str(probe), "/nowhere", "1001", "true"], capture_output=True, text=True, timeout=30, check=False
    )
    assert (done.returncode, done.stdout) == (1, "/nowhere: No such file or directory\n")
