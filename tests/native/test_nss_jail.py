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
