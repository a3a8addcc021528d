"""The pods' programs know the jail's users (native/login/nss_jail.c). Here getent asks as those programs do."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from devcluster.machine.bootstrap import CHECKOUT

PASSWD = """root:x:0:0::/root:/bin/sh
slurm:x:64030:0::/:/bin/sh
+::::::
odd
alice:x:1000:1000:Alice:/home/alice:/bin/bash
low:x:1001:27::/:/bin/sh
sys:x:499:1000::/:/bin/sh
bob:x:1002:100::/home/bob:/bin/sh
"""
MANY = ",".join(f"somebody{n}" for n in range(20_000))
GROUP = f"root:x:0:alice\nsudo:x:27:alice\nusers:x:100:alice\nmany:x:2000:{MANY},alice\nlab:x:2001:alice,bob\n"

Ask = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def module(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("nss")
    (folder / "passwd").write_text("root:x:0:0::/root:/bin/sh\nslurm:x:64030:64030::/:/bin/sh\n")
    flags = f"-O1 -g -DJAIL_DEFAULT_ROOT='\"{folder}/jail\"' -DPOD_PASSWD='\"{folder}/passwd\"'"
    command = ["make", "-s", "-C", CHECKOUT / "native", f"OUT={folder}", f"CFLAGS={flags}", folder / "libnss_jail.so.2"]
    subprocess.run(command, check=True, timeout=120)
    return folder


@pytest.fixture
def etc(module: Path) -> Path:
    folder = module / "jail" / "etc"
    subprocess.run(["rm", "-rf", folder], check=True, timeout=30)
    folder.mkdir(parents=True)
    for name, content in (("passwd", PASSWD), ("group", GROUP), ("shadow", "alice:*:1::::::\n")):
        (folder / name).write_text(content)
    return folder


@pytest.fixture
def ask(module: Path, etc: Path) -> Ask:
    def asked(*words: str) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "LD_LIBRARY_PATH": str(module)}
        command = ["getent", "-s", "jail", *words]
        return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=20, check=False)

    return asked


def test_users_and_groups_are_found_by_name_and_number_and_a_systems_users_are_not(ask: Ask) -> None:
    alice = "alice:x:1000:1000:Alice:/home/alice:/bin/bash\n"
    bob = "bob:x:1002:100::/home/bob:/bin/sh\n"
    assert ask("passwd", "alice").stdout == ask("passwd", "1000").stdout == alice
    assert ask("passwd").stdout == alice + bob
    assert {ask("passwd", name).returncode for name in ("root", "0", "slurm", "64030", "low", "sys", "odd", "+")} == {2}
    assert ask("group", "lab").stdout == ask("group", "2001").stdout == "lab:x:2001:alice,bob\n"
    assert ask("group", "sudo").stdout == ask("group", "27").stdout == "sudo:x:27:alice\n"
    assert ask("group", "root").returncode == ask("group", "0").returncode == 2
    assert ask("shadow", "alice").stdout.startswith("alice:*:")


@pytest.mark.parametrize("name", ["root", "slurm"])
def test_no_user_of_the_jail_has_a_name_of_the_pods(ask: Ask, etc: Path, name: str) -> None:
    """Slurm takes the name from here, and whoever is called root for an administrator."""
    with (etc / "passwd").open("a") as lines:
        lines.write(
            f"{name}:x:5000:5000::/home/x:/bin/sh\n{name}:x:5001:5001::/:/bin/sh\ncarol:x:5001:5001::/:/bin/sh\n"
        )
    assert {ask("passwd", asked).returncode for asked in (name, "5000")} == {2}
    assert ask("passwd", "5001").stdout == "carol:x:5001:5001::/:/bin/sh\n"


@pytest.mark.parametrize("name", ["x' or '1", "$(reboot)", 'a"b', "a b", "a;b", "a`b", "a\\b", "a\tb", "a/b"])
def test_a_name_that_is_more_in_a_query_or_a_script_is_nobodys(ask: Ask, etc: Path, name: str) -> None:
    with (etc / "passwd").open("a") as lines:
        lines.write(
            f"{name}:x:5000:5000::/home/x:/bin/sh\nj.o-h_n@lab$:x:5001:5001::/:/bin/sh\nzoë:x:5002:5002::/:/bin/sh\n"
        )
    assert ask("passwd", "5000").returncode == 2
    assert ask("passwd", "5001").stdout.startswith("j.o-h_n@lab$:")
    assert ask("passwd", "5002").stdout.startswith("zoë:")
    with (etc / "group").open("a") as lines:
        lines.write(f"{name}:x:5000:\ndomain users:x:5001:\n")
    assert ask("group", "5000").returncode == (0 if name == "a b" else 2)
    assert ask("group", "5001").stdout == "domain users:x:5001:\n"


def test_a_line_that_is_longer_than_a_buffer_is_read_whole(ask: Ask) -> None:
    assert len(ask("group", "many").stdout) > len(MANY)
    assert ask("initgroups", "alice").stdout.split() == ["alice", "27", "100", "2000", "2001"]


@pytest.mark.parametrize(
    "name", [b"zo\xeb", b"a\xc2\x9b2J", b"a\x9b", b"\xc0\xaf", b"\xed\xa0\x80", b"a\xf0\x9f"], ids=range(6)
)
def test_a_name_that_is_no_text_or_a_terminals_command_is_nobodys(ask: Ask, etc: Path, name: bytes) -> None:
    sound = "zoë", "Ægir", "ÿ", "中", "𝄞"
    with (etc / "passwd").open("ab") as lines:
        lines.write(name + b":x:5000:5000::/:/bin/sh\n")
        lines.writelines(f"{each}:x:{number}:5000::/:/bin/sh\n".encode() for number, each in enumerate(sound, 6000))
    assert ask("passwd", "5000").returncode == 2
    assert [ask("passwd", str(number)).stdout.partition(":")[0] for number in range(6000, 6005)] == list(sound)


@pytest.mark.parametrize(
    "line",
    [
        f"{'a' * 129}:x:5000:5000::/:/bin/sh",
        f"long:x:5000:5000:{'g' * 4096}:/:/bin/sh",
        f"long:x:5000:5000:{'g' * 1_000_000}:/:/bin/sh",
        f"long:x:5000:5000::/{'h' * 5000}:/bin/sh",
        "noid:x:4294967294:5000::/:/bin/sh",
        "noid:x:4294967295:5000::/:/bin/sh",
        "noid:x:5000:4294967294::/:/bin/sh",
        "noid:x:5000:4294967295::/:/bin/sh",
        "noid:x:-1:5000::/:/bin/sh",
        "noid:x:5000:-1::/:/bin/sh",
    ],
    ids=range(10),
)
def test_a_line_that_slurmctld_could_not_keep_with_each_job_counts_as_none(ask: Ask, etc: Path, line: str) -> None:
    with (etc / "passwd").open("a") as lines:
        lines.write(f"{line}\nfits:x:5001:5001:{'g' * 4000}:/:/bin/sh\n")
    names = [entry.partition(":")[0] for entry in ask("passwd").stdout.splitlines()]
    assert names == ["alice", "bob", "fits"]
    assert {ask("passwd", number).returncode for number in ("5000", "4294967294", "4294967295")} == {2}
    assert ask("passwd", "fits").returncode == 0


@pytest.mark.parametrize(
    "line", [f"{'a' * 129}:x:5000:", "noid:x:4294967294:", f"vast:x:5000:{'m,' * 2_000_000}m"], ids=range(3)
)
def test_a_group_that_is_none_does_not_hide_those_behind_it(ask: Ask, etc: Path, line: str) -> None:
    with (etc / "group").open("a") as lines:
        lines.write(f"{line}\nlast:x:5001:alice\n")
    assert {ask("group", number).returncode for number in ("5000", "4294967294")} == {2}
    assert ask("initgroups", "alice").stdout.split() == ["alice", "27", "100", "2000", "2001", "5001"]


def test_a_user_has_1024_groups_of_the_jail(ask: Ask, etc: Path) -> None:
    """Each is in his token, and slurmctld keeps them with each of his jobs."""
    with (etc / "group").open("a") as lines:
        lines.writelines(f"g{number}:x:{number}:bob\n" for number in range(10_000, 30_000))
    assert ask("initgroups", "bob").stdout.split() == ["bob", "2001", *map(str, range(10_000, 11_023))]
    assert ask("initgroups", "alice").stdout.split() == ["alice", "27", "100", "2000", "2001"]


def test_a_file_that_grows_while_it_is_read_has_an_end(module: Path, etc: Path) -> None:
    """The size is looked at once: the list is open before the file grows."""
    script = f"""
import ctypes, os
libc = ctypes.CDLL(None)
for database in (b"passwd", b"group"):
    assert not libc.__nss_configure_lookup(database, b"jail")
libc.setpwent(); libc.setgrent()
os.truncate({str(etc / "passwd")!r}, 1 << 40); os.truncate({str(etc / "group")!r}, 1 << 40)
for next in (libc.getpwent, libc.getgrent):
    next.restype = ctypes.c_void_p
    while next():
        pass
"""
    environment = {**os.environ, "LD_LIBRARY_PATH": str(module)}
    subprocess.run(["/usr/bin/python3", "-c", script], env=environment, timeout=20, check=True)


def test_several_threads_ask_for_groups_at_once(module: Path, etc: Path) -> None:
    """glibc locks none of what a module shares between them."""
    script = """
import ctypes, threading
libc = ctypes.CDLL(None)
for database in (b"group", b"initgroups"):
    assert not libc.__nss_configure_lookup(database, b"jail")
wrong = []
def ask():
    for _ in range(200):
        groups, count = (ctypes.c_uint * 16)(), ctypes.c_int(16)
        libc.getgrouplist(b"alice", 1000, groups, ctypes.byref(count))
        if groups[:count.value] != [1000, 27, 100, 2000, 2001]:
            wrong.append(groups[:count.value])
threads = [threading.Thread(target=ask) for _ in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(wrong)
"""
    (etc / "group").write_text(GROUP.replace(MANY, "somebody"))
    environment = {**os.environ, "LD_LIBRARY_PATH": str(module)}
    asked = subprocess.run(
        ["/usr/bin/python3", "-c", script], env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    assert (asked.returncode, asked.stdout) == (0, "[]\n"), asked.stderr


@pytest.mark.parametrize("file", ["passwd", "group", "shadow"])
@pytest.mark.parametrize(
    "instead",
    ["mkfifo {}", "mkdir {}", "mknod {} c 1 5", "truncate -s 1T {}", "ln -s {} {}", "ln -s {}/../../../outside {}"],
    ids=["pipe", "folder", "device", "endless", "loop", "link out"],
)
def test_what_is_no_account_file_counts_as_none_and_is_not_waited_for(
    ask: Ask, etc: Path, module: Path, file: str, instead: str
) -> None:
    (module / "outside").write_text(PASSWD)
    (etc / file).unlink()
    subprocess.run(["sh", "-c", instead.replace("{}", str(etc / file))], check=True, timeout=20)
    asked = [ask(file, "alice" if file != "group" else "lab"), *([ask(file)] if file != "shadow" else [])]
    assert [(each.stdout, each.stderr) for each in asked] == [("", "")] * len(asked)


def test_a_link_leads_to_the_jails_own_file(ask: Ask, etc: Path) -> None:
    (etc / "passwd").rename(etc / "real")
    (etc / "passwd").symlink_to("/etc/real")
    assert ask("passwd", "alice").returncode == 0
