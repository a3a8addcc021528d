"""Whose messages the programs of Slurm read: native/doors/message_guard.c before a library that stands for Slurm's."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

HERE, NATIVE = Path(__file__).parent, Path("native")
NOBODY, ROOT, SLURM, ALICE = -1, 0, 64030, 1000
PING, ANSWER, TRIGGER, FORWARD, LAUNCH, SIGNAL, PMI = 1008, 2004, 2017, 5029, 6001, 6004, 7204
CANCEL, REATTACH = 5032, 6007
Ask = Callable[..., str]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("guard")
    probe = HERE / "message_probe.c"
    shared = ("-shared", "-fPIC")
    _gcc(*shared, "-DLIBRARY", "-o", f"{folder}/libslurm.so", str(probe))
    _gcc(*shared, "-o", f"{folder}/guard.so", str(NATIVE / "doors/message_guard.c"))
    linked = ("-Wl,--no-as-needed", f"{folder}/guard.so", f"{folder}/libslurm.so")
    _gcc("-o", f"{folder}/slurmd", str(probe), *linked)
    for name in ("slurmctld", "srun", "unknown"):
        shutil.copy(folder / "slurmd", folder / name)
    return folder


def _gcc(*arguments: str) -> None:
    done = subprocess.run(["gcc", "-D_GNU_SOURCE", *arguments], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr


@pytest.fixture
def ask(folder: Path) -> Ask:
    """Has a program receive a message, and gives what became of it."""

    def asked(
        program: str, kind: int, sender: int, reading: str = "works", how: str = "received", conf: str = ""
    ) -> str:
        (folder / "slurm.conf").write_text(conf)
        done = subprocess.run(
            [folder / program, str(kind), str(sender), reading, how],
            capture_output=True, text=True, timeout=60, check=False, env={"SLURM_CONF": f"{folder}/slurm.conf"},
        )  # fmt: skip
        assert done.returncode == 0, done
        return done.stdout.split()[0]

    return asked


@pytest.mark.parametrize("program", ["slurmd", "slurmctld", "srun", "unknown"])
def test_a_message_without_a_token_is_read_by_nobody(ask: Ask, program: str) -> None:
    assert {ask(program, kind, NOBODY) for kind in (PING, ANSWER, LAUNCH)} == {"refused"}
    assert ask(program, ANSWER, NOBODY, how="asked") == "read", "but for an answer that it asked for"


@pytest.mark.parametrize("program", ["slurmd", "slurmctld", "srun"])
@pytest.mark.parametrize("sender", [ROOT, SLURM])
def test_slurms_own_messages_are_read(ask: Ask, program: str, sender: int) -> None:
    assert {ask(program, kind, sender) for kind in (PING, ANSWER, TRIGGER, FORWARD, LAUNCH)} == {"read"}


def test_slurmd_reads_of_users_what_their_commands_send(ask: Ask) -> None:
    assert {ask("slurmd", kind, ALICE) for kind in (LAUNCH, SIGNAL)} == {"read"}
    assert {ask("slurmd", kind, ALICE) for kind in (PING, ANSWER, TRIGGER, FORWARD)} == {"refused"}
    assert ask("slurmd", FORWARD, ALICE, conf="PluginDir=/opt/slurm/lib:/opt/slurm/lib/slurm-pmi2\n") == "read"


def test_slurmctld_reads_of_users_requests(ask: Ask) -> None:
    assert ask("slurmctld", PING, ALICE) == "read"
    assert {ask("slurmctld", kind, ALICE) for kind in (ANSWER, TRIGGER, LAUNCH, PMI)} == {"refused"}


@pytest.mark.parametrize("how", ["received", "accepted"])
def test_srun_reads_at_its_ports_of_nobody_but_slurm_and_its_own_user(ask: Ask, how: str) -> None:
    asked = [(ANSWER, SLURM), (ANSWER, os.getuid()), (ANSWER, NOBODY), (ANSWER, os.getuid() + 1)]
    assert [ask("srun", kind, sender, how=how) for kind, sender in asked] == ["read", "read", "refused", "refused"]


@pytest.mark.parametrize("reading", ["ends", "hangs"])
def test_a_launch_that_ends_or_hangs_who_reads_it_is_read_by_a_child_alone(ask: Ask, reading: str) -> None:
    assert ask("slurmd", LAUNCH, ALICE, reading) == "refused"


def test_a_launch_with_a_jobs_record_is_refused(ask: Ask) -> None:
    assert ask("slurmd", LAUNCH, ALICE, "record") == "refused"
    assert ask("slurmctld", PING, SLURM, "record") == "read", "slurmctld reads those of its own state"


def test_what_slurm_would_follow_to_nowhere_is_refused(ask: Ask) -> None:
    assert ask("slurmctld", CANCEL, ALICE) == "read"
    assert {ask("slurmctld", CANCEL, sender, "nameless") for sender in (ALICE, ROOT)} == {"refused"}
    assert ask("slurmd", REATTACH, ALICE, "key", how="attach") == "read"
    assert ask("slurmd", REATTACH, ALICE, "", how="attach") == "refused"


def test_a_slurm_without_one_of_the_functions_does_not_start(folder: Path) -> None:
    alone = subprocess.run(
        ["/bin/true"], env={"LD_PRELOAD": f"{folder}/guard.so"}, capture_output=True, text=True, timeout=60, check=False
    )
    assert alone.returncode == 1
    assert "its messages can't be guarded" in alone.stderr
