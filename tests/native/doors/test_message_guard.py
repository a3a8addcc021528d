"""Slurm's programs read messages of known users only: message_guard.c before a library that stands for Slurm's."""

from __future__ import annotations

import os
import re
import shutil
import struct
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import build_prefix
import pytest

HERE, NATIVE = Path(__file__).parents[1], Path("native")
NOBODY, ROOT, SLURM, ALICE = -1, 0, 64030, 1000
PING, ANSWER, TRIGGER, FORWARD, LAUNCH, SIGNAL, PMI = 1008, 2004, 2017, 5029, 6001, 6004, 7204
CANCEL, REATTACH = 5032, 6007
DONE, ENERGY, RELAY, SIBLING = 8001, 1018, 1031, 4502
SLOW_SECONDS = 5
"""For so long the stand-in sleeps after a message that it could not read."""
PERSIST_INIT, DBD_FINI, DBD_GET_JOBS, DBD_JOB_START = 6500, 1401, 1432, 1425
DBD_ARCHIVE_DUMP, DBD_ARCHIVE_LOAD = 1459, 1460
DOORS = (
    *("message_guard.c", "answer_guard.c", "connection_guard.c", "forward_guard.c", "hostlist_guard.c"),
    *("http_guard.c", "length_guard.c", "launch_reader.c", "launch_check.c", "persist_guard.c", "slow_readers.c"),
)
SOURCES = (*(f"doors/{name}" for name in DOORS), "commands/client_guard.c")
OF_STEPD = ("doors/answer_guard.c", "stepd/stepd_answers.c")
NO_VALUE = 0xFFFFFFFE
SLOW_BYTES, SLOW_READERS = 8 << 20, 4
"""So much slurmctld keeps here for readers that are slow."""
Ask = Callable[..., str]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("guard")
    probes = (str(HERE / "message_probe.c"), str(HERE / "connection_probe.c"))
    shared = ("-shared", "-fPIC", "-pthread")
    _gcc(*shared, "-o", f"{folder}/libslurm.so", str(HERE / "message_library.c"))
    moments = ("-DINIT_MILLISECONDS=500", "-DMOMENT_MILLISECONDS=1000")
    bounds = (*moments, f"-DSLOW_BYTES={SLOW_BYTES}", f"-DSLOW_READERS={SLOW_READERS}")
    for guard, sources in {"guard.so": SOURCES, "stepd_guard.so": OF_STEPD, "hasty.so": SOURCES}.items():
        hasty = ("-DSLOW_MILLISECONDS=50",) * (guard == "hasty.so")
        _gcc(*shared, *bounds, *hasty, "-o", f"{folder}/{guard}", *(str(NATIVE / name) for name in sources))
    (folder / "hasty").mkdir()
    for program, guard in {"slurmd": "guard.so", "slurmstepd": "stepd_guard.so", "hasty/slurmctld": "hasty.so"}.items():
        linked = ("-Wl,--no-as-needed", f"{folder}/{guard}", f"{folder}/libslurm.so")
        _gcc("-o", f"{folder}/{program}", *probes, *linked)
    for name in ("slurmctld", "slurmdbd", "srun", "salloc", "sattach", "swait", "unknown"):
        shutil.copy(folder / "slurmd", folder / name)
    return folder


def _gcc(*arguments: str) -> None:
    command = ["gcc", "-D_GNU_SOURCE", "-iquote", str(NATIVE), "-iquote", str(NATIVE / "doors"), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr


@pytest.fixture
def ask(folder: Path) -> Ask:
    """Has a program receive a message, and gives what became of it."""

    def asked(
        program: str, kind: int | str, sender: int, reading: str = "works", how: str = "received", conf: str = ""
    ) -> str:
        (folder / "slurm.conf").write_text(conf)
        done = subprocess.run(
            [folder / program, str(kind), str(sender), reading, how],
            capture_output=True, text=True, timeout=60, check=False, env={"SLURM_CONF": f"{folder}/slurm.conf"},
        )  # fmt: skip
        assert done.returncode == 0, done
        return " ".join(word for word in done.stdout.split() if "=" not in word)

    return asked


def test_the_library_knows_each_program_that_must_load_it() -> None:
    known = re.findall(r'\{"(\w+)", [A-Z]+\}', (NATIVE / "doors/message_guard.c").read_text())
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


NODES = 65_536


@pytest.mark.parametrize(
    "sound",
    ["a", "", f"a[0-{NODES - 1}]", "a[0-255]b[0-255]", "a[1,3-7,9]x,b[0-9]-y c\td", "[7000-7999]", "a[]", "c" * 999],
)
@pytest.mark.parametrize("program", ["slurmctld", "slurmdbd", "slurmd"])
def test_a_list_of_nodes_that_a_cluster_may_have_is_read(ask: Ask, program: str, sound: str) -> None:
    assert ask(program, 0, ALICE, sound, "lists") == "read read"


ZEROS = f"[{','.join('0' * 300)}]"


@pytest.mark.parametrize(
    "endless",
    [
        "a[0-65535][0-65535]",
        "a[0-65535]b[0-65535]c[0-65535]d[0-65535]e[0-65535]f[0-65535]",
        f"a[0-{NODES}]",
        f"a[0-{NODES - 1}],b",
        "a[0-99999999999999999999]",
        f"a{ZEROS}{ZEROS}",
        "a[[0-65535][0-65535]",
        "a[0 -65535][0:-65535]",
        "a[1,2]-65535][0-9]",
        "a[1",
        f"{'a' * 256}[0-1]",
        f"a[0-1]{'b' * 256}",
        f"a[{'0' * 256}-1]",
    ],
    ids=[
        *("product", "large product", "range", "sum", "overflow", "numbers", "nested", "words", "half", "open"),
        *("long name", "long end", "long number"),
    ],
)
def test_a_list_of_more_nodes_is_none_to_a_daemon(ask: Ask, endless: str) -> None:
    """slurmctld would make each name under its locks."""
    answers = {ask(program, 0, ALICE, endless, "lists") for program in ("slurmctld", "slurmdbd", "slurmd")}
    assert answers == {"refused refused"}
    assert ask("srun", 0, ALICE, endless, "lists") == "read read", "a user's own program is his own matter"


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


@pytest.mark.parametrize(
    ("length", "rest", "became"),
    [
        ("5", "bytes", "9 read"),
        ("9", "bytes", "refused"),
        ("5", "gone", "refused"),
        ("4294967295", "bytes", "refused"),
        (str(1 << 20), "", "refused"),
    ],
    ids=["whole", "silent", "gone", "4 GiB", "slow"],
)
@pytest.mark.parametrize("program", ["srun", "sattach"])
def test_a_stranger_holds_up_no_steps_input_and_output(
    ask: Ask, program: str, length: str, rest: str, became: str
) -> None:
    """Slurm's own waits for ever."""
    assert ask(program, length, NOBODY, rest, "first") == became


def test_many_silent_strangers_hold_up_a_command_for_a_moment_each(ask: Ask) -> None:
    """It takes their connections one after the other."""
    began = time.monotonic()
    assert ask("srun", 20, NOBODY, how="silent") == "20"
    assert time.monotonic() - began < 20 * 0.5 * 0.8, "each halves what the command waits for the next one"


MIB = 1 << 20


def closed(ask: Ask, *came: tuple[int, int], program: str = "slurmctld") -> str:
    """Says which connections were closed; of each, bytes of a message with so many of them came, or its last (0)."""
    return ask(program, 0, NOBODY, ",".join(f"{connection}:{size}" for connection, size in came), "receives")


@pytest.mark.parametrize("program", ["slurmctld", "slurmd"])
def test_a_length_that_a_stranger_claims_takes_no_memory(ask: Ask, program: str) -> None:
    """Slurm's own fills a gigabyte for eight bytes, as much as its pod may have."""
    assert closed(ask, (1, 1024 * MIB), program=program) == "1"
    assert closed(ask, (1, 200), (2, 60 * MIB), (3, 100_000), program=program) == "", "Slurm's own is never asked"


def test_all_long_messages_that_are_under_way_have_one_bound(ask: Ask) -> None:
    assert closed(ask, (1, 40 * MIB), (2, 40 * MIB), (1, 40 * MIB), (3, 20 * MIB), (4, 5 * MIB), (5, 9999)) == "2 4"
    assert closed(ask, (1, 40 * MIB), (1, 0), (2, 40 * MIB), (2, 0), (1, 64 * MIB)) == "", "a whole one counts no more"
    assert closed(ask, *((number, MIB // 4 - 1) for number in range(1, 300))) == " ".join(map(str, range(257, 300)))


def test_a_question_in_http_has_no_body(ask: Ask) -> None:
    """Slurm's own takes 50 MiB of each connection, and writes one byte behind them."""
    assert [ask("slurmctld", 0, NOBODY, size, "http") for size in ("0", "1", "16383")] == ["read", "refused", "refused"]


@pytest.mark.parametrize(
    ("came", "became"),
    [
        ("hq", "answered read 2"),
        ("hqhq", "answered refused 3"),
        ("hbhq", "refused 3"),
    ],
    ids=["one", "two at once", "a line that Slurm refuses"],
)
def test_of_questions_in_http_that_come_at_once_one_is_answered(ask: Ask, came: str, became: str) -> None:
    """Slurm's own keeps thousands of answers to a stranger, and forgets each line that it refuses."""
    assert ask("slurmctld", 0, NOBODY, came, "questions") == became


def peers(ask: Ask, *came: str, program: str = "slurmctld", sender: int = ALICE) -> str:
    """Says how many messages were refused, and which peers were sent away (connection_probe.c)."""
    kind = "database" if program == "slurmdbd" else SIGNAL if program == "slurmd" else PING
    return ask(program, kind, sender, ",".join(came), "peers")


@pytest.mark.parametrize("program", ["slurmctld", "slurmd"])
def test_who_says_nothing_gives_way_to_a_new_connection(ask: Ask, program: str) -> None:
    """Slurm's own takes nobody in while 512 are there, and each may stay for as long as it likes."""
    assert peers(ask, "i512", "w479", program=program) == "0"
    assert peers(ask, "i512", "w479", "w2", program=program) == "0 0 1"
    assert peers(ask, "i0", "i512", "w140", "w1", program=program) == "0 0", "Slurm goes by the first number"
    assert peers(ask, "p64", "i512", "w59", "w1", program=program) == "0 0", "as many as the configuration says"


def test_silent_strangers_leave_places_at_a_commands_port(ask: Ask) -> None:
    """Slurm's own has 150, and one of these stays for five times MessageTimeout."""
    assert peers(ask, "i0", "w32", program="srun") == "0"
    assert peers(ask, "i0", "w32", "w1", program="srun") == "0 0"
    assert peers(ask, "i0", "a40", "w32", program="srun") == "0", "its nodes' input and output stays"


def test_who_speaks_a_moment_after_he_came_keeps_his_connection(ask: Ask) -> None:
    """Slurm's commands ask for a token once they are connected."""
    assert peers(ask, "i64", "l1", "w58", "w1") == "0 1"


def test_whose_message_waits_for_slurm_or_is_there_keeps_his_connection(ask: Ask) -> None:
    assert peers(ask, "i64", "u1", "w58", "w1") == "0 1"
    assert peers(ask, "i64", "m1", "w59", "w1") == "0 1"
    assert peers(ask, "i64", "u59", "w1") == "0", "the new one, too"


@pytest.mark.parametrize("program", ["slurmctld", "slurmd"])
def test_a_connection_brings_one_message(ask: Ask, program: str) -> None:
    """Slurm's own forgets the first when a second comes with it, but not its memory."""
    assert peers(ask, "m3", program=program) == "0"
    assert peers(ask, "d3", program=program) == "3"
    assert peers(ask, "d3", program=program, sender=ROOT) == "3"


def test_connections_to_slurmdbd_leave_threads_to_others(ask: Ask) -> None:
    """Slurm's own has a hundred, and waits for a stranger's next byte for ever."""
    assert peers(ask, "w96", program="slurmdbd") == "0"
    assert peers(ask, "m4", "w92", "w1", program="slurmdbd") == "0 4"
    assert peers(ask, "m64", program="slurmdbd") == "0"
    assert peers(ask, "m66", program="slurmdbd") == "freed freed 2"
    assert peers(ask, "m90", program="slurmdbd", sender=SLURM) == "0"


def test_slurmdbd_waits_for_no_more_of_a_stranger_or_a_user_than_they_send(ask: Ask) -> None:
    assert ask("slurmdbd", f"0:B4,B{MIB},B{MIB + 1}", ALICE, how="connects") == "read read refused"
    with_user = f"{PERSIST_INIT}:{PERSIST_INIT},B{4 * MIB},B{4 * MIB + 1}"
    assert ask("slurmdbd", with_user, ALICE, how="connects") == "read read refused"
    assert ask("slurmdbd", with_user, SLURM, how="connects") == "read read read", "slurmctld sends many records at once"
    assert ask("slurmctld", f"0:B{99 * MIB}", ALICE, how="connects") == "read"


def answers(ask: Ask, size: int, how: str, program: str = "slurmctld") -> str:
    """Says of each peer whether its answer was sent without a wait for it, and what it then read."""
    return ask(program, size, NOBODY, how, "answers")


def test_who_reads_his_answer_slowly_holds_no_thread_of_slurmctld(ask: Ask) -> None:
    """Slurm's own waits for each, for MessageTimeout; it has two threads for each CPU."""
    assert answers(ask, 2 * MIB, "3") == "sent sent sent whole whole whole"
    assert answers(ask, 2 * MIB, "2", program="slurmd") == "held held cut cut", "its answers to users are small"


def test_slow_readers_answers_have_one_bound_and_the_slowest_gives_way(ask: Ask) -> None:
    assert answers(ask, 3 * MIB, "3") == "sent sent sent cut whole whole"
    assert answers(ask, MIB, "5") == "sent sent sent sent sent cut whole whole whole whole"
    assert answers(ask, 2 * SLOW_BYTES, "1") == "held cut", "as Slurm does it"
    assert answers(ask, MIB, "silent", program="hasty/slurmctld") == "sent left"


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


def launch(nodes: int, listed: str, counts: int = 0, repeats: tuple[int, ...] = (), het: int = NO_VALUE) -> str:
    """A launch for so many nodes, as the probe takes it: what stands before its credential, and the list of nodes.

    Args:
        nodes: of how many it has tasks.
        listed: the nodes that it names.
        counts: how many counts of CPUs it has.
        repeats: for how many nodes each of them holds.
        het: how many nodes of a heterogeneous job it has tasks of.
    """
    other = het * struct.pack("!III", 2, 0, 1) if het != NO_VALUE else b""
    body = bytes(20) + struct.pack("!II", 1, ALICE) + struct.pack("!III", 0, NO_VALUE, het) + other
    body += struct.pack("!III", NO_VALUE, NO_VALUE, 0) + struct.pack("!II", 0, 0) + struct.pack("!II", 0, 1)
    body += bytes(4 * 2 + 2 * 8) + struct.pack("!IH", nodes, 1)
    body += (
        struct.pack("!I", counts)
        + bytes(2 * min(counts, 9))
        + struct.pack(f"!I{len(repeats)}I", len(repeats), *repeats)
    )
    return f"launch:{body.hex()}:{listed}"


@pytest.mark.parametrize(
    "sound",
    [
        launch(1, "a"),
        launch(2, "a,b"),
        launch(2, "a,b", het=3),
        launch(3, "a,b,c", 2, (2, 1)),
    ],
    ids=["one", "two", "heterogeneous", "counts of CPUs"],
)  # fmt: skip
def test_a_launch_that_has_tasks_for_each_node_is_read(ask: Ask, sound: str) -> None:
    assert ask("slurmd", LAUNCH, ALICE, sound) == "read"


@pytest.mark.parametrize(
    "forged",
    [
        launch(0, "a"),
        launch(1, "a,b"),
        launch(2, "a,b", 1, (1,)),
        launch(2, "a,b", 2, (2,)),
        launch(2, "a,b", 0xFFFFFF),
    ],
    ids=["of no nodes", "of more nodes", "CPUs of too few", "arrays of two lengths", "longer than it is"],
)
def test_a_launch_that_leads_slurmd_past_its_arrays_is_refused(ask: Ask, forged: str) -> None:
    assert ask("slurmd", LAUNCH, ALICE, forged) == "refused"
    assert ask("slurmd", LAUNCH, ROOT, forged) == "read", "Slurm's own are not asked"


@pytest.mark.parametrize("reading", ["ends", "hangs"])
def test_a_launch_that_ends_or_hangs_who_reads_it_is_read_by_a_child_alone(ask: Ask, reading: str) -> None:
    assert ask("slurmd", LAUNCH, ALICE, reading) == "refused"


def test_a_launch_is_read_although_another_thread_held_a_lock_at_the_fork(ask: Ask) -> None:
    assert ask("slurmd", LAUNCH, ALICE, launch(1, "a"), "locked") == "read"


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
