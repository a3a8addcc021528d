"""A job's namespaces, made and entered as Slurm's steps do it, without Slurm; under sanitizers."""

import contextlib
import os
import platform
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.native.job_trial import Trial

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="makes namespaces")

MUTE = Path(__file__).parents[1] / "mute_file_system.py"


@pytest.fixture(scope="module")
def trial(tmp_path_factory: pytest.TempPathFactory, make: Callable[..., Path]) -> Trial:
    return Trial(tmp_path_factory.mktemp("job"), make)


def test_steps_of_a_job_share_namespaces_that_are_not_the_nodes(trial: Trial) -> None:
    said = trial.run(*["readlink /proc/self/ns/mnt /proc/self/ns/pid /proc/self/ns/ipc"] * 2)
    first, second = said.lines[:3], said.lines[3:]
    assert first == second
    assert not {str(Path(f"/proc/self/ns/{name}").readlink()) for name in ("mnt", "pid", "ipc")} & set(first)


def test_a_step_that_comes_before_the_namespaces_are_made_waits_for_them(trial: Trial) -> None:
    line = "readlink /proc/self/ns/mnt /proc/self/ns/pid /proc/self/ns/ipc; ls -A /tmp"
    for _ in range(5):
        said = trial.run("early", line, line)
        assert said.statuses == [0, 0], said.lines
        assert said.lines[:3] == said.lines[3:]


def test_no_step_enters_before_the_extern_step_is_confined(trial: Trial) -> None:
    said = trial.run("confines", "echo inside", "may begin", "echo inside")
    assert said.statuses == [99, 0], said.lines
    assert said.lines == ["refused: the job's extern step was not confined within 1 s", "inside"]


def test_an_extern_step_that_can_not_be_confined_leaves_its_job_no_namespaces(trial: Trial) -> None:
    said = trial.run("fails to confine", "may begin", "echo inside")
    assert said.statuses == [99]
    assert said.lines == ["refused: a thread keeps capabilities"]


def test_no_step_enters_namespaces_that_end_for_want_of_confinement(trial: Trial) -> None:
    for _ in range(5):
        assert trial.run("fails to confine", "watch", "may begin").statuses == [0]


def test_job_init_leaves_the_steps_group_for_the_pods_where_there_is_one(trial: Trial) -> None:
    """A file stands for the group; tests/vm has a real one."""
    group = trial.folder / "group"
    try:
        group.touch()
        assert trial.run("true").statuses == [0]
        assert group.read_text() == "0"
        group.unlink()
        group.mkdir()
        assert trial.run("true").lines[-1] == f"refused: {group}: Is a directory"
    finally:
        group.rmdir()


def test_a_task_sees_the_jobs_processes_alone(trial: Trial) -> None:
    said = trial.run("ls /proc | grep -c '^[0-9]'; cat /proc/1/comm")
    assert int(said.lines[0]) <= 5
    assert said.lines[1].startswith("job_init")


def test_temporary_files_are_the_jobs_own_and_shared_by_its_steps(trial: Trial) -> None:
    said = trial.run("ls -A /tmp; touch /tmp/ours /dev/shm/ours", "ordinary", "ls /tmp /dev/shm")
    assert said.lines == ["/dev/shm:", "ours", "", "/tmp:", "ours"]
    assert not list(trial.jail.glob("tmp/*"))


def test_a_step_that_cannot_join_leaves_no_descriptor_open(trial: Trial) -> None:
    (said,) = trial.run("scarce").lines
    assert said.startswith("refused 20 times: 0 descriptors more; the job's namespace /proc/"), said
    assert said.endswith("/ns/pid: Too many open files"), said


def test_what_the_node_mounts_again_comes_to_slurmstepd_and_not_to_tasks(trial: Trial) -> None:
    """The node's own /proc, say, has none of a job's masks; slurmstepd needs /etc/hosts."""
    node = """
        mount --make-shared "$JAIL"
        mkdir "$JAIL/late"
        (
            until [ -e "$JAIL/waits" ]; do sleep 0.05; done
            mount -t tmpfs late "$JAIL/late"
            touch "$JAIL/late/came"
            init=$(pgrep --parent "$(pgrep -d, -f "^$PROBE ")" job_init)
            nsenter --mount="/proc/$init/fd/3" sh -c 'echo slurmstepd: $(ls /late)'
            touch "$JAIL/go-on"
        ) &
    """
    said = trial.run("touch /waits; until [ -e /go-on ]; do sleep 0.05; done; echo task: $(ls /late)", spoil=node)
    assert said.lines == ["slurmstepd: came", "task:"]


def test_a_job_finds_its_nodes_driver_and_can_not_change_it(trial: Trial) -> None:
    """Its files are mounts of their own, as a container runtime makes them."""
    library = "/run/node/driver/lib/libcuda.so.1"
    node = f"""
        mkdir -p "$JAIL/run/node/driver/lib"
        echo version 570 > "$JAIL/driver-of-the-node"
        touch "$JAIL{library}"
        mount --bind "$JAIL/driver-of-the-node" "$JAIL{library}"
    """
    said = trial.run(
        f"cat {library}", f"echo mine > {library}", "touch /run/node/mine", "ls /run/.jail-ready", spoil=node
    )
    assert said.lines == ["version 570"]
    assert said.statuses[0] == 0
    assert 0 not in said.statuses[1:]


def test_an_ordinary_users_task_is_born_inside_too(trial: Trial) -> None:
    said = trial.run("readlink /proc/self/ns/pid", "ordinary", "readlink /proc/self/ns/pid; id -u")
    assert said.lines[0] == said.lines[1]
    assert said.lines[2] == "12345"


def test_ordinary_user_namespaces_work(trial: Trial) -> None:
    line = "unshare -Urm sh -c 'mount -t tmpfs none /tmp && id -u'"
    assert trial.run("ordinary", line, line).lines == ["0", "0"]


# fanotify_init with file ids alone, quotactl that only writes back: calls that the kernel itself leaves to everybody.
UNPRIVILEGED_CALLS = {"x86_64": ("300, 0x200, 0", "179, 0x80000100, 0, 0, 0"),
                      "aarch64": ("262, 0x200, 0", "60, 0x80000100, 0, 0, 0")}  # fmt: skip


@pytest.mark.parametrize(
    "line",
    [
        ": >> /proc/sys/kernel/core_pattern",
        ": >> /proc/sysrq-trigger",
        "grep -q . /proc/keys",
        "head -c 1 /proc/kcore | grep -qa .",
        "ls /proc/1/root/",
        "cat /proc/1/environ /proc/1/maps",
        "nsenter --mount=/proc/1/fd/3 true",
        "nsenter -t 1 -m true",
        "umount /proc",
        "unshare -Urm umount /proc/sys",
        "unshare -Urmpf mount -t proc proc /tmp",
        "unshare -Urm umount /sys",
        "unshare -UrC true",
        "unshare -UrmC mount -t cgroup -o memory none /tmp || unshare -UrmC mount -t cgroup2 none /tmp",
        "touch /run/slurm/x",
        "echo optional >> /run/slurm/conf/plugstack.conf",
        "ls /var/spool/slurmd/job00008",
        "touch /var/spool/slurmd/x",
        "ls /run/.jail-ready",
        "mkdir /sys/fs/cgroup/memory/x || mkdir /sys/fs/cgroup/x",
        "mount -t tmpfs none /tmp",
        "ls /dev/pts | grep -v ptmx",
        *(f"perl -e 'exit syscall({call}) < 0'" for call in UNPRIVILEGED_CALLS[platform.machine()]),
    ],
)
def test_root_in_a_task_is_refused(trial: Trial, line: str) -> None:
    allowed = trial.run("cat /run/slurm/conf/plugstack.conf", f"({line}) 2>/dev/null")
    assert allowed.lines[:1] == ["trusted"], "what a step needs of the node is there"
    assert allowed.statuses[0] == 0
    assert allowed.statuses[1] != 0


# What containerd and Docker mask and make read-only (their default OCI specification), later additions included.
MASKED = [
    "/proc/acpi",
    "/proc/asound",
    "/proc/interrupts",
    "/proc/kcore",
    "/proc/keys",
    "/proc/latency_stats",
    "/proc/timer_list",
    "/proc/timer_stats",
    "/proc/sched_debug",
    "/proc/scsi",
]
READ_ONLY = ["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"]


def test_every_path_that_a_runtime_masks_or_makes_read_only_is_so_for_a_task(trial: Trial) -> None:
    mounts = [line.split() for line in trial.run("cat /proc/self/mountinfo").lines]
    seen = {words[4]: (words[3], "ro" in words[5].split(",")) for words in mounts if words[4].startswith("/proc/")}
    here = [path for path in (*MASKED, *READ_ONLY) if Path(path).exists()]
    assert {"/proc/keys", "/proc/sys"} <= {*here}
    for path in here:
        if path in READ_ONLY:
            assert seen.get(path) == (path.removeprefix("/proc"), True), path
        else:
            assert seen.get(path) == (("/" if Path(path).is_dir() else "/null"), True), path


def test_nothing_of_a_job_outlives_it(trial: Trial) -> None:
    marker = f"sleep 97{os.getpid() % 1000:03}"
    begun = f"""until [ "$(tr '\\0' ' ' < /proc/$!/cmdline)" = '{marker} ' ]; do :; done; echo runs"""
    assert trial.run(f"setsid {marker} > /dev/null 2>&1 < /dev/null & {begun}").lines == ["runs"]
    commands = b""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # Others of this machine come and go.
            commands += path.read_bytes()
    assert marker.replace(" ", "\0").encode() not in commands
    assert not list((trial.folder / "jobs").iterdir())


def test_a_thousand_steps_leave_no_mount_descriptor_or_process(tmp_path: Path, make: Callable[..., Path]) -> None:
    # Without the sanitizers, which make a step four times as long; the other tests have them.
    trial = Trial(tmp_path, make, "SANITIZERS=")
    # Counted by the shell itself: in a pipe, one program may look before the other is there.
    count = ("census", "wc -l < /proc/self/mountinfo; set -- /proc/[0-9]*; echo $#")
    said = trial.run("true", *count, *["true"] * 1000, *count, "ordinary", "true", *count, seconds=300)
    assert said.statuses == [0] * len(said.statuses)
    before, after, last = said.lines[:3], said.lines[3:6], said.lines[6:]
    assert before == after == last
    assert "-1" not in before[0]


@pytest.mark.parametrize(
    ("spoil", "wrap", "sentence"),
    [
        ('umount -R "$JAIL"', "", "is not a mount"),
        ('rm "$JAIL/run/.jail-ready"', "", "is missing"),
        ('rmdir "$JAIL/tmp" 2>/dev/null || { umount "$JAIL/tmp"; rmdir "$JAIL/tmp"; }', "", "/tmp: No such file"),
        ('umount "$JAIL/run/slurm"; rm -r "$JAIL/run/slurm"', "", "/run/slurm: No such file"),
        ('mount -o remount,ro "$JAIL"', "", "is read-only"),
        ("", "setpriv --bounding-set -sys_admin --inh-caps -all", "SYS_ADMIN"),
        ("", "setpriv --bounding-set -sys_chroot --inh-caps -all", "SYS_CHROOT"),
    ],
    ids=["not mounted", "half built", "no /tmp", "no sockets", "read-only", "no SYS_ADMIN", "no SYS_CHROOT"],
)
def test_without_a_right_tree_or_namespaces_nothing_runs_and_the_reason_is_said(
    trial: Trial, spoil: str, wrap: str, sentence: str
) -> None:
    said = trial.run("echo ran outside", spoil=spoil, wrap=wrap)
    assert "ran outside" not in said.lines
    assert said.statuses == [99]
    assert any(sentence in line for line in said.lines if line.startswith("not kept: ")), said.lines
    assert any(sentence in line for line in said.lines if line.startswith("refused: ")), said.lines


def test_a_step_heeds_what_the_nodes_jail_probes_found(trial: Trial) -> None:
    broken = trial.folder / "broken"
    said = trial.run("echo ran outside", spoil=f"echo the storage is gone > {broken}")
    broken.unlink()
    assert said.statuses == [99]
    assert said.lines[0] == "refused: the storage is gone"


def mute(mood: str) -> str:
    """Shell that puts a file server in trouble in the tree's place."""
    return f"""
        umount -R "$JAIL"
        mkfifo "$JAIL.hold" "$JAIL.said" 2>/dev/null || true
        {sys.executable} {MUTE} "$JAIL" {mood} < "$JAIL.hold" > "$JAIL.said" &
        exec 7> "$JAIL.hold"
        read said < "$JAIL.said"
    """


@pytest.mark.parametrize(("mood", "sentence"), [("mute", "the shared storage hangs"), ("stale", "Stale file handle")])
def test_storage_that_hangs_or_went_stale_holds_up_nobody(trial: Trial, mood: str, sentence: str) -> None:
    said = trial.run("echo ran outside", spoil=mute(mood))
    assert "ran outside" not in said.lines
    assert said.statuses == [99]
    assert any(sentence in line for line in said.lines), said.lines
