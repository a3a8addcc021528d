"""The populate Job's own work on a small image and a small volume."""

import json
import os
import shutil
from pathlib import Path

import pytest
from slurm_node.accounts import account_files, accounts
from slurm_node.pod import paths
from slurm_node.pod.log import NodeError
from slurm_node.pod.settings import Jail, User
from slurm_node.roles import populate
from slurm_node.roots import completion, image_root, initial_users, inventory
from slurm_node.roots.copying import Copy, without_attributes

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="sets owners")

JAIL = Jail("r1", ("/home", "/data/sets"))
ALICE = User("alice", ("ssh-ed25519 A alice",), sudo=True)


@pytest.fixture
def image(tmp_path: Path) -> Path:
    """A root file system small enough to copy in a moment."""
    root = tmp_path / "image"
    for folder in (
        "usr/bin",
        "usr/lib/deep/er",
        "usr/share",
        "etc/skel",
        "etc/sudoers.d",
        "home",
        "proc",
        "tools",
        "run/slurm-tools",
        "var",
    ):
        (root / folder).mkdir(parents=True)
    shutil.copy("/bin/dash", root / "usr/bin/dash")
    (root / "usr/bin/sh").symlink_to("dash")
    (root / "bin").symlink_to("usr/bin")
    (root / "etc/passwd").write_text("root:x:0:0::/root:/bin/sh\n")
    (root / "etc/group").write_text("root:x:0:\n")
    (root / "etc/skel/.profile").write_text("# profile\n")
    (root / "etc/resolv.conf").symlink_to("/run/systemd/resolve/stub-resolv.conf")
    (root / "usr/lib/deep/er/file").write_text("deep")
    os.link(root / "usr/lib/deep/er/file", root / "usr/lib/deep/er/twin")
    (root / "usr/share/owned").write_text("x")
    os.chown(root / "usr/share/owned", 1234, 1235)
    (root / "usr/bin/set-id").write_text("x")
    (root / "usr/bin/set-id").chmod(0o4755)
    (root / "tools/pause").write_text("of the image")
    (root / "run/slurm-tools/pause").write_text("of the container")
    return root


@pytest.fixture
def volume(tmp_path: Path, image: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    prefix = tmp_path / "slurm"
    (prefix / "bin").mkdir(parents=True)
    (prefix / "bin/srun").touch()
    monkeypatch.setattr(paths, "PREFIX", prefix)
    monkeypatch.setattr(populate, "wait_for_image", lambda: image)
    folder = tmp_path / "volume"
    (folder / "manifests").mkdir(parents=True)
    return folder


def run(volume: Path, *users: User, jail: Jail = JAIL) -> Path:
    populate._populate(jail, users, volume)
    return volume / "roots" / jail.revision


def test_a_root_is_a_true_copy_without_what_belongs_to_a_node(volume: Path) -> None:
    root = run(volume)
    assert (root / "usr/lib/deep/er/file").samefile(root / "usr/lib/deep/er/twin")
    assert ((root / "usr/share/owned").stat().st_uid, (root / "usr/share/owned").stat().st_gid) == (1234, 1235)
    assert (root / "usr/bin/set-id").stat().st_mode & 0o7777 == 0o4755
    assert (root / "bin/sh").resolve().name == "dash"
    assert (root / "tools/pause").read_text() == "of the image"
    assert list((root / "run").iterdir()) == []
    assert (root / "etc/resolv.conf").read_text() == "", "a mount point, no link of the image"
    assert all((root / name).is_dir() for name in ("proc", "dev", "sys", "run", "tmp", "opt/slurm", "var/spool/slurmd"))
    assert (root / "usr/local/bin/srun").readlink() == paths.PREFIX / "bin/srun"


def test_the_marker_is_written_last_and_the_work_folder_is_gone(volume: Path) -> None:
    run(volume)
    assert json.loads((volume / "manifests/r1.json").read_text())["revision"] == "r1"
    assert [path.name for path in (volume / "roots").iterdir()] == ["r1"]
    assert [path.name for path in (volume / "manifests").glob(".building*")] == []


def test_persistent_paths_are_seeded_once_and_never_again(volume: Path, image: Path) -> None:
    (image / "home/readme").write_text("first")
    run(volume)
    (volume / "persistent/home/readme").write_text("changed by a user")
    run(volume, jail=Jail("r2", JAIL.persistent))
    assert (volume / "persistent/home/readme").read_text() == "changed by a user"
    assert (volume / "persistent/data/sets").is_dir()


def test_an_initial_user_can_log_in_by_key(volume: Path) -> None:
    root = run(volume, ALICE)
    keys = volume / "persistent/home/alice/.ssh/authorized_keys"
    assert keys.read_text() == "ssh-ed25519 A alice\n"
    assert (keys.stat().st_uid, keys.stat().st_mode & 0o777) == (1000, 0o600)
    assert (volume / "persistent/home/alice/.profile").stat().st_uid == 1000
    assert "alice:x:1000:1000::/home/alice:/bin/sh" in (root / "etc/passwd").read_text()
    assert "%sudo" in (root / "etc/sudoers.d/pulumi-slurm").read_text()


@pytest.mark.parametrize("written", range(len(accounts.FILES) + 2))
def test_adding_a_user_that_ended_between_two_files_or_before_his_home_is_made_whole_by_the_next_run(
    volume: Path, monkeypatch: pytest.MonkeyPatch, written: int
) -> None:
    root = run(volume)
    replaced: list[str] = []

    def replace(folder: int, name: str, content: str, mode: int) -> None:
        if len(replaced) == written:
            raise OSError("the node is gone")
        replaced.append(name)
        original(folder, name, content, mode)

    def no_home(*_: object) -> None:
        raise OSError("the node is gone")

    original = account_files.replace
    with monkeypatch.context() as broken:
        broken.setattr(account_files, "replace", replace)
        broken.setattr(initial_users, "make_home", no_home)
        with pytest.raises(OSError, match="the node is gone"):
            run(volume, ALICE)
    run(volume, ALICE)
    for name in accounts.FILES:
        lines = (root / "etc" / name).read_text().splitlines()
        assert len([line for line in lines if line.startswith("alice:")]) == 1, name
    assert "alice:x:1000:1000:" in (root / "etc/passwd").read_text()
    assert "alice:x:1000:" in (root / "etc/group").read_text()
    assert (volume / "persistent/home/alice/.ssh/authorized_keys").stat().st_uid == 1000
    assert "%sudo" in (root / "etc/sudoers.d/pulumi-slurm").read_text()


def test_a_later_run_adds_users_but_changes_none(volume: Path) -> None:
    root = run(volume, ALICE)
    (volume / "persistent/home/alice/.ssh/authorized_keys").write_text("his own\n")
    run(volume, User("alice", ("other",)), User("bob", ("b",)))
    assert (volume / "persistent/home/alice/.ssh/authorized_keys").read_text() == "his own\n"
    assert "bob:x:1001:1001:" in (root / "etc/passwd").read_text()


def test_what_an_image_brings_under_a_persistent_path_is_told_since_nobody_will_see_it(
    volume: Path, image: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    run(volume)
    assert "is not taken over" not in "".join(capfd.readouterr())
    (image / "home/of-the-new-image").touch()
    run(volume, jail=Jail("r2", JAIL.persistent))
    assert "the image has of-the-new-image in /home, which is persistent" in "".join(capfd.readouterr())
    assert not (volume / "persistent/home/of-the-new-image").exists()


def test_a_new_root_keeps_the_people_of_the_one_before(volume: Path) -> None:
    run(volume, ALICE)
    root = run(volume, jail=Jail("r2", JAIL.persistent))
    assert "alice:x:1000:1000:" in (root / "etc/passwd").read_text()
    assert (volume / "roots/r1/etc/passwd").exists()


def test_a_copy_that_was_ended_goes_on_where_it_was(volume: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    copied: list[str] = []
    whole = Copy._copy

    def ended(self: Copy, chunks: list[str]) -> None:
        if "usr/share" in chunks:
            raise NodeError("ended")
        whole(self, chunks)

    monkeypatch.setattr(Copy, "_copy", ended)
    with pytest.raises(NodeError, match="ended"):
        run(volume)
    assert not (volume / "roots/r1").exists()
    assert not (volume / "manifests/r1.json").exists()

    def watched(self: Copy, chunks: list[str]) -> None:
        copied.extend(chunks)
        whole(self, chunks)

    monkeypatch.setattr(Copy, "_copy", watched)
    root = run(volume)
    assert "usr/share" in copied
    assert "etc" not in copied
    assert (root / "usr/share/owned").exists()
    assert (root / "usr/lib/deep/er/file").read_text() == "deep"


def test_a_full_volume_is_said_before_anything_is_written(volume: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(populate.shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(1, 1, 0))
    with pytest.raises(NodeError, match=r"needs \d+ MiB and the jail volume has 0 MiB free.*jail.storage.size"):
        run(volume)
    assert not (volume / "roots").exists()


def test_an_image_without_a_shell_is_refused(volume: Path, image: Path) -> None:
    (image / "usr/bin/sh").unlink()
    with pytest.raises(NodeError, match="no /bin/sh"):
        run(volume)


def test_an_image_for_another_processor_is_refused(volume: Path, image: Path) -> None:
    shell = image / "usr/bin/dash"
    code = bytearray(shell.read_bytes())
    code[18:20] = (183).to_bytes(2, "little")
    shell.write_bytes(code)
    with pytest.raises(NodeError, match="another processor"):
        run(volume)


def test_an_absolute_link_is_followed_inside_the_image(image: Path) -> None:
    (image / "usr/bin/sh").unlink()
    (image / "usr/bin/sh").symlink_to("/bin/dash")
    assert image_root.inside(image, "/bin/sh") == image / "usr/bin/dash"
    (image / "loop").symlink_to("loop")
    assert image_root.inside(image, "/loop") is None


def test_the_chunks_together_are_the_whole_image_and_each_is_there_once(image: Path) -> None:
    chunks = image_root.chunks(image)
    assert len(chunks) == len(set(chunks))
    assert {"usr", "usr/lib", "usr/lib/deep", "etc", "bin"} <= set(chunks)
    assert not {"proc", "run", "usr/lib/deep/er"} & set(chunks)


def test_a_copy_that_lost_something_is_made_again(volume: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole, losses = Copy.run, ["usr/share/owned", "usr/lib/deep/er/file"]

    def lossy(self: Copy) -> None:
        whole(self)
        if losses:
            (self.target / losses.pop()).write_text("longer")

    monkeypatch.setattr(Copy, "run", lossy)
    with pytest.raises(NodeError, match=r"in 1 files, such as usr/share/owned \(size 6 instead of \d+"):
        run(volume)
    assert not (volume / "manifests/r1.json").exists()
    run(volume)
    assert (volume / "manifests/r1.json").exists()


def test_storage_that_loses_times_is_told_of_with_the_mount_option_that_helps(
    volume: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = Copy.run

    def forgetful(self: Copy) -> None:
        whole(self)
        os.utime(self.target / "usr/share/owned", (5, 5))

    monkeypatch.setattr(Copy, "run", forgetful)
    with pytest.raises(NodeError, match=r"usr/share/owned \(time 5 instead of \d+\): .* nfsvers=4.1$"):
        run(volume)


def test_a_copy_with_other_content_of_the_same_size_and_time_is_made_again(
    volume: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, spoiled = Copy.run, [True]

    def spoiling(self: Copy) -> None:
        whole(self)
        if spoiled:
            spoiled.pop()
            file = self.target / "usr/lib/deep/er/file"
            times = file.stat().st_atime_ns, file.stat().st_mtime_ns
            file.write_text("DEEP")
            os.utime(file, ns=times)

    monkeypatch.setattr(Copy, "run", spoiling)
    assert (run(volume) / "usr/lib/deep/er/file").read_text() == "deep"
    assert not spoiled


@pytest.mark.parametrize(("files", "least", "most"), [(3, 3, 3), (10, 4, 5), (11, 4, 5), (1000, 4, 5)])
def test_a_sample_is_spread_over_all_files(files: int, least: int, most: int) -> None:
    listing = {f"file{number:04}": (0o100644, 0, 0, 7, 0, "") for number in range(files)}
    sampled = inventory.sample({**listing, "empty": (0o100644, 0, 0, 0, 0, ""), "folder": (0o40755, 0, 0, 0, 0, "")}, 5)
    assert least <= len(sampled) <= most
    assert sampled[0] == "file0000"
    assert set(sampled) <= set(listing)
    assert int(sampled[-1][4:]) >= files * 2 // 3


def test_going_back_to_a_root_takes_it_as_it_is_and_brings_todays_people(
    volume: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    first = run(volume, ALICE)
    run(volume, ALICE, User("bob", ("b",)), jail=Jail("r2", JAIL.persistent))
    before = {path: path.lstat().st_ino for path in (first, *first.rglob("*")) if path.parent != first / "etc"}
    capfd.readouterr()
    # What takes time when a root is made: its image's container, the copy, and a walk through all files.
    for module, slow in ((populate, "wait_for_image"), (populate, "copy_image"), (completion, "complete_root")):
        monkeypatch.setattr(module, slow, lambda *_: pytest.fail("made anew"))
    monkeypatch.setattr(inventory, "look", lambda *_: pytest.fail("walked through"))
    back = run(volume, ALICE)
    assert back == first
    assert {path: path.lstat().st_ino for path in before} == before
    assert "bob:x:1001:" in (back / "etc/passwd").read_text()
    assert "the root r1 is complete\n" in "".join(capfd.readouterr())


def test_what_people_changed_in_the_root_before_is_told(volume: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (run(volume, ALICE) / "opt/tool").write_text("x")
    run(volume, ALICE, jail=Jail("r2", JAIL.persistent))
    assert "added /opt/tool" in (volume / "manifests/r1/changes.txt").read_text()
    assert "people changed 0 packages and 1 other files in the root r1" in "".join(capfd.readouterr())


def test_the_roots_that_pods_use_are_told_of_and_not_the_one_that_was_made_last(volume: Path) -> None:
    for revision in ("r1", "r2", "r3"):
        (run(volume, ALICE, jail=Jail(revision, JAIL.persistent)) / "opt/tool").write_text("x")
    for report in volume.glob("manifests/*/changes.txt"):
        report.unlink()
    for revision in ("r1", "r2"):  # Gone back to r1, with a node set that stays on r2.
        pod = volume / "manifests" / revision / "uses/cpu-0"
        pod.parent.mkdir()
        pod.touch()
    run(volume, ALICE, jail=Jail("r4", JAIL.persistent))
    told = {path.parent.name: path.read_text() for path in volume.glob("manifests/*/changes.txt")}
    assert told.keys() == {"r1", "r2"}
    assert all("added /opt/tool" in text for text in told.values())


def test_a_job_that_died_while_it_told_tells_once_more_and_never_holds_up_the_new_root(
    volume: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (run(volume, ALICE) / "opt/tool").write_text("x")
    real, deaths = populate.root_report.tell, [1]

    def tell(*arguments: object) -> bool:
        if deaths:
            deaths.pop()
            raise SystemExit("out of memory")
        return real(*arguments)

    monkeypatch.setattr(populate.root_report, "tell", tell)
    with pytest.raises(SystemExit):
        run(volume, ALICE, jail=Jail("r2", JAIL.persistent))
    assert (volume / "manifests/r2.json").exists(), "pods need not wait for a report"
    deaths.append(2)
    with pytest.raises(SystemExit):
        run(volume, ALICE, jail=Jail("r2", JAIL.persistent))
    run(volume, ALICE, jail=Jail("r2", JAIL.persistent))
    assert not (volume / "manifests/r1/changes.txt").exists(), "it ended the Job twice"
    run(volume, ALICE, jail=Jail("r3", JAIL.persistent))
    deaths.append(3)
    with pytest.raises(SystemExit):
        run(volume, ALICE, jail=Jail("r4", JAIL.persistent))
    (volume / "roots/r3/opt/other").write_text("x")
    run(volume, ALICE, jail=Jail("r4", JAIL.persistent))
    assert "added /opt/other" in (volume / "manifests/r3/changes.txt").read_text()


def test_files_whose_capabilities_the_storage_does_not_keep_are_known() -> None:
    said = (
        "tar: setxattrat: Cannot set 'security.capability' extended attribute for file 'usr/bin/ping': Operation not"
        " supported\nTotal bytes read: 10240 (10KiB, 10MiB/s)\n"
    )
    assert without_attributes(said) == ["usr/bin/ping"]
