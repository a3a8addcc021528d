"""Accounts of several roots on a volume, with real files and locks."""

import fcntl
import os
import subprocess
from pathlib import Path

import pytest
from slurm_node.accounts import account_files, account_sync

from tests.node.accounts.volume_roots import PASSWD, make_root

ALICE = "alice:x:1000:1000::/home/alice:/bin/sh\n"
BOB = "bob:x:1001:1001::/home/bob:/bin/sh\n"
SUBORDINATE = dict.fromkeys(("subuid", "subgid"), "alice:100000:65536\n")


@pytest.fixture
def volume(tmp_path: Path) -> Path:
    for revision in ("r1", "r2"):
        make_root(tmp_path, revision)
    account_sync.synchronize(tmp_path)
    return tmp_path


def etc(volume: Path, revision: str) -> Path:
    return volume / "roots" / revision / "etc"


def replace(path: Path, text: str) -> None:
    """As useradd does."""
    aside = path.with_name(f"{path.name}+")
    aside.write_text(text)
    aside.replace(path)


def test_a_user_made_in_one_root_is_in_the_other_and_so_is_his_end(volume: Path) -> None:
    before = account_sync.signature(volume)
    replace(etc(volume, "r1") / "passwd", PASSWD + ALICE)
    replace(etc(volume, "r1") / "shadow", "root:*:1::::::\nalice:$6$a:1::::::\n")
    replace(etc(volume, "r1") / "group", "root:x:0:\nsudo:x:27:alice\n")
    (etc(volume, "r1") / "sudoers.d/alice").write_text("alice ALL=(ALL) ALL\n")
    assert account_sync.signature(volume) != before
    account_sync.synchronize(volume)
    for name in ("passwd", "shadow", "group", "sudoers.d/alice"):
        assert (etc(volume, "r2") / name).read_text() == (etc(volume, "r1") / name).read_text(), name
    assert (etc(volume, "r2") / "sudoers.d/README").read_text() == "of the image r2\n"
    replace(etc(volume, "r2") / "passwd", PASSWD)
    (etc(volume, "r2") / "sudoers.d/alice").unlink()
    account_sync.synchronize(volume)
    assert "alice" not in (etc(volume, "r1") / "passwd").read_text()
    assert not (etc(volume, "r1") / "sudoers.d/alice").exists()


def test_a_root_made_again_under_its_old_name_removes_nobody(volume: Path) -> None:
    replace(etc(volume, "r1") / "passwd", PASSWD + ALICE)
    account_sync.synchronize(volume)
    (volume / "manifests/r2.json").unlink()
    replace(etc(volume, "r2") / "passwd", PASSWD)
    account_sync.synchronize(volume, joining="r2")
    assert all("alice" in (etc(volume, each) / "passwd").read_text() for each in ("r1", "r2"))


def test_a_root_that_is_not_complete_has_no_say(volume: Path) -> None:
    replace(make_root(volume, "r3", complete=False) / "passwd", PASSWD + ALICE)
    account_sync.synchronize(volume)
    assert "alice" not in (etc(volume, "r1") / "passwd").read_text()


@pytest.mark.parametrize("broken", ["", "daemon:x:1:1::/:/bin/false\n"])
def test_a_broken_file_in_one_root_removes_nobody_in_another_and_holds_up_nobody(
    volume: Path, capfd: pytest.CaptureFixture[str], broken: str
) -> None:
    make_root(volume, "r3")
    replace(etc(volume, "r1") / "passwd", PASSWD + ALICE)
    account_sync.synchronize(volume)
    replace(etc(volume, "r2") / "passwd", broken)
    replace(etc(volume, "r3") / "passwd", PASSWD + ALICE + BOB)
    account_sync.synchronize(volume)
    assert "the root r2 is left out: /etc/passwd of root r2 is gone or has lost its lines" in capfd.readouterr().err
    assert (etc(volume, "r1") / "passwd").read_text() == PASSWD + ALICE + BOB
    assert (etc(volume, "r2") / "passwd").read_text() == broken, "left as it is, for who repairs it"
    with pytest.raises(OSError, match="/etc/passwd of root r2"):
        account_sync.synchronize(volume, needed="r2")
    replace(etc(volume, "r2") / "passwd", PASSWD + ALICE)
    account_sync.synchronize(volume)
    assert (etc(volume, "r2") / "passwd").read_text() == PASSWD + ALICE + BOB


@pytest.mark.parametrize("instead", ["mkfifo", "mkdir", "truncate -s 1T", "ln -s /etc/passwd"])
def test_what_is_no_account_file_counts_as_a_lost_one(
    volume: Path, instead: str, capfd: pytest.CaptureFixture[str]
) -> None:
    (etc(volume, "r2") / "passwd").unlink()
    subprocess.run([*instead.split(), etc(volume, "r2") / "passwd"], check=True, timeout=20)
    replace(etc(volume, "r1") / "passwd", PASSWD + ALICE)
    account_sync.synchronize(volume)
    assert "the root r2 is left out: /etc/passwd of root r2 is gone or has lost its lines" in capfd.readouterr().err
    assert (etc(volume, "r1") / "passwd").read_text() == PASSWD + ALICE


@pytest.mark.parametrize(
    "line",
    ["odd:x:\u00b2:1::/:/bin/sh", pytest.param(f"odd:x:{'9' * 5000}:1::/:/bin/sh", id="long"), "odd:x:", "odd", ""],
)
def test_a_line_that_means_nobody_stays_and_holds_up_nobody(volume: Path, line: str) -> None:
    replace(etc(volume, "r2") / "passwd", f"{PASSWD}{line}\n")
    replace(etc(volume, "r1") / "passwd", PASSWD + ALICE)
    account_sync.synchronize(volume)
    assert (etc(volume, "r2") / "passwd").read_text() == f"{PASSWD}{line}\n{ALICE}"
    assert (etc(volume, "r1") / "passwd").read_text() == PASSWD + ALICE


@pytest.mark.parametrize("name", ["Zo\u2028\u0085e", "\x0c", "\r"])
def test_no_part_of_a_name_is_taken_for_the_end_of_a_line(volume: Path, name: str) -> None:
    zoe = f"zoe:x:1007:1007:{name}:/home/zoe:/bin/sh\n"
    replace(etc(volume, "r2") / "passwd", PASSWD + zoe)
    replace(etc(volume, "r1") / "passwd", PASSWD + ALICE)
    account_sync.synchronize(volume)
    assert (etc(volume, "r1") / "passwd").read_bytes().decode() == PASSWD + ALICE + zoe
    assert (etc(volume, "r2") / "passwd").read_bytes().decode() == PASSWD + zoe + ALICE


def test_a_root_without_its_folder_of_accounts_holds_up_nobody(volume: Path, capfd: pytest.CaptureFixture[str]) -> None:
    etc(volume, "r2").rename(volume / "elsewhere")
    replace(etc(volume, "r1") / "passwd", PASSWD + ALICE)
    account_sync.synchronize(volume)
    assert "the root r2 is left out" in capfd.readouterr().err
    (volume / "elsewhere").rename(etc(volume, "r2"))
    account_sync.synchronize(volume)
    assert (etc(volume, "r2") / "passwd").read_text() == PASSWD + ALICE


def test_the_end_of_the_last_owner_of_subordinate_ids_is_no_damage(volume: Path) -> None:
    files = {"passwd": ALICE, "group": "alice:x:1000:\n", "gshadow": "alice:!::\n", **SUBORDINATE}
    before = {name: path.read_text() if (path := etc(volume, "r1") / name).exists() else "" for name in files}
    for name, line in files.items():
        replace(etc(volume, "r1") / name, before[name] + line)
    account_sync.synchronize(volume)
    assert (etc(volume, "r2") / "subuid").read_text() == SUBORDINATE["subuid"]
    for name in files:  # As userdel leaves them.
        replace(etc(volume, "r1") / name, before[name])
    account_sync.synchronize(volume)
    assert [(etc(volume, "r2") / name).read_text() for name in files] == list(before.values())


def test_lost_subordinate_ids_are_no_end_of_theirs(volume: Path) -> None:
    for name, line in {"passwd": PASSWD + ALICE, **SUBORDINATE}.items():
        replace(etc(volume, "r1") / name, line)
    account_sync.synchronize(volume)
    (etc(volume, "r2") / "subuid").unlink()
    account_sync.synchronize(volume)
    assert (etc(volume, "r1") / "subuid").read_text() == SUBORDINATE["subuid"]
    (etc(volume, "r2") / "subuid").touch()
    account_sync.synchronize(volume)
    assert (etc(volume, "r1") / "subuid").read_text() == SUBORDINATE["subuid"], "their owner is still there"


def test_files_keep_their_mode_and_links_of_users_are_not_followed(volume: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.write_text(PASSWD + "mallory:x:1001:1001::/:/bin/sh\n")
    (etc(volume, "r2") / "shadow").chmod(0o600)
    replace(etc(volume, "r1") / "passwd", PASSWD + ALICE)
    replace(etc(volume, "r1") / "shadow", "root:*:1::::::\nalice:*:1::::::\n")
    (etc(volume, "r1") / "sudoers.d/mallory").symlink_to(outside)
    account_sync.synchronize(volume)
    assert (etc(volume, "r2") / "shadow").stat().st_mode & 0o777 == 0o600
    assert not (etc(volume, "r2") / "sudoers.d/mallory").exists()
    (etc(volume, "r2") / "passwd").unlink()
    (etc(volume, "r2") / "passwd").symlink_to(outside)
    account_sync.synchronize(volume)
    assert "mallory" not in (etc(volume, "r1") / "passwd").read_text()
    assert outside.read_text().startswith(PASSWD)


def test_the_lock_of_useradd_is_waited_for(volume: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(account_files, "LOCK_SECONDS", 0.2)
    lock = os.open(etc(volume, "r1") / ".pwd.lock", os.O_WRONLY | os.O_CREAT, 0o600)
    fcntl.lockf(lock, fcntl.LOCK_EX)
    child = os.fork()  # A lock of lockf(3) is a process's own.
    if child == 0:
        try:
            account_sync.synchronize(volume)
        except TimeoutError:
            os._exit(7)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    os.close(lock)
    account_sync.synchronize(volume)
