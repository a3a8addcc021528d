"""The report of a root lists people's changes, and leaves out what programs and packages wrote by themselves."""

import errno
import hashlib
import os
import subprocess
import threading
from pathlib import Path

import pytest
from slurm_node.pod import paths
from slurm_node.pod.log import NodeError
from slurm_node.roots import inventory, root_report

from tests.node.roots.nested_folders import nest

STATUS = "Package: {0}\nStatus: install ok installed\nVersion: {1}\nDescription: x\n more: y\n\n"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    found = tmp_path / "roots/r1"
    for folder in ("etc", "usr/bin", "var/lib/dpkg/info", "opt", "home/alice", "data", "var/log", "etc/sudoers.d"):
        (found / folder).mkdir(parents=True)
    (found / "bin").symlink_to("usr/bin")
    (found / "var/lib/dpkg/status").write_text(STATUS.format("vim", "9.0") + STATUS.format("nano", "8"))
    (found / "usr/bin/vim").write_text("9.0")
    (found / "var/lib/dpkg/info/vim.list").write_text("/.\n/usr\n/usr/bin\n/usr/bin/vim\n")
    (found / "etc/hello.conf").write_text("a")
    (found / "etc/gone.conf").write_text("a")
    (found / "etc/passwd").write_text("root:x:0:0::/root:/bin/sh\nsshd:x:101:65534::/:/bin/false\n")
    (found / "etc/group").write_text("root:x:0:\n")
    (found / "etc/sudoers.d/README").write_text("of the image")
    inventory.note_image(found, tmp_path, "r1")
    inventory.note_files(found, tmp_path, "r1")
    return found


def changes(root: Path) -> root_report.Report:
    return root_report.report(root.parents[1], "r1", ("/data",))


def test_an_untouched_root_has_no_changes(root: Path) -> None:
    assert changes(root).summary == "nobody changed the root r1"


def test_packages_are_told_by_name_and_not_by_their_files(root: Path) -> None:
    status = STATUS.format("vim", "9.1") + STATUS.format("htop", "3")
    (root / "var/lib/dpkg/status").write_text(status)
    (root / "usr/bin/vim").write_text("9.1.0")
    (root / "usr/bin/htop").write_text("3")
    (root / "var/lib/dpkg/info/htop.list").write_text("/bin/htop\n")
    found = changes(root)
    assert found.packages == {"vim": ("9.0", "9.1"), "htop": ("", "3"), "nano": ("8", "")}
    assert found.files.count == 0
    assert "package htop: not there → 3" in found.text


def test_files_outside_persistent_paths_are_told(root: Path) -> None:
    (root / "opt/tool-x").mkdir()
    (root / "opt/tool-x/file").write_text("x")
    (root / "scratch").mkdir()
    (root / "etc/nccl.conf").touch()
    (root / "opt/tool/bin").mkdir(parents=True)
    (root / "opt/tool/bin/run").write_text("x")
    (root / "etc/hello.conf").write_text("longer")
    (root / "etc/gone.conf").unlink()
    for noise in ("data/x", "var/log/x", "etc/shadow", "etc/shadow-", "etc/ld.so.cache"):
        (root / noise).write_text("x")
    found = changes(root)
    assert found.files == inventory.Difference(["opt/tool", "opt/tool-x"], ["etc/hello.conf"], ["etc/gone.conf"])
    assert found.summary == "people changed 0 packages and 4 other files in the root r1"


def test_homes_that_no_persistent_path_keeps_are_told(root: Path) -> None:
    for name in ("home/alice/thesis", "root/.bashrc", "srv/data/set"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("x")
    assert changes(root).files.added == ["home/alice/thesis", "root", "srv"]
    found = root_report.report(root.parents[1], "r1", ("/home", "/root", "/srv"))
    assert found.summary == "nobody changed the root r1"


def test_an_edit_in_etc_is_told_also_of_a_package_that_was_upgraded(root: Path) -> None:
    ours, theirs = "as the new version brings it", "as administrators like it"
    brought = hashlib.md5(ours.encode(), usedforsecurity=False).hexdigest()
    names = ("kept", "edited", "new", "deleted")
    sums = "".join(f" /etc/vim/{name} {brought}\n" for name in names)
    status = STATUS.format("vim", "9.1").replace("Description", f"Conffiles:\n{sums}Description")
    (root / "var/lib/dpkg/status").write_text(status + STATUS.format("nano", "8"))
    (root / "etc/vim").mkdir()
    for name in ("kept", "edited", "deleted"):
        (root / "etc/vim" / name).write_text("as the old version brought it")
    inventory.note_files(root, root.parents[1], "r1")
    for name, text in {"kept": ours, "edited": theirs, "new": ours}.items():
        (root / "etc/vim" / name).write_text(text)
    (root / "etc/vim/deleted").unlink()
    listed = "".join(f"/etc/vim/{name}\n" for name in names)
    (root / "var/lib/dpkg/info/vim.list").write_text(f"/etc/vim\n{listed}/usr/bin/vim\n")
    assert changes(root).files == inventory.Difference([], ["etc/vim/edited"], ["etc/vim/deleted"])


def test_system_users_and_the_images_own_rules_of_sudo_are_told_since_they_are_not_carried_over(root: Path) -> None:
    with (root / "etc/passwd").open("a") as passwd:
        passwd.write("alice:x:1000:1000::/home/alice:/bin/sh\ngrafana:x:998:998::/:/bin/false\n")
    (root / "etc/group").write_text("root:x:0:\ngrafana:x:998:\n")
    (root / "etc/sudoers.d/README").write_text("edited")
    (root / "etc/sudoers.d/alice").write_text("alice ALL=(ALL) ALL\n")
    found = changes(root)
    assert found.accounts == inventory.Difference(["group grafana", "user grafana"])
    assert found.files == inventory.Difference([], ["etc/sudoers.d/README"])
    assert found.summary == "people changed 0 packages, 2 system users and groups and 1 other files in the root r1"
    assert "added system user grafana\n" in found.text


def test_the_report_is_kept_beside_the_root(root: Path) -> None:
    (root / "opt/new").write_text("x")
    volume = root.parents[1]
    root_report.tell(volume, "r1", ())
    assert "added /opt/new" in (paths.facts_of(volume, "r1") / "changes.txt").read_text()


def test_what_vanishes_while_a_root_is_walked_through_is_passed_over(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("file", "link", "folder/file", "folder2/file", "stale/file", "stays"):
        (root / "opt" / name).parent.mkdir(parents=True, exist_ok=True)
        (root / "opt" / name).write_text("x")
    (root / "opt/link").unlink()
    (root / "opt/link").symlink_to("file")
    real = os.scandir

    def scandir(opened: Path) -> list[os.DirEntry[str]]:
        """As if people deleted what was just listed."""
        path = opened.resolve()
        if path == root / "opt/stale":
            raise OSError(errno.ESTALE, "Stale file handle")
        if path == root / "opt/folder2":
            (path / "file").unlink()
            path.rmdir()
            path.write_text("now a file")
        found = list(real(opened))
        if path == root / "opt":
            (path / "file").unlink()
            (path / "link").unlink()
            (path / "folder/file").unlink()
            (path / "folder").rmdir()
        return found

    monkeypatch.setattr(inventory.os, "scandir", scandir)
    assert "opt/stays" in changes(root).files.added


def test_a_folder_that_becomes_a_link_is_not_walked_through(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/secret").write_text("x")
    (root / "opt/folder").mkdir()
    real = os.scandir

    def scandir(opened: Path) -> list[os.DirEntry[str]]:
        if opened.resolve() == root / "opt/folder":
            (root / "opt/folder").rmdir()
            (root / "opt/folder").symlink_to(tmp_path / "outside")
        return list(real(opened))

    monkeypatch.setattr(inventory.os, "scandir", scandir)
    assert not [path for path in inventory.look(root).files if "secret" in path]


def test_what_stands_for_a_packages_list_is_neither_followed_nor_waited_for(root: Path, tmp_path: Path) -> None:
    (root / "opt/mine").write_text("x")
    (tmp_path / "outside").write_text("/opt/mine\n")
    names = ("link", "pipe", "../../../../../outside")
    (root / "var/lib/dpkg/status").write_text("".join(STATUS.format(name, "1") for name in names))
    (root / "var/lib/dpkg/info/link.list").symlink_to(tmp_path / "outside")
    pipe = root / "var/lib/dpkg/info/pipe.list"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_text, args=("/opt/mine\n",))
    writer.start()
    try:
        assert "opt/mine" in changes(root).files.added
    finally:
        # The writer waits for somebody who reads.
        reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
        writer.join()
        os.close(reader)


def test_a_name_that_is_no_text_is_told(root: Path) -> None:
    (root / "opt" / os.fsdecode(b"caf\xe9")).write_text("x")
    assert root_report.tell(root.parents[1], "r1", ())
    assert "added /opt/caf\\udce9" in (paths.facts_of(root.parents[1], "r1") / "changes.txt").read_text()


@pytest.mark.parametrize("notes", ["files.gz", "image.json"])
def test_a_report_that_fails_is_said_and_nothing_else_fails(
    root: Path, capfd: pytest.CaptureFixture[str], notes: str
) -> None:
    (paths.facts_of(root.parents[1], "r1") / notes).write_bytes(b"broken")
    assert not root_report.tell(root.parents[1], "r1", ())
    assert "what people changed in the root r1 can't be told: " in capfd.readouterr().err


def test_of_a_root_without_notes_nothing_can_be_told(root: Path) -> None:
    volume = root.parents[1]
    (volume / "roots/old").mkdir()
    assert root_report.write(volume, "old", ()) is None
    with pytest.raises(NodeError, match="root old nothing was noted"):
        root_report.report(volume, "old", ())


def test_folders_may_be_nested_as_deep_as_people_like(root: Path) -> None:
    nest(root / "opt", "d", 1200)
    try:
        found = changes(root).files.added
    finally:
        # Python's own way of removing it, at the end of the tests, calls itself for each folder.
        subprocess.run(["rm", "-r", "d"], cwd=root / "opt", check=True)
    assert found == ["opt/d"]


def test_a_path_that_is_longer_than_paths_may_be_is_told_by_its_beginning(root: Path) -> None:
    name = "d" * 250
    nest(root / "opt", name, 20)
    (root / "opt/mine").write_text("x")
    assert changes(root).files.added == [f"opt/{name}", "opt/mine"]
