"""A stranger costs Slurm's programs little (native/limits, native/commands)."""

from __future__ import annotations

import time

import pytest

from tests.native.message_programs import (
    ALICE,
    MIB,
    NOBODY,
    PERSIST_INIT,
    PING,
    ROOT,
    SIGNAL,
    SLOW_BYTES,
    SLURM,
    Ask,
)

OPERATOR = 1001
NODES = 65_536
ZEROS = f"[{','.join('0' * 300)}]"


@pytest.mark.parametrize(
    "sound",
    ["a", "", f"a[0-{NODES - 1}]", "a[0-255]b[0-255]", "a[1,3-7,9]x,b[0-9]-y c\td", "[7000-7999]", "a[]", "c" * 999],
)
@pytest.mark.parametrize("program", ["slurmctld", "slurmdbd", "slurmd"])
def test_a_list_of_nodes_that_a_cluster_may_have_is_read(ask: Ask, program: str, sound: str) -> None:
    assert ask(program, 0, ALICE, sound, "lists") == "read read"


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


def test_no_node_fits_a_job_whose_tasks_have_no_cpu(ask: Ask) -> None:
    """slurmctld would divide by it, and end."""
    assert [ask("slurmctld", 0, ALICE, cpus, "plans") for cpus in ("3", "0")] == ["4", "-1"]


def test_slurmctld_asks_once_for_a_host_that_nobody_knows(ask: Ask) -> None:
    """Slurm's own waits for ten seconds, under the lock of all jobs: any user's step can name such a host."""
    assert ask("slurmctld", 0, ALICE, "nobody", "looks up") == "1 0 2 0"
    assert ask("slurmctld", 0, ALICE, "login-0", "looks up") == "1 0 2 0"
    assert ask("slurmd", 0, ALICE, "nobody", "looks up") == "10 10 20 20", "it waits for slurmctld's name"


def test_slurmctld_waits_a_moment_for_a_users_srun(ask: Ask) -> None:
    """Slurm's own waits in threads that it wants for its nodes."""
    assert ask("slurmctld", 0, ALICE, "of one", "tells") == "briefly"
    assert {ask("slurmctld", 0, to, "of one", "tells") for to in (ROOT, SLURM, NOBODY)} == {"long"}, "a node"
    assert ask("slurmctld", 0, ALICE, "of any", "tells") == ask("slurmd", 0, ALICE, "of one", "tells") == "long"


def test_slurmctld_wakes_a_bounded_number_of_a_jobs_steps(ask: Ask) -> None:
    """Slurm's own keeps each that waits. Those beyond the bound ask again by themselves."""
    assert [ask("slurmctld", 0, ALICE, count, "steps") for count in ("3", "5")] == ["3", "3"]
    assert ask("slurmctld", 45 << 8, ALICE, "5", "steps") == "5", "steps that run have another bound"
    assert ask("slurmd", 0, ALICE, "5", "steps") == "5"


@pytest.mark.parametrize(("user", "becomes"), [(ALICE, "refused"), (OPERATOR, "read"), (SLURM, "read"), (ROOT, "read")])
def test_a_user_cannot_say_what_his_job_had(ask: Ask, user: int, becomes: str) -> None:
    """Slurm's own sums up all usage since that job anew, and then he paid for nothing."""
    assert ask("slurmdbd", 0, user, "resources", "changes") == becomes
    assert ask("slurmdbd", 0, user, "comment", "changes") == "read"


def test_slurmctld_adds_up_as_many_tasks_as_it_can_count(ask: Ask) -> None:
    assert [ask("slurmctld", 0, ALICE, tasks, "merges") for tasks in ("25535", "25536")] == ["65535", "40000"]


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
