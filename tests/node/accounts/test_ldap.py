"""People of an LDAP directory: what is taken from an answer, what is not, and what becomes of it on a volume."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest
from slurm_node.accounts import account_sync, ldap_homes, ldap_users
from slurm_node.accounts.accounts import Accounts
from slurm_node.accounts.ldap_users import Answer
from slurm_node.pod.log import NodeError
from slurm_node.pod.settings import Jail, Ldap
from slurm_node.roles import ldap
from slurm_node.roots import inventory

FOLLOWED = Ldap("ldaps://ldap.example", "dc=example", "(uid=*)", "(cn=*)")
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f bob"


def user(name: str = "bob", **more: str) -> str:
    facts = {"uid": name, "uidNumber": "70001", "gidNumber": "70001", "homeDirectory": f"/home/{name}", **more}
    lines = [f"{key}: {value}" for key, value in facts.items() if value]
    return "\n".join([f"dn: uid={name},ou=people,dc=example", *lines, "", ""])


def group(name: str, number: int, *more: str) -> str:
    return "\n".join([f"dn: cn={name},dc=example", f"cn: {name}", f"gidNumber: {number}", *more, "", ""])


def test_an_answer_is_read_as_ldapsearch_prints_it() -> None:
    encoded = base64.b64encode("Jörg: der Große".encode()).decode()
    text = (
        f"# comment\ndn: uid=a,dc=b\nuid: a\ngecos:: {encoded}\nsshPublicKey;x: one\n  two\nempty:\n\ndn: cn=c\ncn: c\n"
    )
    first, second = ldap_users.objects(text)
    assert (first["gecos"], first["sshpublickey"], first["empty"]) == (("Jörg: der Große",), ("one two",), ("",))
    assert second == {"dn": ("cn=c",), "cn": ("c",)}


def test_users_and_groups_become_lines_of_account_files() -> None:
    found = ldap_users.read(
        user(gecos="Bob: the\tBuilder", loginShell="/bin/zsh", sshPublicKey=KEY),
        group("lab", 70100, "memberUid: bob", "memberUid: stranger")
        + group("net", 70101, "member: UID=Bob, OU=People,dc=example"),
    )
    assert found.users["passwd", "bob"] == "bob:x:70001:70001:Bob theBuilder:/home/bob:/bin/zsh"
    assert found.users["shadow", "bob"] == "bob:*:1::::::"
    assert {name for kind, name in found.users if kind == "member"} == {"lab:bob", "net:bob"}
    assert (found.homes, found.keys, found.refused) == ({"bob": "/home/bob"}, {"bob": (KEY,)}, ())


@pytest.mark.parametrize(
    ("facts", "why"),
    [
        ({"uidNumber": "0"}, "'0' is a system's own"),
        ({"uidNumber": "64030"}, "'64030' is a system's own"),
        ({"gidNumber": "27"}, "gidnumber '27' is a system's own"),
        ({"uidNumber": "1e4"}, "is a system's own"),
        ({"uidNumber": "4294967295"}, "is a system's own"),
        ({"uid": "a:b"}, "none that a Linux system takes"),
        ({"uid": "-x"}, "none that a Linux system takes"),
        ({"homeDirectory": "/home/../etc"}, "no absolute path"),
        ({"homeDirectory": "/home/b:x"}, "no absolute path"),
        ({"homeDirectory": ""}, "it has no homedirectory"),
        ({"loginShell": "bash"}, "no absolute path"),
    ],
)
def test_what_no_person_may_have_is_not_taken(facts: dict[str, str], why: str) -> None:
    found = ldap_users.read(user(**facts), "")
    assert not found.users
    assert why in found.refused[0]


def test_a_name_or_an_id_that_comes_twice_is_taken_once() -> None:
    found = ldap_users.read(user("bob") + user("carl") + user("bob", uidNumber="70002"), "")
    assert set(found.homes) == {"bob"}
    assert len(found.refused) == 2


def test_a_key_with_options_opens_nothing() -> None:
    found = ldap_users.read(user(sshPublicKey=f'command="x" {KEY}'), "")
    assert found.keys == {"bob": ()}


def test_nobody_gets_the_name_or_id_of_somebody_who_is_there() -> None:
    there = Accounts({"passwd": ("carl:x:70001:70001::/:/bin/sh",), "group": ("sudo:x:27:", "bob:x:1000:")})
    found = ldap_users.read(
        user("bob") + user("carl", uidNumber="70009") + user("dora", uidNumber="70010"),
        group("sudo", 70200, "memberUid: dora") + group("lab", 70100, "memberUid: bob", "memberUid: dora"),
    )
    taken = ldap_users.acceptable(found, {}, (there,))
    assert set(taken.homes) == {"dora"}
    assert [name for kind, name in taken.users if kind == "member"] == ["lab:dora"]
    assert len(taken.refused) == 3
    again = ldap_users.acceptable(found, {("passwd", "carl"): ""}, (there,))
    assert set(again.homes) == {"bob", "carl", "dora"}, "who came from the directory does not stand in its way"


@pytest.fixture
def volume(tmp_path: Path) -> Path:
    for revision in ("r1", "r2"):
        etc = tmp_path / "roots" / revision / "etc"
        (etc / "skel").mkdir(parents=True)
        (etc / "skel/.profile").write_text("umask 027\n")
        (etc / "skel/.link").symlink_to("/etc/shadow")
        (etc / "passwd").write_text("root:x:0:0::/root:/bin/sh\n")
        (etc / "group").write_text("root:x:0:\nsudo:x:27:\n")
        (etc / "shadow").write_text("root:*:1::::::\n")
        inventory.note_image(tmp_path / "roots" / revision, tmp_path, revision)
        (tmp_path / "manifests" / f"{revision}.json").write_text("{}")
    (tmp_path / "persistent/home").mkdir(parents=True)
    account_sync.synchronize(tmp_path)
    return tmp_path


def follow(volume: Path, users: str, groups: str = "") -> Answer:
    taken = account_sync.synchronize(volume, ldap=ldap_users.read(users, groups))
    assert taken is not None
    return taken


def test_all_roots_follow_and_keep_what_is_the_jails_to_say(volume: Path) -> None:
    follow(volume, user(), group("lab", 70100, "memberUid: bob"))
    etc = volume / "roots/r1/etc"
    (etc / "shadow").write_text((etc / "shadow").read_text().replace("bob:*", "bob:$y$secret"))
    (etc / "group").write_text((etc / "group").read_text().replace("sudo:x:27:", "sudo:x:27:bob"))
    (etc / "passwd").write_text((etc / "passwd").read_text().replace("70001:70001", "70001:27"))
    follow(volume, user(loginShell="/bin/zsh"), group("lab", 70100, "memberUid: bob"))
    for root in ("r1", "r2"):
        etc = volume / "roots" / root / "etc"
        assert "bob:x:70001:70001::/home/bob:/bin/zsh\n" in (etc / "passwd").read_text()
        assert "bob:$y$secret:" in (etc / "shadow").read_text()
        assert "sudo:x:27:bob\n" in (etc / "group").read_text()
    follow(volume, user("carl", uidNumber="70002"))
    for root in ("r1", "r2"):
        texts = [(volume / "roots" / root / "etc" / name).read_text() for name in ("passwd", "shadow", "group")]
        assert not any("bob" in text for text in texts)


def test_who_was_taken_over_is_known_as_such_after_a_crash(volume: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(account_sync, "_save", stop_after(2))
        with pytest.raises(KeyboardInterrupt):
            follow(volume, user())
    account_sync.synchronize(volume)
    assert follow(volume, user()).refused == ()
    follow(volume, user("carl", uidNumber="70002"))
    assert "bob" not in (volume / "roots/r1/etc/passwd").read_text()


def stop_after(calls: int):
    """A _save that is ended at its last call."""
    left, save = [calls], account_sync._save

    def saved(*arguments) -> None:
        left[0] -= 1
        if not left[0]:
            raise KeyboardInterrupt
        save(*arguments)

    return saved


def test_homes_are_made_once_and_follow_no_link(volume: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    owners: dict[str, tuple[int, int]] = {}
    monkeypatch.setattr("os.chown", lambda path, *ids, **_: owners.update({Path(path).name: ids}))
    outside = volume / "outside"
    outside.mkdir()
    (volume / "persistent/home/team").symlink_to(outside)
    people = user() + user("eva", uidNumber="70002", homeDirectory="/home/team/eva")
    people += user("far", uidNumber="70003", homeDirectory="/elsewhere/far")
    ldap_homes.make(ldap_users.read(people, ""), Jail("r1", ("/home",)), volume)
    home = volume / "persistent/home/bob"
    assert sorted(each.name for each in home.iterdir()) == [".link", ".profile"]
    assert (home / ".link").is_symlink()
    assert home.stat().st_mode & 0o777 == 0o750
    assert owners["home-bob"] == owners[".profile"] == owners[".link"] == (70001, 70001)
    assert not list(outside.iterdir())
    (home / ".profile").write_text("mine")
    ldap_homes.make(ldap_users.read(people, ""), Jail("r1", ("/home",)), volume)
    assert (home / ".profile").read_text() == "mine"


def test_keys_are_those_of_the_directory_alone(tmp_path: Path) -> None:
    ldap_homes.write_keys({"bob": (KEY,), "carl": ()}, tmp_path / "keys")
    assert (tmp_path / "keys/bob").read_text() == f"{KEY}\n"
    ldap_homes.write_keys({"dora": (KEY,)}, tmp_path / "keys")
    assert [each.name for each in (tmp_path / "keys").iterdir()] == ["dora"]


def test_a_directory_that_names_nobody_removes_nobody(volume: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    follow(volume, user())
    monkeypatch.setattr(ldap, "ask", lambda *_: "")
    with pytest.raises(NodeError, match=r"names no user in dc=example for .* nothing was changed"):
        ldap.follow(FOLLOWED, Jail("r1"), volume)
    monkeypatch.setattr(ldap, "ask", lambda *_: "dn: uid=bob\nuid:: %%%\n")
    with pytest.raises(NodeError, match="no LDIF"):
        ldap.follow(FOLLOWED, Jail("r1"), volume)
    assert "bob" in (volume / "roots/r1/etc/passwd").read_text()
