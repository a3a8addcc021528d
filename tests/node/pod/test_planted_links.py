"""Symbolic links that root planted in the jail lead no program of a pod out of the jail."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from slurm_node.accounts import accounts
from slurm_node.jail import driver
from slurm_node.pod import paths, resolve_beneath
from slurm_node.pod.log import NodeError
from slurm_node.pod.settings import Jail, User
from slurm_node.roots import completion, initial_users

# Only root gives files away; `make test` needs root, so there none is skipped.
pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="sets owners")

JAIL = Jail("r1", ("/home",))
ALICE = User("alice", ("ssh-ed25519 A alice",), sudo=True)
TARGETS = ("{outside}", "../../../../../../../..{outside}", "{outside}/not-there")
"""An absolute link, one by .., one that leads nowhere yet; from wherever they are."""
FOLDERS = {name: f"/{folder}" for name, folder in (("libraries", driver.library_folders()[0]), ("programs", "usr/bin"))}


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """A folder of the pod's own, with a file that root in the jail must neither read nor change."""
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "key").write_text("secret")
    (folder / "key").chmod(0o600)
    return folder


@pytest.fixture
def volume(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    prefix = tmp_path / "slurm"
    (prefix / "bin").mkdir(parents=True)
    (prefix / "bin/srun").touch()
    monkeypatch.setattr(paths, "PREFIX", prefix)
    return tmp_path / "volume"


@pytest.fixture
def root(volume: Path) -> Path:
    """A root in use."""
    root = volume / "roots/r1"
    for folder in (*FOLDERS.values(), "/etc/skel", "/etc/sudoers.d", "/home", "/opt", "/usr/sbin", "/usr/local/bin"):
        (root / folder.lstrip("/")).mkdir(parents=True)
    (root / "etc/passwd").write_text("root:x:0:0::/root:/bin/sh\n")
    (root / "etc/group").write_text("root:x:0:\n")
    return root


def untouched(outside: Path) -> bool:
    return [path.name for path in outside.iterdir()] == ["key"] and (outside / "key").read_text() == "secret"


def plant(path: Path, target: str, outside: Path) -> None:
    """Puts a link in the place of a file or folder of the root."""
    if path.is_dir() and not path.is_symlink():
        path.rename(path.with_name(f"{path.name}.away"))
    path.unlink(missing_ok=True)
    path.symlink_to(target.format(outside=outside))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("spoiled", ["/usr", *FOLDERS.values()])
def test_links_to_a_driver_are_put_into_no_folder_that_is_a_link(
    root: Path, outside: Path, spoiled: str, target: str, capfd: pytest.CaptureFixture[str]
) -> None:
    plant(root / spoiled.lstrip("/"), target, outside)
    driver.link(root)
    assert untouched(outside)
    assert "is a symbolic link in the shared root" in "".join(capfd.readouterr())
    for folder in FOLDERS.values():
        if not folder.startswith(spoiled):
            assert list((root / folder.lstrip("/")).iterdir()), "the other folder has its links"


@pytest.mark.parametrize("target", TARGETS)
def test_a_link_in_the_place_of_a_drivers_library_is_replaced_not_followed(
    root: Path, outside: Path, target: str
) -> None:
    library = root / FOLDERS["libraries"].lstrip("/") / "libcuda.so.1"
    plant(library, f"{target}/key", outside)
    driver.link(root)
    assert untouched(outside)
    assert library.readlink() == paths.DRIVER / "lib/libcuda.so.1"


@pytest.mark.parametrize("target", TARGETS)
def test_a_nodes_own_driver_is_put_behind_no_link(tmp_path: Path, outside: Path, target: str) -> None:
    tree = tmp_path / "tree"
    tree.mkdir()
    plant(tree / "run", target, outside)
    with pytest.raises(NodeError, match="is a symbolic link"):
        driver.bring(tree, "")
    assert untouched(outside)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("spoiled", ["opt", "etc", "tmp", "etc/hosts"])
def test_a_root_is_completed_through_no_link(root: Path, outside: Path, spoiled: str, target: str) -> None:
    plant(root / spoiled, target, outside)
    with pytest.raises(NodeError, match=f"^/{spoiled}.*is a symbolic link in the shared root"):
        completion.complete_root(root)
    assert untouched(outside)


@pytest.mark.parametrize("target", TARGETS)
def test_slurms_commands_are_put_into_the_folder_that_a_link_means_inside(
    root: Path, outside: Path, target: str
) -> None:
    (root / "usr/sbin").rmdir()
    (root / "usr/sbin").symlink_to("/usr/bin")
    plant(root / "usr/local/bin", target, outside)
    completion.complete_root(root)
    assert untouched(outside)
    assert (root / "usr/bin/srun").readlink() == paths.PREFIX / "bin/srun"
    assert (root / "usr/bin/slurmstepd").readlink() == paths.PREFIX / "sbin/slurmstepd"


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("spoiled", [*accounts.FILES, "sudoers.d"])
def test_account_files_that_are_links_are_neither_read_nor_written_through(
    root: Path, volume: Path, outside: Path, spoiled: str, target: str
) -> None:
    (outside / "key").write_text("stolen:x:1:1::/:/bin/sh\n")
    plant(root / "etc" / spoiled, target if spoiled == "sudoers.d" else f"{target}/key", outside)
    initial_users.add(root, (ALICE,), volume)
    assert (outside / "key").read_text() == "stolen:x:1:1::/:/bin/sh\n"
    assert list(outside.iterdir()) == [outside / "key"]
    assert not any("stolen" in path.read_text() for path in (root / "etc").iterdir() if path.is_file())


@pytest.mark.parametrize("target", TARGETS)
def test_an_etc_that_is_a_link_is_not_opened(root: Path, volume: Path, outside: Path, target: str) -> None:
    plant(root / "etc", target, outside)
    with pytest.raises(OSError, match="etc"):
        initial_users.add(root, (ALICE,), volume)
    assert untouched(outside)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("spoiled", ["alice", ".making-alice"])
def test_a_home_is_made_through_no_link(root: Path, volume: Path, outside: Path, spoiled: str, target: str) -> None:
    homes = paths.persistent_of(volume, "/home")
    homes.mkdir(parents=True)
    plant(homes / spoiled, target, outside)
    initial_users.add(root, (ALICE,), volume)
    assert untouched(outside)
    assert (homes / spoiled).is_symlink(), "what a user put there is left alone"
    assert (homes / "alice").is_symlink() or (homes / "alice/.ssh/authorized_keys").stat().st_uid == 1000


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("spoiled", ["etc/skel", "etc/skel/.profile", "etc/skel/sub"])
def test_no_file_of_the_pod_is_copied_into_a_home(
    root: Path, volume: Path, outside: Path, spoiled: str, target: str
) -> None:
    plant(root / spoiled, f"{target}/key" if spoiled.endswith("profile") else target, outside)
    initial_users.add(root, (ALICE,), volume)
    assert (root / "home/alice/.ssh/authorized_keys").read_text() == "ssh-ed25519 A alice\n"
    copied = [path for path in (root / "home").rglob("*") if path.is_file() and not path.is_symlink()]
    assert not any("secret" in path.read_text() for path in copied)
    assert (outside / "key").stat().st_uid == 0
    assert untouched(outside)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("spoiled", [".ssh", ".ssh/authorized_keys"])
def test_the_keys_of_a_new_user_are_written_through_no_link_of_the_skeleton(
    root: Path, volume: Path, outside: Path, spoiled: str, target: str
) -> None:
    outside.chmod(0o755)
    (root / "etc/skel" / spoiled).parent.mkdir(exist_ok=True)
    plant(root / "etc/skel" / spoiled, f"{target}/key" if spoiled.endswith("keys") else target, outside)
    initial_users.add(root, (ALICE,), volume)
    assert untouched(outside)
    assert outside.stat().st_mode & 0o777 == 0o755
    keys = root / "home/alice/.ssh/authorized_keys"
    assert keys.read_text() == "ssh-ed25519 A alice\n"
    assert not keys.is_symlink()
    assert not keys.parent.is_symlink()
    assert keys.stat().st_uid == 1000


@pytest.mark.parametrize("spoiled", [".ssh", ".ssh/authorized_keys"])
def test_what_the_skeleton_has_in_the_place_of_keys_keeps_nobody_from_his_home(
    root: Path, volume: Path, spoiled: str
) -> None:
    in_the_way = root / "etc/skel" / spoiled
    if spoiled == ".ssh":
        in_the_way.write_text("a file")
    else:
        in_the_way.mkdir(parents=True)
        (in_the_way / "sub").mkdir()
        (root / "etc/skel/.ssh/config").write_text("Compression yes\n")
    initial_users.add(root, (ALICE,), volume)
    home = root / "home/alice"
    assert (home / ".ssh/authorized_keys").read_text() == "ssh-ed25519 A alice\n"
    assert (home / ".ssh/config").exists() == (spoiled != ".ssh"), "what is not in the way stays"


@pytest.mark.parametrize("target", TARGETS)
def test_a_persistent_path_is_not_seeded_from_behind_a_link(
    root: Path, volume: Path, outside: Path, target: str
) -> None:
    plant(root / "home", target, outside)
    with pytest.raises(NodeError, match=r"^/home.*is a symbolic link"):
        completion.seed_persistent(root, JAIL, volume)
    assert untouched(outside)


def test_a_persistent_path_has_links_as_links_and_nothing_but_files_and_folders(
    root: Path, volume: Path, outside: Path
) -> None:
    home = root / "home"
    (home / "sub").mkdir(mode=0o711)
    (home / "sub/file").write_text("x")
    (home / "sub/file").chmod(0o4755)
    os.chown(home / "sub/file", 1234, 1235)
    (home / "sub/file").chmod(0o4755)
    (home / "link").symlink_to(outside)
    (home / "file-link").symlink_to(outside / "key")
    os.mkfifo(home / "waits")
    completion.seed_persistent(root, JAIL, volume)
    seeded = volume / "persistent/home"
    assert sorted(path.name for path in seeded.iterdir()) == ["file-link", "link", "sub"]
    assert (seeded / "link").readlink() == outside
    assert (seeded / "sub").stat().st_mode & 0o7777 == 0o711
    facts = (seeded / "sub/file").stat()
    assert (facts.st_uid, facts.st_gid, facts.st_mode & 0o7777) == (1234, 1235, 0o4755)
    assert untouched(outside)


def test_a_folder_that_becomes_a_link_after_it_was_opened_changes_nothing(root: Path, outside: Path) -> None:
    with resolve_beneath.folder(root, "/opt/slurm") as opened:
        plant(root / "opt", "{outside}", outside)
        resolve_beneath.put_link(opened, "srun", Path("/x"))
        (opened / "lib").mkdir()
    assert untouched(outside)
    assert sorted(path.name for path in (root / "opt.away/slurm").iterdir()) == ["lib", "srun"]
