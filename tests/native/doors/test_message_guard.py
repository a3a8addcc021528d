"""Slurm's programs read messages of known users only: message_guard.c before a library that stands for Slurm's."""

from __future__ import annotations

import os
import re
import subprocess
import time
from pathlib import Path

import build_prefix
import pytest

from tests.native.message_programs import (
    ALICE,
    ANSWER,
    FORWARD,
    LAUNCH,
    NATIVE,
    NOBODY,
    PERSIST_INIT,
    PING,
    ROOT,
    SIGNAL,
    SLURM,
    STEP_COMPLETE,
    Ask,
    launch,
)

TRIGGER, PMI = 2017, 7204
STEP_CREATE, CANCEL, LAYOUT, REATTACH = 5001, 5032, 5021, 6007
DONE, ENERGY, RELAY, SIBLING = 8001, 1018, 1031, 4502
DBD_FINI, DBD_GET_JOBS, DBD_JOB_START = 1401, 1432, 1425
DBD_ARCHIVE_DUMP, DBD_ARCHIVE_LOAD = 1459, 1460
SLOW_SECONDS = 5
"""For so long the stand-in sleeps after a message that it could not read."""


def test_the_library_knows_each_program_that_must_load_it() -> None:
    known = re.findall(r'\{"(\w+)", [A-Z]+\}', (NATIVE / "doors/message_rules.c").read_text())
    assert sorted(known) == sorted(program.name for program in build_prefix.LISTENERS)


@pytest.mark.parametrize("program", ["slurmd", "slurmctld", "srun", "salloc", "sattach", "swait", "unknown"])
def test_a_message_without_a_token_is_read_by_nobody(ask: Ask, program: str) -> None:
    assert {ask(program, kind, NOBODY) for kind in (PING, ANSWER, LAUNCH)} == {"refused"}
    assert ask(program, DONE, NOBODY, how="asked") == "read", "but for an answer that it asked for"


@pytest.mark.parametrize("program", ["slurmctld", "slurmstepd"])
def test_a_users_srun_answers_that_it_has_done_what_it_was_asked_for(ask: Ask, program: str) -> None:
    """slurmctld and slurmstepd ask it where it says, and Slurm's own read any message there, without a token."""
    for how in ("asked", "asked of several"):
        assert ask(program, DONE, NOBODY, how=how) == "read"
        assert ask(program, ANSWER, NOBODY, how=how) == "refused"
    assert ask(program, DONE, NOBODY, "results", "asked of several") == "refused"


def test_slurmstepd_reads_each_answer_of_slurmctld(ask: Ask) -> None:
    assert ask("slurmstepd", ANSWER, NOBODY, how="asked slurmctld") == "read"


def test_slurmstepd_reads_what_slurmd_says_of_gpus_energy_when_it_asked_for_that(ask: Ask) -> None:
    """acct_gather_energy/gpu counts no step's energy without it."""
    assert ask("slurmstepd", ENERGY, NOBODY, how="asked slurmd of energy") == "read"
    assert ask("slurmstepd", ENERGY, NOBODY, how="asked") == "refused"


def test_slurmctld_reads_no_message_inside_of_another(ask: Ask) -> None:
    """Slurm's own would read any type there, and inside of that another, until its stack ends."""
    assert ask("slurmctld", PING, ALICE, "inside") == "refused"
    assert ask("slurmctld", PING, SLURM, "inside") == "read"
    assert {ask("slurmctld", kind, ALICE) for kind in (RELAY, SIBLING)} == {"refused"}
    assert {ask("slurmctld", kind, SLURM) for kind in (RELAY, SIBLING)} == {"read"}


def test_a_message_that_is_refused_takes_no_time_of_those_who_serve_all(ask: Ask) -> None:
    began = time.monotonic()
    assert ask("slurmctld", ANSWER, NOBODY, "slow") == "refused"
    assert time.monotonic() - began < SLOW_SECONDS


@pytest.mark.parametrize("program", ["slurmd", "slurmctld", "srun"])
@pytest.mark.parametrize("sender", [ROOT, SLURM])
def test_slurms_own_messages_are_read(ask: Ask, program: str, sender: int) -> None:
    assert {ask(program, kind, sender) for kind in (PING, ANSWER, TRIGGER, FORWARD, LAUNCH)} == {"read"}


def test_slurmd_reads_of_users_what_their_commands_send(ask: Ask) -> None:
    assert {ask("slurmd", LAUNCH, ALICE, launch(1, "a")), ask("slurmd", SIGNAL, ALICE)} == {"read"}
    assert {ask("slurmd", kind, ALICE) for kind in (PING, ANSWER, TRIGGER, FORWARD)} == {"refused"}
    assert ask("slurmd", FORWARD, ALICE, conf="PluginDir=/opt/slurm/lib:/opt/slurm/lib/slurm-pmi2\n") == "read"


@pytest.mark.parametrize("sender", [NOBODY, ALICE, ROOT], ids=["without a token", "user", "root"])
def test_slurmd_passes_no_message_on_to_other_nodes(ask: Ask, sender: int) -> None:
    """Slurm's own does so before it looks for a token, and a head that asks for it can end slurmd."""
    assert ask("slurmd", SIGNAL, sender, how="onward") == "refused"
    assert ask("slurmd", SIGNAL, ROOT) == "read"


@pytest.mark.parametrize(("program", "width"), [("srun", "65533"), ("sattach", "65533"), ("slurmctld", "2")])
def test_a_command_speaks_to_each_node_itself(ask: Ask, program: str, width: str) -> None:
    assert ask(program, 0, ALICE, how="splits") == width


def test_slurmctld_reads_of_users_requests(ask: Ask) -> None:
    assert ask("slurmctld", PING, ALICE) == "read"
    assert {ask("slurmctld", kind, ALICE) for kind in (ANSWER, TRIGGER, LAUNCH, PMI)} == {"refused"}


@pytest.mark.parametrize("program", ["srun", "salloc", "sattach", "swait"])
@pytest.mark.parametrize("how", ["received", "accepted"])
def test_a_client_reads_at_its_ports_of_nobody_but_slurm_and_its_own_user(ask: Ask, program: str, how: str) -> None:
    asked = [(ANSWER, SLURM), (ANSWER, os.getuid()), (ANSWER, NOBODY), (ANSWER, os.getuid() + 1)]
    assert [ask(program, kind, sender, how=how) for kind, sender in asked] == ["read", "read", "refused", "refused"]


@pytest.mark.parametrize("program", ["srun", "salloc"])
def test_a_command_that_waits_for_its_allocation_waits_on_whatever_a_stranger_sends(ask: Ask, program: str) -> None:
    """Slurm's own takes anything for the end of the wait, and cancels the job."""
    assert ask(program, ANSWER, SLURM, how="waits") == "read of -1"
    assert ask(program, ANSWER, NOBODY, how="waits") == f"emptied read of {os.getuid()}"
    assert ask(program, ANSWER, os.getuid() + 1, how="waits") == f"emptied read of {os.getuid()}"


def connect(ask: Ask, sender: int, *types: int, inside: int = PERSIST_INIT) -> str:
    """Sends slurmdbd a connection's messages; REQUEST_PERSIST_INIT has one of the type ``inside`` in it."""
    return ask("slurmdbd", f"{inside}:{','.join(map(str, types))}", sender, how="connects")


def test_slurmdbd_reads_nothing_before_it_knows_whose_the_connection_is(ask: Ask) -> None:
    assert connect(ask, ALICE, DBD_GET_JOBS, DBD_GET_JOBS) == "refused refused"
    assert connect(ask, NOBODY, PERSIST_INIT, DBD_GET_JOBS) == "refused refused"
    assert connect(ask, ALICE, PERSIST_INIT, DBD_GET_JOBS, inside=ANSWER) == "refused refused"
    assert connect(ask, ALICE, PERSIST_INIT, DBD_GET_JOBS, DBD_FINI) == "read read read"


def test_slurmdbd_reads_slurmctlds_records_of_slurm_alone(ask: Ask) -> None:
    assert connect(ask, ALICE, PERSIST_INIT, DBD_JOB_START, PERSIST_INIT) == "read refused refused"
    assert connect(ask, SLURM, PERSIST_INIT, DBD_JOB_START) == "read read"


@pytest.mark.parametrize("archive", [DBD_ARCHIVE_DUMP, DBD_ARCHIVE_LOAD])
def test_slurmdbd_runs_no_program_and_no_sql_for_an_administrator(ask: Ask, archive: int) -> None:
    """Root of the jail can become one, and slurmdbd's pod has the cluster's keys."""
    assert connect(ask, ALICE, PERSIST_INIT, archive, DBD_GET_JOBS) == "read refused read"
    assert connect(ask, SLURM, PERSIST_INIT, archive) == "read read", "in slurmdbd's own pod it works"


def test_what_slurm_would_follow_to_nowhere_is_refused(ask: Ask) -> None:
    assert ask("slurmctld", CANCEL, ALICE) == "read"
    assert {ask("slurmctld", CANCEL, sender, "nameless") for sender in (ALICE, ROOT)} == {"refused"}
    assert ask("slurmctld", LAYOUT, ALICE) == "read"
    assert {ask("slurmctld", LAYOUT, sender, "waiting") for sender in (ALICE, ROOT)} == {"refused"}
    assert ask("slurmctld", CANCEL, ALICE, "waiting") == "read", "he may cancel a step that waits"
    assert ask("slurmd", REATTACH, ALICE, "key", how="attach") == "read"
    assert ask("slurmd", REATTACH, ALICE, "", how="attach") == "refused"


def test_a_user_gives_his_step_no_other_job_than_the_one_that_slurmctld_finds(ask: Ask) -> None:
    """The stand-in reads a step whose SLUID is zero, and refuses another."""
    assert ask("slurmctld", STEP_CREATE, ALICE, "sluid") == "read"
    assert ask("slurmctld", STEP_CREATE, SLURM, "sluid") == "refused", "Slurm's own stays as it came"


def test_slurmctld_takes_no_accounting_of_users(ask: Ask) -> None:
    """It would read as many numbers as it has kinds of resources, however few came."""
    told = {reading: ask("slurmctld", STEP_COMPLETE, ALICE, reading) for reading in ("accounting", "no accounting")}
    assert told == {"accounting": "refused", "no accounting": "read"}, "srun's own message has none"
    assert {ask("slurmctld", STEP_COMPLETE, sender, "accounting") for sender in (ROOT, SLURM)} == {"read"}


def test_a_slurm_without_one_of_the_functions_does_not_start(message_programs: Path) -> None:
    loaded = {"LD_PRELOAD": f"{message_programs}/message_guard.so"}
    alone = subprocess.run(["/bin/true"], env=loaded, capture_output=True, text=True, timeout=60, check=False)
    assert alone.returncode == 1
    assert "its messages can't be guarded" in alone.stderr
