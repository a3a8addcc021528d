"""The jail library, under sanitizers, in mount namespaces of its own."""

import os
import re
import socket
import subprocess
import threading
from pathlib import Path

import pytest

from devcluster.machine.bootstrap import CHECKOUT
from tests.native.trial_tree import run_in_tree

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="makes mount namespaces")

TREE = """
mkdir -p "$JAIL"
mount -t tmpfs jail "$JAIL"
mkdir -p "$JAIL/run" "$JAIL/dev" "$JAIL/proc" "$JAIL/sys" "$JAIL/bin" "$JAIL/tmp" "$JAIL/var/spool/slurmd"
mount -t tmpfs run "$JAIL/run"
mkdir -p "$JAIL/run/slurm/door/conf"
mount --bind "$JAIL/run/slurm" "$JAIL/run/slurm"
mount --rbind /dev "$JAIL/dev"
mount --rbind /proc "$JAIL/proc"
mount --rbind /sys "$JAIL/sys"
touch "$JAIL/bin/sh" "$JAIL/run/.jail-ready" "$JAIL/inside"
"""


class Trial:
    """A tree in a mount namespace of its own, and the probe in it."""

    def __init__(self, probe: Path, folder: Path) -> None:
        self._probe = probe
        self._jail = folder / "jail"

    def run(self, *steps: str, spoil: str = "") -> dict[str, str]:
        """Builds the tree, spoils it by a line of shell, runs the probe; returns step → what it said."""
        script = f'set -e\n{TREE}\n{spoil}\nexec "$PROBE" "$JAIL" "$@"'
        said = run_in_tree(script, self._jail, self._probe, steps)
        return dict(line.split(":", 1) for line in said.replace(": ", ":").replace(":\t", ":").splitlines())


@pytest.fixture
def trial(jail_steps: Path, tmp_path: Path) -> Trial:
    return Trial(jail_steps, tmp_path)


def test_after_entering_the_root_is_the_jail_and_nothing_of_the_pod_is_left(trial: Trial, jail_steps: Path) -> None:
    said = trial.run("enter", "verify", "exists=/inside", f"exists={jail_steps}")
    assert said == {
        "enter": "ok",
        "verify": "ok",
        "exists=/inside": "ok",
        f"exists={jail_steps}": "No such file or directory",
    }


def test_climbing_out_of_a_second_root_ends_in_the_jail(trial: Trial) -> None:
    assert trial.run("enter", "drop", "climb")["climb"] == "still in the jail"


def test_no_system_call_is_used_that_runtimes_forbid() -> None:
    """Container runtimes' default seccomp profile has no pivot_root, and makes no exception for SYS_ADMIN."""
    sources = (CHECKOUT / "native").glob("*/*.c")
    assert not [source.name for source in sources if "syscall(SYS_pivot_root" in source.read_text()]


@pytest.mark.parametrize(
    ("spoil", "sentence"),
    [
        ('umount -R "$JAIL"', "is not a mount"),
        ('umount -R "$JAIL/run"', "run is not a mount"),
        ('umount -R "$JAIL/run"; touch "$JAIL/run/.jail-ready"', "run is not a mount"),
        ('rm "$JAIL/run/.jail-ready"', "is missing"),
        ('chown 1000 "$JAIL/run/.jail-ready"', "is not root's"),
        ('rm "$JAIL/run/.jail-ready"; mkfifo "$JAIL/run/.jail-ready"', "is not root's regular file"),
        ('rm "$JAIL/run/.jail-ready"; ln -s /etc/passwd "$JAIL/run/.jail-ready"', "is not root's regular file"),
        ('umount -R "$JAIL/dev"; mknod -m 666 "$JAIL/dev/null" c 1 3', "dev is not a mount"),
        ('umount -R "$JAIL/dev"; mount -t tmpfs dev "$JAIL/dev"; touch "$JAIL/dev/null"', "dev/null is not a device"),
        ('umount -R "$JAIL/proc"', "proc is not mounted"),
        ('rm "$JAIL/bin/sh"', "bin/sh is missing"),
        ('umount -R "$JAIL"; rmdir "$JAIL"', "No such file or directory"),
        ('mount -o remount,ro "$JAIL"', "is read-only"),
    ],
)
def test_a_tree_that_is_not_complete_is_refused_with_the_reason(trial: Trial, spoil: str, sentence: str) -> None:
    said = trial.run("enter", "verify", "exists=/inside", spoil=spoil)
    assert sentence in said["enter"]
    assert said["verify"] == "the jail was never entered"
    assert said["exists=/inside"] == "No such file or directory"


SUBMOUNTS = """
mkdir -p "$JAIL/mnt/memory" "$JAIL/scratch"
for path in /mnt/memory /scratch; do mount -t tmpfs submount "$JAIL$path"; echo $path; done > "$JAIL/run/.jail-ready"
"""
ELSEWHERE = "unshare --mount --propagation private sh -c 'umount \"$JAIL$0\"; {}' "
"""On another node with the same root, which has nothing mounted there: the same superblock, another mount namespace."""


def test_a_tree_with_its_submounts_is_right(trial: Trial) -> None:
    said = trial.run("enter", "exists=/scratch/mine", spoil=SUBMOUNTS + 'touch "$JAIL/scratch/mine"')
    assert said == {"enter": "ok", "exists=/scratch/mine": "ok"}


@pytest.mark.parametrize(
    ("spoil", "sentence"),
    [
        ('umount "$JAIL/scratch"', "/scratch is gone: what it stood on was removed or renamed"),
        ('umount "$JAIL/scratch"; rmdir "$JAIL/scratch"', "/scratch is gone: No such file or directory"),
        (ELSEWHERE.format('rmdir "$JAIL$0"') + "/scratch", "/scratch is gone: No such file or directory"),
        (ELSEWHERE.format('rmdir "$JAIL$0"; mkdir "$JAIL$0"') + "/scratch", "/scratch is gone: what it stood on"),
        (ELSEWHERE.format('mv "$JAIL/mnt" "$JAIL/other"') + "/mnt/memory", "/mnt/memory is gone: No such file"),
        (
            ELSEWHERE.format('mv "$JAIL/mnt" "$JAIL/other"; ln -s other "$JAIL/mnt"') + "/mnt/memory",
            "/mnt/memory is gone: Too many levels of symbolic links",
        ),
    ],
    ids=["not mounted", "removed here", "removed elsewhere", "made anew elsewhere", "parent renamed", "parent a link"],
)
def test_a_submount_that_went_away_is_refused_with_the_reason(trial: Trial, spoil: str, sentence: str) -> None:
    said = trial.run("enter", "verify", spoil=SUBMOUNTS + spoil)
    assert sentence.replace(": ", ":") in said["enter"]  # run() takes the blank away
    assert said["verify"] == "the jail was never entered"


def test_a_refused_step_stands_in_an_empty_read_only_root(trial: Trial) -> None:
    said = trial.run("refuse", "verify", "exists=/proc/self", "exists=/bin", "exists=/usr", "make=/x", "exists=/tmp")
    assert said["refuse"] == "ok"
    assert said["verify"] != "ok"
    assert said["exists=/proc/self"] == said["exists=/tmp"] == "ok"
    assert said["exists=/bin"] == said["exists=/usr"] == "No such file or directory"
    assert said["make=/x"] == "Read-only file system"


def test_the_reason_of_a_refusal_outlives_it(trial: Trial) -> None:
    said = trial.run("check", "refuse", "verify", spoil='rm "$JAIL/run/.jail-ready"')
    assert "is missing" in said["check"]
    assert said["verify"] == said["check"]


def test_no_capability_that_reaches_out_of_the_root_is_left(trial: Trial) -> None:
    before = trial.run("enter", "caps")
    after = trial.run("enter", "drop", "caps", "mount")
    reach_out = [2, 12, 16, 17, 19, 21, 22, 23, 24, 25, 27, 8, 38, 39, 40]
    forbidden = sum(1 << number for number in reach_out)
    assert int(before["CapBnd"], 16) & forbidden, "the test's own process must hold what is dropped"
    for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
        assert int(after[name], 16) & forbidden == 0, name
    assert int(after["CapEff"], 16) & (1 << 7), "SETUID is kept: the task still becomes its user"
    assert after["mount"] == "Operation not permitted"


def test_a_task_can_not_write_what_belongs_to_the_node(trial: Trial) -> None:
    mounts = """
        umount -R "$JAIL/sys"
        mount -t tmpfs cgroups /sys/fs/cgroup
        mkdir /sys/fs/cgroup/memory
        mount -t tmpfs memory /sys/fs/cgroup/memory
        touch /sys/fs/cgroup/limit /sys/fs/cgroup/memory/limit
        mount --rbind /sys "$JAIL/sys"
        mount --bind "$JAIL/var/spool/slurmd" "$JAIL/var/spool/slurmd"
        mkdir "$JAIL/run/slurm/conf" "$JAIL/var/spool/slurmd/job00001"
        touch "$JAIL/run/slurm/conf/plugstack.conf"
    """
    limits = ("write=/sys/fs/cgroup/limit", "write=/sys/fs/cgroup/memory/limit")
    spool = ("write=/run/slurm/conf/plugstack.conf",)
    script = "exists=/var/spool/slurmd/job00001"
    open_ = trial.run("enter", *limits, *spool, script, spoil=mounts)
    hidden = trial.run("enter", "hide", *limits, *spool, script, spoil=mounts)
    assert {open_[each] for each in (*limits, *spool, script)} == {"ok"}
    assert hidden["hide"] == "ok"
    assert {hidden[each] for each in (*limits, *spool)} == {"Read-only file system"}
    assert hidden[script] == "No such file or directory"


@pytest.mark.parametrize(
    ("link", "target"), [("var/spool/slurmd", "/goal/spool/slurmd"), ("var/spool", "/goal/spool"), ("var", "/goal")]
)
def test_a_session_follows_no_link_that_stands_where_slurmds_spool_would(trial: Trial, link: str, target: str) -> None:
    """On a login node nothing is mounted there, and the shared root's links are anybody's who has sudo."""
    linked = f'mkdir -p "$JAIL/goal/spool/slurmd/kept"; rm -r "$JAIL/{link}"; ln -s {target} "$JAIL/{link}"'
    said = trial.run("enter", "hide", "exists=/goal/spool/slurmd/kept", "make=/goal/spool/slurmd/new", spoil=linked)
    assert set(said.values()) == {"ok"}, said


def asked(root: Path, probe: Path, *steps: str) -> int:
    """Return how often the probe, once its root is that folder, asks a daemon in nscd's place there."""
    served = root / "var/run/nscd/socket"
    served.parent.mkdir(parents=True, exist_ok=True)
    served.unlink(missing_ok=True)
    count = 0

    def answer(listening: socket.socket) -> None:
        nonlocal count
        while True:
            try:
                listening.accept()[0].close()
            except OSError:
                return
            count += 1

    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(served))
        listening.listen(8)
        serving = threading.Thread(target=answer, args=(listening,))
        serving.start()
        try:
            # The leak check wants a /proc in the new root.
            environment = {**os.environ, "ASAN_OPTIONS": "detect_leaks=0"}
            subprocess.run([probe, root, *steps], check=True, timeout=60, capture_output=True, env=environment)
        finally:
            listening.shutdown(socket.SHUT_RDWR)
            serving.join()
    return count


def test_a_daemon_of_the_users_root_answers_no_question_about_hosts(jail_steps: Path, tmp_path: Path) -> None:
    """glibc asks nscd, at a path below its root, and again after a hundred questions without one."""
    assert asked(tmp_path, jail_steps, f"chroot={tmp_path}", "resolve=1") > 0
    assert asked(tmp_path, jail_steps, "preload", f"chroot={tmp_path}", "resolve=300") == 0


def test_the_pods_programs_look_hosts_up_as_their_image_says() -> None:
    configured = CHECKOUT / "images/slurm/rootfs/etc/nsswitch.conf"
    (line,) = re.findall(r"^hosts: +(.+)$", configured.read_text(), re.MULTILINE)
    assert f'__nss_configure_lookup("hosts", "{line}")' in (CHECKOUT / "native/jail/nss_preload.c").read_text()
