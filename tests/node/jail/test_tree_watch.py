"""Mounts of the tree come back after somebody removed them, in the pod and for slurmstepd; with real mounts."""

from __future__ import annotations

import os
import textwrap
from pathlib import Path

import pytest

from tests.node import own_mounts

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="makes mounts")

# A node of a shared root in a mount namespace of its own. `elsewhere` is another node, which has nothing mounted there:
# another mount namespace of the same file system.
BEGIN = textwrap.dedent("""
    import os, subprocess, sys, time
    from pathlib import Path
    from slurm_node.jail import tree, tree_plan
    from slurm_node.pod import paths, system
    from slurm_node.pod.log import NodeError
    from slurm_node.pod.settings import Jail, Submount
    from slurm_node.pod.system import MountFlag, mount
    from slurm_node.jail.tree_watch import TreeWatch

    work = Path(sys.argv[1])
    mount("none", Path("/"), flags=MountFlag.REC | MountFlag.PRIVATE)
    volume, view, disk = work / "volume", work / "view", work / "disk"
    for folder in ("/run", "/opt"):
        mount("own", Path(folder), "tmpfs")
    # As kubelet gives it to a pod, and a machine need not have it.
    upper, aside = Path("/run/upper"), Path("/run/aside")
    upper.mkdir()
    aside.mkdir()
    (upper / "termination-log").touch()
    mount("dev", Path("/dev"), "overlay", data=f"lowerdir=/dev,upperdir={upper},workdir={aside}")
    root = volume / "roots/r"
    for folder in (root / "etc", root / "usr/bin", volume / "persistent/home/alice", disk, paths.PREFIX):
        folder.mkdir(parents=True)
    jail = Jail("r", ("/home",), submounts=(Submount("/scratch", str(disk)), Submount("/mnt/memory", memory_mib=1)))
    plan = tree_plan.plan(jail, volume)
    tree.build(plan, view)
    (disk / "mine").touch()
    watch, now = TreeWatch(plan, view), 0.0

    def elsewhere(script):
        script = f"set -e; umount -R {view}; {script}"
        subprocess.run(["unshare", "--mount", "--propagation", "private", "sh", "-c", script], check=True, cwd=root)

    def lost():
        return [each.target for each in tree.missing(plan, view)]

    def tick(**how):
        global now
        now += 10
        watch.tick(now, **how)
        while watch._process:
            time.sleep(0.05)  # The process that remounts tells its end to the next tick alone.
            watch.tick(now)

    def marker():
        return (view / "run/.jail-ready").read_text().split()
""")


def run(tmp_path: Path, script: str) -> list[str]:
    """Lines that a script on that node prints, and then those that it logs."""
    printed, logged = own_mounts.run(tmp_path, BEGIN + textwrap.dedent(script))
    return [*printed, *logged]


def test_every_mount_of_the_tree_is_looked_for_before_a_job(tmp_path: Path) -> None:
    said = run(tmp_path, "print(*lost()); print(*marker())")
    node = {"/dev", "/dev/shm", "/dev/termination-log", "/proc", "/sys", "/run", "/run/slurm", "/tmp"}
    files = {f"/etc/{name}" for name in ("resolv.conf", "hosts", "hostname") if Path("/etc", name).exists()}
    assert said[0] == ""
    assert set(said[1].split()) == node | files | {"/home", "/opt/slurm", "/scratch", "/mnt/memory"}


def test_a_kernel_that_lacks_a_call_is_named_before_any_job(tmp_path: Path) -> None:
    script = """
        system._MOUNT_SETATTR = 1023  # A number that no kernel has.
        try:
            tree.build(plan, work / "another")
        except NodeError as error:
            print(error)
    """
    said = run(tmp_path, script)[0]
    assert said.startswith("can't build the node's view of the jail: mount ")
    assert said.endswith(": Function not implemented (the pod needs Linux 5.12 and a container runtime as new)")


def test_what_goes_away_is_mounted_again_once_nothing_is_in_its_way(tmp_path: Path) -> None:
    script = """
        elsewhere("rmdir scratch; mv mnt old; ln -s old mnt; rmdir home")
        print(*lost())
        for _ in range(3):
            tick()
        print(*lost(), *(path.name for each in ("scratch", "home") for path in (view / each).iterdir()))
        (root / "mnt").unlink()
        tick()
        print(*lost())
    """
    said = run(tmp_path, script)
    assert said[:3] == ["/home /scratch /mnt/memory", "/mnt/memory mine alice", ""]
    told = [line for line in said[3:] if "again" in line]
    # Once for what it did, once for what it could not, however often it tried.
    assert len(told) == 3, told
    assert "mounted /home, /scratch again" in told[0]
    assert "can't mount /mnt/memory again" in told[1]
    assert "is a symbolic link" in told[1]
    assert "mounted /mnt/memory again" in told[2]


def test_a_view_that_lost_everything_is_whole_again(tmp_path: Path) -> None:
    script = """
        before = marker()
        elsewhere('for each in *; do mv "$each" "was-$each"; done')
        print({*lost()} == {*before}, (view / "run").exists())
        tick()
        print(*lost(), marker() == before, (view / "dev/null").is_char_device(), (view / "proc/self/stat").exists())
        print(*sorted(path.name for path in (view / "run").iterdir()))
    """
    said = run(tmp_path, script)
    assert said[:3] == ["True False", "True True True", ".jail-ready lock node slurm user"]


@pytest.mark.parametrize("name", [b"\xff", b"\x0c\x0c", b"a b\\c\nd", "\u2028\u2028".encode()])
def test_a_folder_above_a_mount_may_be_renamed_to_anything(tmp_path: Path, name: bytes) -> None:
    """Root in a job may; it would end the pod, and all jobs in it, if its program could not read the mount table."""
    script = f"""
        os.rename(os.fsencode(root) + b"/opt", os.fsencode(root) + b"/" + {name!r})
        print(*lost())
        tick()
        print(*lost(), Path(os.fsdecode(os.fsencode(view) + b"/" + {name!r} + b"/slurm")) in system.mount_points())
    """
    assert run(tmp_path, script)[:2] == ["/opt/slurm", "True"]


def test_slurmstepd_gets_what_came_back_as_it_is_in_the_pod_and_tasks_do_not(tmp_path: Path) -> None:
    """The repair of a job's mounts opens no gap, not for a moment.

    Without /etc/hosts slurmstepd can't tell how its job ended. The node's /proc must never come into a job. No job may
    write to the pod's own programs. tests/native/job/test_job.py tests how the job's namespaces are made.
    """
    script = """
        flags = "findmnt --noheadings --output VFS-OPTIONS"
        files = f"$(ls {view}/scratch) $({flags} {view}/opt/slurm) $({flags} {view}/scratch)"
        look = f"touch {work}/$0; while [ ! -e {work}/mended ]; do sleep 0.05; done; echo $0: {files}"
        kinds = {"slave": "slurmstepd", "private": "tasks"}
        held = [
            subprocess.Popen(["unshare", "--mount", "--propagation", kind, "sh", "-c", look, name])
            for kind, name in kinds.items()
        ]
        while not all((work / name).exists() for name in kinds.values()):
            time.sleep(0.05)  # A shell tells by a file that it is in its namespace.
        elsewhere("rmdir scratch; mv opt old")
        tick()
        (work / "mended").touch()
        for process in held:
            process.wait()
    """
    said = sorted(run(tmp_path, script)[:2])
    assert said == ["slurmstepd: mine ro,relatime rw,nosuid,nodev,relatime", "tasks:"]


def test_what_comes_back_in_parts_is_mended_whole(tmp_path: Path) -> None:
    """A storage that fails in the middle of it: nothing of the pod's own stays in the place of the view's."""
    script = """
        real, failing = tree.make_mount, ["/dev/shm", "/run/slurm"]

        def make_mount(wanted, where):
            if wanted.target in failing:
                failing.remove(wanted.target)
                raise OSError(116, "Stale file handle")
            real(wanted, where)

        def mend():
            try:
                return tree.remount(plan, view)
            except NodeError as error:
                return error

        before = marker()
        tree.make_mount = make_mount
        elsewhere('mv dev was-dev; mv run was-run')
        print(mend())
        print(*lost(), (root / "run/slurm").exists(), (view / "run/.jail-ready").exists())
        print(mend(), *lost(), marker() == before)
        print(os.statvfs(view / "dev/shm").f_blocks == os.statvfs(view / "tmp").f_blocks)
    """
    said = run(tmp_path, script)
    assert said[0].startswith("can't mount /dev/shm again: ")
    assert said[1] == "/dev /dev/termination-log /dev/shm /run /run/slurm False False"
    assert said[2].startswith("mounted /dev, /dev/termination-log, /dev/shm, /run, /run/slurm again: ")
    assert said[2].endswith(" True")
    assert said[3] == "True"


def test_a_view_is_completed_once_more_where_that_failed(tmp_path: Path) -> None:
    script = """
        from slurm_node.jail import driver
        before, real, failing = marker(), driver.link, work / "failing"

        def link(*arguments):
            if failing.exists():
                failing.unlink()
                raise OSError(116, "Stale file handle")
            real(*arguments)

        driver.link = link
        failing.touch()
        elsewhere("mv run was-run")
        tick()
        print(*lost(), (view / "run/.jail-ready").exists())
        tick()
        print(*lost(), marker() == before, *sorted(path.name for path in (view / "run").iterdir()))
    """
    assert run(tmp_path, script)[:2] == [
        "/run /run/slurm False", "True .jail-ready lock node slurm user",
    ]  # fmt: skip


def test_what_root_of_a_login_session_left_in_run_leads_nowhere(tmp_path: Path) -> None:
    script = """
        work.chmod(0o700)
        (work / "key").write_text("secret")
        (work / "key").chmod(0o600)
        (view / "run/lock").rmdir()
        (view / "run/lock").symlink_to(work)
        for name in (".jail-ready", ".jail-ready.new"):
            (view / "run" / name).unlink(missing_ok=True)
            (view / "run" / name).symlink_to(work / "key")
        elsewhere("rmdir scratch")
        tick()
        print(*lost(), (work / "key").read_text(), oct((work / "key").stat().st_mode), oct(work.stat().st_mode)[-4:])
        print((view / "run/.jail-ready").is_symlink(), "/scratch" in marker())
    """
    assert run(tmp_path, script)[:2] == ["secret 0o100600 0700", "False True"]


@pytest.mark.parametrize("change", ["marker.unlink()", "marker.unlink(); marker.write_text('/not/there')"])
def test_a_marker_that_root_of_a_login_session_changed_comes_back_where_probes_fail(
    tmp_path: Path, change: str
) -> None:
    script = f"""
        before, marker_path = marker(), view / "run/.jail-ready"
        {change.replace("marker", "marker_path")}
        tick(doubted=True)
        print(marker() == before)
    """
    assert run(tmp_path, script)[0] == "True"


def test_a_source_that_is_away_is_told_as_such(tmp_path: Path) -> None:
    script = """
        (volume / "persistent/home").rename(volume / "persistent/away")
        elsewhere("rmdir home")
        tick()
        (volume / "persistent/away").rename(volume / "persistent/home")
        tick()
        print(*lost(), *(path.name for path in (view / "home").iterdir()))
    """
    said = run(tmp_path, script)
    assert said[0] == "alice"
    told = next(line for line in said if "can't mount /home again" in line)
    assert "No such file or directory" in told
    assert "remove" not in told.partition("can't mount")[2]


def test_a_view_is_mended_once_there_is_a_process_for_it(tmp_path: Path) -> None:
    script = """
        def fail():
            raise BlockingIOError(11, "Resource temporarily unavailable")

        real, os.fork = os.fork, fail
        elsewhere("rmdir scratch")
        descriptors = len(os.listdir("/proc/self/fd"))
        for _ in range(3):
            tick()
        print(*lost(), len(os.listdir("/proc/self/fd")) == descriptors)
        os.fork = real
        tick()
        print(*lost())
    """
    said = run(tmp_path, script)
    assert said[:2] == ["/scratch True", ""]
    assert len([line for line in said if "no process to remount the jail's view is to be had" in line]) == 1


def test_what_is_too_long_to_tell_holds_up_no_mending(tmp_path: Path) -> None:
    script = """
        real, tree.remount = tree.remount, lambda *_: "x" * (1 << 20)
        elsewhere("rmdir scratch")
        tick()
        tree.remount = real
        tick()
        print(*lost())
    """
    assert run(tmp_path, script)[0] == ""


def test_storage_that_hangs_holds_up_nobody(tmp_path: Path) -> None:
    script = """
        tree.remount = lambda *_: time.sleep(3600)  # As one does whose storage is silent; this script ends long before.
        elsewhere("rmdir scratch")
        for _ in range(5):
            now += 10
            watch.tick(now)
        print(len(Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()))
        os.kill(watch._process, 9)
    """
    assert run(tmp_path, script)[0] == "1"
