"""Every message of the installed Slurm, sent to slurmd by all who reach its port (tests/witness/messages/rpcs.py)."""

from __future__ import annotations

import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from devcluster.machine.bootstrap import CHECKOUT
from tests.image import roots
from tests.image.pods import CONTROLLER, WORKER
from tests.image.small_cluster import ALICE, SmallCluster
from tests.witness.messages import rpcs
from tests.witness.messages.rpcs import (
    IN_JOB,
    NOBODY,
    ON_LOGIN,
    READ_OF_USERS,
    ROOT_OF_POD,
    STRANGER,
    Daemons,
    Message,
    Place,
    Sender,
    Token,
)

SLURM_USER = 64030
NAMELESS = 7777
IS_ANSWER = re.compile("RESPONSE_")
HOLDS_ANY = {"REQUEST_SIB_MSG", "REQUEST_CTLD_MULT_MSG", "REQUEST_DBD_RELAY"}
"""Requests to slurmctld with messages of any type inside."""
ANSWER_GUARD = CHECKOUT / "native/doors/answer_guard.c"
FORGER = Path(rpcs.__file__).with_name("forged_launch.c")
FAR_NODES = "far-[0-65000]"
"""So many nodes that what slurmd would read of the last one lies beyond the arrays of a launch."""
TOO_MANY_NODES = ",".join(f"far{number}-[0-65000]" for number in range(100))
"""More than a cluster has: no daemon makes names of them."""


@pytest.fixture(scope="module")
def daemons(image: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemons]:
    folder = tmp_path_factory.mktemp("rpcs")
    with SmallCluster(image, roots.make("mpich", folder / "root"), folder, as_in_kubernetes=True) as started:
        started.start()
        started.start_login()
        yield Daemons(started)


def test_every_message_that_slurmd_takes_is_classified(daemons: Daemons) -> None:
    # slurmd takes no answer; one of zeros, of root, would end it.
    names = sorted(name for name in {*daemons.types} - {*rpcs.TAKEN} if not IS_ANSWER.match(name))
    said = daemons.send(ROOT_OF_POD, [Message(name) for name in names])
    assert rpcs.UNKNOWN in said, "slurmd says that it does not take a type"
    assert not [*rpcs.unclassified(names, said), *rpcs.gone(daemons.types)]


def test_slurmctld_reads_each_answer_of_slurmd_for_which_it_asks_and_no_other(daemons: Daemons) -> None:
    said = dict(zip(rpcs.ANSWERED, daemons.send(ROOT_OF_POD, [Message(name) for name in rpcs.ANSWERED]), strict=True))
    asked = {question: answer for question, (answer, asker) in rpcs.ANSWERED.items() if asker == rpcs.SLURMCTLD}
    for question, (answer, _) in rpcs.ANSWERED.items():
        # About no step or process it answers in a return code.
        if question in asked or said[question].startswith("message"):
            assert said[question] == f"message {daemons.types[answer]}", question
    read = re.findall(r'"(RESPONSE_\w+)"', ANSWER_GUARD.read_text())
    assert {*read} == {*asked.values(), "RESPONSE_SLURM_RC"}


@pytest.mark.parametrize("sender", [IN_JOB, ON_LOGIN], ids=["in a job", "on a login node"])
def test_slurmd_reads_of_users_what_their_commands_send_alone(daemons: Daemons, sender: Sender) -> None:
    since, starts = len(daemons.cluster.log(WORKER)), daemons.starts()
    said = daemons.send(sender, [Message(name) for name in daemons.types])
    refused = {name for name, user in daemons.guarded(since) if user == ALICE}
    assert {*daemons.types} - refused == READ_OF_USERS
    assert not {"0", rpcs.ENDED} & {*said}, "none of them was done"
    assert daemons.starts() == starts, "slurmd is the one that it was"


@pytest.mark.parametrize("token", [each for each in Token if each is not Token.OWN])
def test_slurmd_reads_no_message_whose_sender_it_cannot_know(daemons: Daemons, token: Token) -> None:
    since, starts = len(daemons.cluster.log(WORKER)), daemons.starts()
    said = daemons.send(IN_JOB, [Message(name, token) for name in daemons.types])
    assert {*said} <= rpcs.UNREAD, said
    if token is Token.NONE:
        assert {name for name, user in daemons.guarded(since) if user == NOBODY} == {*daemons.types}
    assert daemons.starts() == starts, "slurmd is the one that it was"


@pytest.mark.parametrize("place", [Place.JOB, Place.LOGIN], ids=["in a job", "on a login node"])
@pytest.mark.parametrize("token", [Token.OWN, Token.NONE])
def test_slurmctld_reads_of_users_requests_alone(daemons: Daemons, token: Token, place: Place) -> None:
    since, first = len(daemons.cluster.log(CONTROLLER)), daemons.cluster.first_process(CONTROLLER)
    said = daemons.send(rpcs.to_slurmctld(place), [Message(name, token) for name in daemons.types])
    refused = {name for name, _ in daemons.guarded(since, CONTROLLER)}
    answers = {*filter(IS_ANSWER.match, daemons.types)}
    assert refused >= ({*daemons.types} if token is Token.NONE else answers | HOLDS_ANY)
    assert rpcs.ENDED not in said
    assert daemons.cluster.first_process(CONTROLLER) == first, "slurmctld is the one that it was"
    assert "UP" in daemons.cluster.pod("/opt/slurm/bin/scontrol ping").stdout


@pytest.mark.parametrize("place", [Place.JOB, Place.LOGIN], ids=["in a job", "on a login node"])
@pytest.mark.parametrize("user", [0, SLURM_USER], ids=["root", "SlurmUser"])
def test_who_plays_slurmctld_in_a_jail_gets_no_token_and_is_not_read_without(
    daemons: Daemons, user: int, place: Place
) -> None:
    starts = daemons.starts()
    said = daemons.send(Sender(user, place), [Message(name) for name in daemons.types])
    assert said == [rpcs.NO_TOKEN] * len(daemons.types)
    said = daemons.send(Sender(user, place), [Message(name, Token.NONE) for name in daemons.types])
    assert {*said} <= rpcs.UNREAD, said
    assert daemons.starts() == starts, "slurmd is the one that it was"


def test_slurmd_does_for_a_user_what_is_about_his_own_steps(daemons: Daemons) -> None:
    job = daemons.cluster.jail("sbatch --parsable -n1 --mem=50 -o /dev/null --wrap 'srun sleep 300'", user=ALICE)
    asked = rpcs.about(int(job.stdout))
    assert {each.name for each in asked} | {"REQUEST_LAUNCH_TASKS"} == {
        name for name, who in rpcs.TAKEN.items() if who is rpcs.Listens.OWNER
    }

    def runs() -> bool:
        return daemons.cluster.jail(f"squeue -h --steps -j {job.stdout.strip()} -o %i").stdout.count(".0\n") == 1

    daemons.cluster.wait("the step runs", runs, 60)
    try:
        denied = dict(zip((each.name for each in asked), daemons.send(STRANGER, asked), strict=True))
        # It answers in a message of its own, whose last field is the same code.
        reattached = denied.pop("REQUEST_REATTACH_TASKS")
        assert {*denied.values()} <= rpcs.DENIED, denied
        assert reattached.startswith("message")
        assert runs(), "nobody else ended it"
        starts = daemons.starts()
        harmless = [each for each in asked if each.name != "REQUEST_TERMINATE_TASKS"]
        assert not {*daemons.send(IN_JOB, harmless)} & rpcs.DENIED, "the bodies are right"
        assert daemons.starts() == starts, "also a reattach without a key leaves slurmd as it was"
    finally:
        daemons.cluster.jail(f"scancel {job.stdout}", user=ALICE)


def test_a_launch_that_lists_more_nodes_than_it_has_tasks_for_leaves_slurmd_as_it_was(daemons: Daemons) -> None:
    library = daemons.cluster.root / rpcs.FOLDER.lstrip("/") / "forged.so"
    built = ["gcc", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-o", str(library), str(FORGER)]
    subprocess.run(built, check=True, timeout=60)
    starts, since = daemons.starts(), len(daemons.cluster.log(WORKER))
    forged = f"LD_PRELOAD={rpcs.FOLDER}/forged.so FORGED_NODES=%s timeout 30 srun -n1 --mem=50 echo ran"
    refusals = {
        FAR_NODES: f"refused a launch of uid {ALICE}: it lists more nodes",
        TOO_MANY_NODES: "refused a list of nodes: it is malformed, or has more than 65536",
    }
    for far, refusal in refusals.items():
        line = forged % shlex.quote(f"{far},{WORKER}")
        assert daemons.cluster.jail(line, user=ALICE).stdout == ""
        assert refusal in daemons.cluster.log(WORKER)[since:]
    assert daemons.starts() == starts, "slurmd is the one that it was"
    assert daemons.cluster.jail(forged % WORKER, user=ALICE).stdout == "ran\n", "by the same client, with its own list"


CLIENTS = {"salloc": "salloc -n1 --mem=50 sleep 300", "sattach": "sattach $(cat ~/step).0"}
LISTENING = """
import os, re, sys
rows = [row.split() for row in open("/proc/net/tcp").readlines()[1:]]
listening = {row[9]: int(row[1].split(":")[1], 16) for row in rows if row[3] == "0A"}
for pid in os.popen("pidof -s " + sys.argv[1]).read().split():
    for number in os.listdir(f"/proc/{pid}/fd"):
        inode = re.match(r"socket:.(\\d+)", os.readlink(f"/proc/{pid}/fd/{number}"))
        if inode and inode[1] in listening:
            print(listening[inode[1]])
"""
"""Python in a pod that prints the ports of a program."""


@pytest.mark.parametrize("client", CLIENTS)
def test_a_stranger_ends_nobodys_client(daemons: Daemons, client: str) -> None:
    step = "sbatch --parsable -n1 --mem=50 -o /dev/null --wrap 'srun sleep 300' > ~/step; cat ~/step"
    job = daemons.cluster.jail(step, user=ALICE).stdout.strip()
    # sattach ends well, too, where it comes between the step's start and that of its task.
    attached = f"until {CLIENTS[client]} && false; do sleep 0.2; done"
    started = daemons.cluster.jail(
        f"setsid sh -c {shlex.quote(attached)} > /dev/null 2>&1 < /dev/null & true", user=ALICE
    )
    assert started.returncode == 0, started

    def ports() -> list[int]:
        said = daemons.cluster.pod(f"python3 -c {shlex.quote(LISTENING)} {client}").stdout
        return [int(port) for port in said.split()]

    try:
        daemons.cluster.wait(f"{client} listens", ports, 60)
        process = daemons.cluster.pod(f"pgrep -ox {client}").stdout
        for port in ports():
            for token in (Token.OWN, Token.NONE):
                every = [Message(name, token) for name in daemons.types]
                said = daemons.send(Sender(STRANGER.user, Place.NODE, port), every)
                assert rpcs.ENDED not in said
        assert daemons.cluster.pod(f"pgrep -ox {client}").stdout == process, "it is the one that it was"
    finally:
        daemons.cluster.pod(f"pkill -f '[u]ntil {client}'; pkill {client}")
        daemons.cluster.jail("scancel --me", user=ALICE)
        assert job


JUNK = """
import socket, sys
for port in map(int, sys.argv[1:]):
    for junk in (b"", bytes(4) + b"\\xff" * 200, b"\\xff" * 4):
        with socket.create_connection(("127.0.0.1", port), 9) as command:
            command.sendall(junk)
"""
"""Python in a pod that connects to ports, says nothing or what is no message, and goes."""


def test_a_stranger_cancels_no_job_that_waits_for_its_allocation(daemons: Daemons) -> None:
    waits = "rm -f ~/ran; setsid srun -H -J waits -n1 --mem=50 echo ran > ~/ran 2>&1 < /dev/null & true"
    assert daemons.cluster.jail(waits, user=ALICE).returncode == 0

    def ports() -> str:
        return daemons.cluster.pod(f"python3 -c {shlex.quote(LISTENING)} srun").stdout.replace("\n", " ")

    def job() -> str:
        return daemons.cluster.jail("squeue -h -n waits -o %i", user=ALICE).stdout.strip()

    try:
        daemons.cluster.wait("srun waits", lambda: job() and ports(), 60)
        assert daemons.cluster.pod(f"python3 -c {shlex.quote(JUNK)} {ports()}").returncode == 0
        released = daemons.cluster.pod(f"/opt/slurm/bin/scontrol release {job()}")
        assert released.returncode == 0, released
        daemons.cluster.wait("it ran", lambda: "ran\n" in daemons.cluster.jail("cat ~/ran", user=ALICE).stdout, 60)
    finally:
        daemons.cluster.jail("scancel --me", user=ALICE)


HTTP = """
import socket
with socket.create_connection(("127.0.0.1", 6818), 9) as slurmd:
    print("connected")
    slurmd.sendall(b"GET /healthz HTTP/1.1\\r\\nHost: node\\r\\n\\r\\n")
    slurmd.shutdown(socket.SHUT_WR)
    print(slurmd.recv(99).decode(), end="")
"""


@pytest.mark.parametrize("client", ["srun", "salloc", "sattach", "swait"])
def test_each_client_that_listens_loads_the_library_that_asks_who_sends(daemons: Daemons, client: str) -> None:
    loaded = daemons.cluster.jail(f"LD_TRACE_LOADED_OBJECTS=1 {client}; {client} --usage", user=ALICE)
    assert "message_guard.so => /opt/slurm/lib/message_guard.so" in loaded.stdout
    assert "Usage" in loaded.stdout, loaded


def test_slurmd_speaks_no_http(daemons: Daemons) -> None:
    asked = daemons.cluster.jail(f"python3 -c {shlex.quote(HTTP)}", user=ALICE)
    assert asked.stdout == "connected\n", asked


ONWARD = """
import socket, struct
for nodes, depth in ((b"cpu-1", 0), (b"cpu-[", 1), (b"cpu-[" + b"0," * 300000 + b"0]", 1), (b"far[0-60000]", 1)):
    tree = struct.pack("!I", len(nodes) + 1) + nodes + bytes(1) + struct.pack("!IHH", 1000, 65533, depth)
    head = struct.pack("!HHHIH", 45 << 8, 1 << 6, 1008, 0, 1) + tree + struct.pack("!HH", 0, 0)
    with socket.create_connection(("127.0.0.1", 6818), 9) as slurmd:
        slurmd.sendall(struct.pack("!I", len(head)) + head)
        try:
            print(slurmd.recv(99) or "closed")
        except ConnectionResetError:
            print("closed")
"""
"""Messages without a token, to be passed on: in a tree without depth, to no list of nodes, to endless ones."""


def test_slurmd_passes_no_message_on_to_other_nodes(daemons: Daemons) -> None:
    starts, since = daemons.starts(), len(daemons.cluster.log(WORKER))
    asked = daemons.cluster.jail(f"python3 -c {shlex.quote(ONWARD)}", user=ALICE)
    assert asked.stdout == "closed\n" * 4, asked
    assert daemons.cluster.log(WORKER)[since:].count("refused to pass REQUEST_PING on to other nodes") == 4
    assert daemons.starts() == starts, "slurmd is the one that it was"


@pytest.mark.parametrize("endless", ["x[0-65535][0-65535]", f"x{'[0-9,0-9]' * 9}"])
def test_slurmctld_makes_no_endless_list_of_nodes(daemons: Daemons, endless: str) -> None:
    job = daemons.cluster.jail("sbatch --parsable --hold -n1 --mem=50 --wrap true", user=ALICE).stdout.strip()
    try:
        words = f"timeout 20 scontrol update jobid={job} excnodelist={shlex.quote(endless)}"
        refused = daemons.cluster.jail(words, user=ALICE)
        assert "Invalid node name specified" in refused.stderr, refused
        assert "UP" in daemons.cluster.pod("/opt/slurm/bin/scontrol ping").stdout
    finally:
        daemons.cluster.jail(f"scancel {job}", user=ALICE)


def test_a_job_of_an_id_without_an_account_is_cancelled_and_leaves_slurmd_as_it_was(daemons: Daemons) -> None:
    starts, since = daemons.starts(), len(daemons.cluster.log(WORKER))
    # No door here, so no command says that Slurm runs no job for it (native/doors/test_sack_door).
    assert daemons.cluster.jail("srun -n1 --mem=50 id", user=NAMELESS).stdout == ""
    assert "not able to requeue it, cancelling job" in daemons.cluster.log(WORKER)[since:]
    assert daemons.cluster.jail("srun -n1 --mem=50 echo runs", user=ALICE).stdout == "runs\n"
    assert daemons.starts() == starts, "slurmd is the one that it was"
