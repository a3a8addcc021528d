"""`slurm-user`: what it decides, and the real thing on a copy of this machine's /etc, with Slurm's commands played."""

from __future__ import annotations

import base64
import shlex
import subprocess
from pathlib import Path

import pytest
from jail_commands import user_plan
from jail_commands.running import Refused
from jail_commands.user_plan import AddKeys, Command, Seen, Wanted

from contract import names
from devcluster.machine.bootstrap import CHECKOUT


def key(fill: int, comment: str = "") -> str:
    blob = b"\0\0\0\x0bssh-ed25519\0\0\0\x20" + bytes([fill]) * 32
    return f"ssh-ed25519 {base64.b64encode(blob).decode()}{comment and ' '}{comment}"


ALICE = Seen(uid=1001, taken=frozenset({0, 1001}), home_owner=1001, keys=(key(1, "old"),))


def words(actions: list[user_plan.Action]) -> list[str]:
    return [" ".join(each.words) if isinstance(each, Command) else f"keys {len(each.keys)}" for each in actions]


def test_a_new_user_gets_all_in_one_command() -> None:
    wanted = Wanted("alice", (key(1),), sudo=True, groups=("video",), accounts=("team",))
    assert words(user_plan.additions(Seen(taken=frozenset({0, 1000, 60001})), wanted)) == [
        "useradd --create-home --shell /bin/bash --uid 1001 --user-group --password * alice",
        "keys 1",
        "usermod --append --groups video alice",
        "usermod --append --groups sudo alice",
        "sacctmgr --immediate add account team",
        "sacctmgr --immediate add user alice account=team",
    ]


def test_what_is_there_is_left_as_it_is() -> None:
    seen = Seen(**{**vars(ALICE), "groups": frozenset({"sudo"}), "known_accounts": frozenset({"team"})})
    seen = Seen(**{**vars(seen), "accounts": frozenset({"team"})})
    wanted = Wanted("alice", (key(1, "another comment"),), sudo=True, accounts=("team",))
    assert user_plan.additions(seen, wanted) == []
    assert user_plan.additions(seen, Wanted("alice")) == []


def test_a_second_key_is_added_and_sudo_taken_only_when_asked() -> None:
    seen = Seen(**{**vars(ALICE), "groups": frozenset({"sudo"})})
    assert user_plan.additions(seen, Wanted("alice", (key(2),))) == [AddKeys((key(2),))]
    assert words(user_plan.additions(seen, Wanted("alice", sudo=False))) == ["gpasswd --delete alice sudo"]


def test_nobody_inherits_the_home_of_a_user_who_was_removed() -> None:
    # 1001 owns a home and is no user any more.
    seen = Seen(taken=frozenset({0, 1000, 1001}))
    assert "--uid 1002" in words(user_plan.additions(seen, Wanted("bob")))[0]
    back = Seen(taken=frozenset({0, 1000, 1001}), home_owner=1001)
    assert "--uid 1001" in words(user_plan.additions(back, Wanted("alice")))[0]


def test_a_home_of_roots_is_given_to_nobody() -> None:
    with pytest.raises(Refused, match="belongs to id 0"):
        user_plan.additions(Seen(home_owner=0), Wanted("alice"))


def test_ids_are_found_below_a_high_one() -> None:
    seen = Seen(taken=frozenset({1000, names.LAST_USER_ID}))
    assert "--uid 1001" in words(user_plan.additions(seen, Wanted("alice")))[0]


@pytest.mark.parametrize("removing", [False, True])
def test_a_system_account_is_never_touched(removing: bool) -> None:
    seen = Seen(uid=64030)
    with pytest.raises(Refused, match="system account"):
        if removing:
            user_plan.removals(seen, "slurm", delete_home=True)
        else:
            user_plan.additions(seen, Wanted("slurm", (key(1),)))


def test_a_home_is_deleted_only_when_told() -> None:
    assert words(user_plan.removals(ALICE, "alice", delete_home=False)) == ["userdel alice"]
    assert words(user_plan.removals(ALICE, "alice", delete_home=True)) == ["userdel --remove alice"]
    assert user_plan.removals(Seen(), "nobody-there", delete_home=True) == []


@pytest.mark.parametrize("name", ["Root", "a b", "-x", "0day", "../x", "a" * 32, ""])
def test_a_wrong_name_is_refused(name: str) -> None:
    with pytest.raises(Refused, match="no user name"):
        user_plan.check_name(name)


@pytest.mark.parametrize("name", ["a b", "a=b", "--immediate", "", "a,b"])
def test_a_wrong_account_is_refused(name: str) -> None:
    with pytest.raises(Refused, match="no name for a Slurm account"):
        user_plan.check_account(name)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "holds no key"),
        ("# nothing\n", "holds no key"),
        ("-----BEGIN OPENSSH PRIVATE KEY-----\n", "private key"),
        (key(1)[:-8], "no line of an OpenSSH public key"),
        (f"{key(1)}\nhello\n", "'hello' is no line"),
        ("ssh-rsa " + key(1).split()[1], "no line of"),
    ],
)
def test_a_file_that_is_no_key_is_refused_with_the_line(text: str, words: str) -> None:
    with pytest.raises(Refused, match=words):
        user_plan.read_keys(text, "x.pub")


BOSS = 70_000
"""User of an LDAP directory who calls slurm-user by sudo, so that the jail's first users have free ids."""
PLAYED = {
    "scontrol": 'echo "AccountingStorageType   = ${ACCOUNTING:-accounting_storage/slurmdbd}"',
    "squeue": 'echo "$JOBS"',
    # Knows what it was told: each `add` and `delete` is a line of the file.
    "sacctmgr": """
        echo "$*" >> "$PLAY/sacctmgr.log"
        id -u >> "$PLAY/who.log"
        case "$*" in
        *"show user"*) [ ! -e "$PLAY/level" ] || cat "$PLAY/level";;
        *"modify user"*) echo "$*" | sed 's/.*adminlevel=//' > "$PLAY/level";;
        *"add user"*) echo None > "$PLAY/level";;
        *"show account"*) sed -n 's/.*add account //p' "$PLAY/sacctmgr.log";;
        *"show assoc"*) name=$(echo "$*" | sed 's/.*user=\\([^ ]*\\).*/\\1/')
            sed -n "s/.*add user $name account=//p" "$PLAY/sacctmgr.log";;
        esac""",
}


@pytest.fixture
def jail(open_folder: Path) -> Jail:
    return Jail(open_folder)


def is_person(line: str) -> bool:
    fields = line.split(":")
    return len(fields) in (4, 7) and fields[2].isdigit() and 1000 <= int(fields[2]) < 60000


class Jail:
    """A mount namespace with a copy of /etc, an empty /home and played Slurm commands."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name, body in PLAYED.items():
            program = folder / "bin" / name
            program.parent.mkdir(exist_ok=True)
            program.write_text(f"#!/bin/sh\n{body}\n")
            program.chmod(0o755)
        for name in ("home", "etc", "play"):
            (folder / name).mkdir()
        folder.chmod(0o755)
        for name in ("passwd", "group", "shadow", "gshadow"):
            lines = Path("/etc", name).read_text().splitlines()
            (folder / "etc" / name).write_text("".join(f"{line}\n" for line in lines if not is_person(line)))
        with (folder / "etc/passwd").open("a") as passwd:
            passwd.write(f"boss:x:{BOSS}:{BOSS}::/home/boss:/bin/sh\n")
        (folder / "play").chmod(0o777)
        for name in ("login.defs", "nsswitch.conf"):
            (folder / "etc" / name).write_bytes(Path("/etc", name).read_bytes())
        for name in ("subuid", "subgid"):
            (folder / "etc" / name).touch()

    def sh(self, script: str, **environment: str) -> subprocess.CompletedProcess[str]:
        mounts = f"mount --bind {self.folder}/etc /etc && mount --bind {self.folder}/home /home && cd / && "
        variables = {
            "PATH": f"{self.folder}/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            "PLAY": str(self.folder / "play"),
            "PYTHONPATH": f"{CHECKOUT}/images/slurm:{CHECKOUT}",
            "SUDO_UID": str(BOSS),
        }
        return subprocess.run(
            ["unshare", "--mount", "--pid", "--fork", "--mount-proc", "sh", "-ec", mounts + script],
            env=variables | environment, capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip

    def slurm_user(self, *arguments: str, text: str = "", **environment: str) -> subprocess.CompletedProcess[str]:
        program = "import sys; from jail_commands import user; sys.exit(user.main())"
        line = shlex.join(["/usr/bin/python3", "-Bc", program, *arguments])
        return self.sh(f"printf %s {shlex.quote(text)} | {line}", **environment)


def test_a_user_is_made_with_home_keys_sudo_and_account(jail: Jail) -> None:
    done = jail.slurm_user("add", "alice", "--key", "-", "--sudo", "--account", "team", text=key(1, "alice@home"))
    assert done.returncode == 0, done.stderr
    assert "made the user alice with id 1000" in done.stdout
    facts = jail.sh(
        "id alice; stat -c '%U %a' ~alice/.ssh ~alice/.ssh/authorized_keys; cat ~alice/.ssh/authorized_keys"
    )
    assert facts.stdout.splitlines()[1:] == ["alice 700", "alice 600", key(1, "alice@home")]
    assert "(sudo)" in facts.stdout
    assert (jail.folder / "etc/shadow").read_text().splitlines()[-1].startswith("alice:*:")
    assert (jail.folder / "etc/subuid").read_text().startswith("alice:")
    told = (jail.folder / "play/sacctmgr.log").read_text()
    again = jail.slurm_user("add", "alice", "--key", "-", "--sudo", "--account", "team", text=key(1))
    assert again.stdout == "alice is as wanted already\n", again.stderr
    assert "add" not in (jail.folder / "play/sacctmgr.log").read_text().removeprefix(told)


def test_an_administrator_is_appointed_and_made_an_ordinary_user_again(jail: Jail) -> None:
    refused = jail.slurm_user("add", "carol", "--admin")
    assert (refused.returncode, "give carol one with --account" in refused.stderr) == (1, True), refused
    for option, level in (("--admin", "Administrator"), ("--operator", "Operator"), ("--no-admin", "None")):
        done = jail.slurm_user("add", "carol", "--account", "team", option)
        assert done.returncode == 0, done.stderr
        assert user_plan.LEVELS[level].format("carol") in done.stdout
        assert (jail.folder / "play/level").read_text() == f"{level}\n"
        assert jail.slurm_user("add", "carol", option).stdout == "carol is as wanted already\n"
    without = jail.slurm_user("add", "carol", "--admin", ACCOUNTING="(null)")
    assert "accounting.mode is off" in without.stderr


def test_slurm_is_asked_by_the_person_who_came_by_sudo_and_never_by_root(jail: Jail) -> None:
    assert jail.slurm_user("add", "alice", "--account", "team").returncode == 0
    assert set((jail.folder / "play/who.log").read_text().split()) == {str(BOSS)}
    for nobody in ("", "0", "root"):
        refused = jail.slurm_user("add", "bob", "--account", "team", SUDO_UID=nobody)
        assert (refused.returncode, refused.stderr) == (
            1,
            "slurm-user: Slurm listens to persons, not to root: use sudo as yourself\n",
        )
    assert jail.slurm_user("add", "bob", SUDO_UID="").returncode == 0, "nothing of Slurm's is asked for"


def test_a_user_is_removed_and_the_home_stays_until_told(jail: Jail) -> None:
    jail.slurm_user("add", "alice", "--account", "team")
    (jail.folder / "home/alice/work").touch()
    done = jail.slurm_user("remove", "alice")
    assert done.returncode == 0, done.stderr
    assert jail.sh("id alice").returncode != 0
    assert (jail.folder / "home/alice/work").exists()
    assert "delete user alice" in (jail.folder / "play/sacctmgr.log").read_text()
    jail.slurm_user("add", "bob")
    assert jail.sh("id -u bob").stdout == "1001\n"
    jail.slurm_user("remove", "bob", "--delete-home")
    assert not (jail.folder / "home/bob").exists()


def test_a_user_with_jobs_is_not_removed(jail: Jail) -> None:
    jail.slurm_user("add", "alice")
    refused = jail.slurm_user("remove", "alice", JOBS="17")
    assert (refused.returncode, refused.stderr) == (
        1,
        "slurm-user: alice has jobs: 17; wait for them, or: scancel --user=alice\n",
    )
    assert jail.sh("id alice").returncode == 0


def test_an_account_on_a_cluster_without_accounting_is_refused_before_anything_is_made(jail: Jail) -> None:
    refused = jail.slurm_user("add", "alice", "--account", "team", ACCOUNTING="(null)")
    assert refused.returncode == 1
    assert "accounting.mode is off" in refused.stderr
    assert jail.sh("id alice").returncode != 0


def test_root_follows_no_link_in_a_users_home(jail: Jail) -> None:
    jail.slurm_user("add", "mallory")
    jail.sh("mkdir -m 700 /home/victim; ln -s /home/victim ~mallory/.ssh").check_returncode()
    refused = jail.slurm_user("add", "mallory", "--key", "-", text=key(1))
    assert "the home of mallory" in refused.stderr
    assert "Permission denied" in refused.stderr
    assert list((jail.folder / "home/victim").iterdir()) == []


def test_twelve_users_made_at_once_get_ids_of_their_own(jail: Jail) -> None:
    # In process namespaces of their own, as on nodes of their own: useradd's own lock goes by process ids.
    program = "import sys; from jail_commands import user; sys.exit(user.main())"
    (jail.folder / "bin/slurm-user").write_text(f'#!/bin/sh\nexec python3 -Bc "{program}" "$@"\n')
    (jail.folder / "bin/slurm-user").chmod(0o755)
    made = jail.sh("for i in $(seq 12); do unshare --pid --fork slurm-user add u$i & done; wait")
    everyone = [line.split(":") for line in (jail.folder / "etc/passwd").read_text().splitlines()]
    ids = {line[2] for line in everyone if line[0].startswith("u") and line[0][1:].isdigit()}
    assert len(ids) == 12, made.stderr


def test_help_has_examples(jail: Jail) -> None:
    shown = jail.slurm_user("add", "--help").stdout
    assert "sudo slurm-user add alice --key alice.pub --account team" in shown


def test_the_command_takes_no_code_from_where_it_is_called() -> None:
    stub = (CHECKOUT / "images/slurm/rootfs/opt/slurm/bin/slurm-user").read_text()
    assert "python3 -IBc" in stub
    assert (
        "COPY images/slurm/jail_commands/ /opt/slurm/lib/python/jail_commands/"
        in (CHECKOUT / "images/slurm/Containerfile").read_text()
    )
