"""slurmstepd opens a job's files as the job would: nothing of the node, and no device that is not for everybody."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.native.conftest import Guard, mounted


@pytest.fixture
def spool(guard: Guard) -> Iterator[Path]:
    """Stands for slurmd's spool, a mount."""
    with mounted(guard.folder / "spool") as folder:
        yield folder


@pytest.mark.skipif(os.geteuid() != 0, reason="becomes a user")
@pytest.mark.parametrize("user", [0, 1234])
@pytest.mark.parametrize(
    ("what", "path", "outcome"),
    [
        ("open", "/proc/self/maps", "Permission denied"),
        ("open", "/proc/self/root/etc/passwd", "Permission denied"),
        ("open", "/proc/thread-self/root/etc/passwd", "Permission denied"),
        ("open", "/proc/1/cmdline", "Permission denied"),
        ("open", "/etc/passwd", "done"),
        ("open", "/nowhere", "No such file or directory"),
    ],
)
def test_slurmstepd_opens_nothing_of_the_node_whoevers_the_job_is(
    guard: Guard, user: int, what: str, path: str, outcome: str
) -> None:
    assert told(guard, what, path, user) == outcome


@pytest.mark.skipif(os.geteuid() != 0, reason="becomes a user")
@pytest.mark.parametrize("user", [0, 1234])
@pytest.mark.parametrize(
    "target", ["/proc/self/root", "/proc/self/root/etc", "/proc/self/cwd", "/proc/self/fd", "/sys"]
)
def test_a_link_leads_to_nothing_of_the_node_however_its_name_ends(
    guard: Guard, tmp_path: Path, user: int, target: str
) -> None:
    reachable(tmp_path)
    (tmp_path / "link").symlink_to(target)
    for end in ("", "/", "//", "/.", "/./", "/x/.."):
        assert told(guard, "open", f"{tmp_path}/link{end}", user) != "done", end


@pytest.mark.skipif(os.geteuid() != 0, reason="becomes a user")
def test_slurmstepd_reads_as_root_what_it_needs_of_its_tasks(guard: Guard) -> None:
    assert told(guard, "open", "/proc/1/stat", 0) == "done"
    assert told(guard, "open", "/proc/self/oom_score_adj", 0) == "done"
    assert told(guard, "open", "/proc/1/stat", 1234) == "Permission denied"


@pytest.mark.skipif(os.geteuid() != 0, reason="becomes a user")
def test_slurmstepd_makes_a_users_folders_where_the_user_may_have_them(guard: Guard, tmp_path: Path) -> None:
    reachable(tmp_path)
    mine = tmp_path / "mine"
    mine.mkdir()
    mine.chmod(0o777)
    assert told(guard, "mkdir", f"{mine}/one", 1234) == "done"
    assert told(guard, "mkdir", f"{mine}//two//", 1234) == "done"
    assert told(guard, "mkdir", f"{mine}/one", 1234) == "File exists"
    assert told(guard, "mkdir", f"/proc/self/root{mine}/three", 1234) == "Permission denied"
    assert told(guard, "mkdir", f"/proc/self/root{mine}/three", 0) == "done", "the test can fail"
    assert sorted(each.name for each in mine.iterdir()) == ["one", "three", "two"]


@pytest.mark.skipif(os.geteuid() != 0, reason="becomes a user")
@pytest.mark.parametrize("user", [0, 1234])
@pytest.mark.parametrize("what", ["open", "write"])
def test_slurmstepd_opens_no_device_but_everybodys(guard: Guard, tmp_path: Path, user: int, what: str) -> None:
    reachable(tmp_path)
    numbers = {"null": (1, 3), "memory": (1, 1), "fuse": (10, 229), "console": (5, 1)}
    for name, number in numbers.items():
        os.mknod(tmp_path / name, stat.S_IFCHR, os.makedev(*number))
    os.mknod(tmp_path / "loop", stat.S_IFBLK, os.makedev(7, 0))
    for file in tmp_path.iterdir():
        file.chmod(0o666)
    refused = [file.name for file in tmp_path.iterdir() if told(guard, what, str(file), user) == "Permission denied"]
    assert sorted(refused) == ["console", "fuse", "loop", "memory"]
    master, terminal = os.openpty()
    os.fchmod(terminal, 0o666)
    others = [*(f"/dev/{name}" for name in ("null", "zero", "full", "random", "urandom", "ptmx")), os.ttyname(terminal)]
    assert {told(guard, what, path, user) for path in others} == {"done"}
    os.close(terminal)
    os.close(master)


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts, and becomes a user")
@pytest.mark.parametrize("user", [0, 1234])
def test_slurmstepd_neither_empties_nor_makes_a_file_of_the_node(
    guard: Guard, spool: Path, tmp_path: Path, user: int
) -> None:
    reachable(tmp_path)
    reachable(spool, 0o777)
    (spool / "spooled").write_text("spooled")
    (spool / "spooled").chmod(0o666)
    for name in ("spooled", "missing"):
        (tmp_path / name).symlink_to(spool / name)
        for path in (spool / name, tmp_path / name):
            assert told(guard, "write", str(path), user) == "Permission denied"
    assert {file.name: file.read_text() for file in spool.iterdir()} == {"spooled": "spooled"}


@pytest.mark.skipif(os.geteuid() != 0, reason="becomes a user")
def test_slurmstepd_makes_and_empties_a_users_files_as_the_kernel_does(guard: Guard, tmp_path: Path) -> None:
    reachable(tmp_path, 0o777)
    (tmp_path / "old").write_text("old")
    (tmp_path / "old").chmod(0o666)
    (tmp_path / "folder").mkdir()
    links = {"to-old": "old", "to-new": f"{tmp_path}/folder/../new", "far": "to-new", "loop": "loop"}
    for link, target in links.items():
        (tmp_path / link).symlink_to(target)
    outcomes = {
        "to-old": "done",
        "far": "done",
        "folder": "Is a directory",
        "loop": "Too many levels of symbolic links",
        "nowhere/new": "No such file or directory",
        "n" * 300: "File name too long",
        "/".join(["folder/.."] * 500): "File name too long",
    }
    assert {name: told(guard, "write", f"{tmp_path}/{name}", 1234) for name in outcomes} == outcomes
    assert (tmp_path / "old").read_text() == ""
    assert (tmp_path / "new").stat().st_uid == 1234


@pytest.mark.skipif(os.geteuid() != 0, reason="becomes a user")
@pytest.mark.parametrize(("owner", "outcome"), [(1234, "done"), (4321, "Permission denied")])
def test_slurmstepd_follows_no_strangers_link_in_a_folder_for_everybody(
    guard: Guard, tmp_path: Path, owner: int, outcome: str
) -> None:
    mine, everybodys = tmp_path / "mine", tmp_path / "everybodys"
    for folder, mode in ((mine, 0o777), (everybodys, 0o1777)):
        folder.mkdir()
        reachable(folder, mode)
    link = everybodys / "link"
    link.symlink_to(mine / "new")
    os.chown(link, owner, owner, follow_symlinks=False)
    assert told(guard, "write", str(link), 1234) == outcome
    assert (mine / "new").exists() == (outcome == "done")


def told(guard: Guard, what: str, path: str, user: int) -> str:
    """Return what one call of slurmstepd's, as a user, comes to."""
    return guard.run(guard.good, what, path, str(user))[0].decode().strip()


def reachable(folder: Path, mode: int = 0o755) -> None:
    """Lets ordinary users come to a folder of the test."""
    for above in folder.parents[:-2]:
        above.chmod(0o755)
    folder.chmod(mode)
