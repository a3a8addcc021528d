"""A small cluster whose nodes each mount a real NFS server, with the options that the program declares.

The server fails under running jobs. There is one cluster for each version of NFS.
"""

from __future__ import annotations

import json
import re
import tempfile
import threading
from collections.abc import Callable, Iterator
from concurrent import futures
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.image import roots
from tests.image.jail.breaks import JAIL_SENTENCE
from tests.image.jobs import test_het_jobs as het_jobs
from tests.image.pods import LOGIN, SECOND, WORKER
from tests.image.small_cluster import ALICE
from tests.vm import test_v2_jobs as lives
from tests.vm.batch_jobs import ends_at_its_limit, submit_with_a_minute
from tests.vm.nfs.nfs_cluster import LOCK, NODES, VERSIONS, NfsCluster
from tests.vm.nfs.nfs_server import MEMORY, NfsServer, wait
from tests.vm.resting_cluster import RestingCluster

SEEN_WITHIN_SECONDS = 5.0
SLOW_MILLISECONDS = 5
LONG_GRACE_SECONDS = 90
"""Linux' default. A client may be connected again only after 70 s: docs/nfs.md."""
NEW_ROOT = "r2"
SILENCE = re.compile("hangs|takes longer than 40 s")
"""A jail probe says itself that it hangs, unless its own start hangs."""


@pytest.fixture(scope="module", params=VERSIONS)
def version(request: pytest.FixtureRequest) -> str:
    chosen: str = request.param
    return chosen


@pytest.fixture(scope="module")
def server(version: str) -> Iterator[NfsServer]:
    with (
        tempfile.TemporaryDirectory(prefix=f"nfs-{version}-", dir=MEMORY) as memory,
        NfsServer(Path(memory) / "nfs", tuple(NODES), mebibytes=1536) as started,
    ):
        started.export.chmod(0o755)
        yield started


@pytest.fixture(scope="module")
def cluster(image: Path, server: NfsServer, version: str) -> Iterator[NfsCluster]:
    with NfsCluster(image, server, version) as started:
        started.start_all()
        try:
            yield started
        finally:
            server.recover()


def test_one_job_runs_on_both_nodes_and_a_login_reads_what_it_wrote(cluster: NfsCluster) -> None:
    said = cluster.ssh("srun -N2 sh -c 'hostname | tee out-$SLURM_PROCID'; cat out-0 out-1")
    assert sorted(said.stdout.split()) == sorted([WORKER, SECOND] * 2), said
    assert cluster.batch("hostname; stat -f -c %T /", "-w", SECOND) == f"{SECOND}\nnfs\n"


@pytest.mark.parametrize(
    ("looked_for", "made", "user"),
    [
        (
            "fresh-program",
            "printf '#!/bin/sh\\n' > /usr/local/bin/fresh-program; chmod +x /usr/local/bin/fresh-program",
            0,
        ),
        ("getent passwd bob", "useradd -m bob", 0),
        ("test -f fresh-file", "echo > fresh-file", ALICE),
        ("grep -q second note", "echo second > note.new; mv note.new note", ALICE),
        ("test $(stat -c %s log) = 10", "echo more >> log", ALICE),
    ],
    ids=["a program", "a user", "a file", "a replaced file", "the size of a file"],
)
def test_what_one_node_makes_is_on_the_other_within_5_seconds(
    cluster: NfsCluster, looked_for: str, made: str, user: int
) -> None:
    assert cluster.jail("echo first > note; echo over > log", name=WORKER, user=ALICE).returncode == 0
    cluster.look_in_vain(looked_for, SECOND, user)
    done = cluster.jail(made, name=WORKER, user=user)
    assert done.returncode == 0, done
    took = cluster.seconds_until(looked_for, SECOND, user)
    print(f"seen after {took:.2f} s")
    assert took < SEEN_WITHIN_SECONDS


def test_what_an_array_on_two_nodes_wrote_is_read_on_the_other_within_5_seconds(cluster: NfsCluster) -> None:
    others = {WORKER: SECOND, SECOND: WORKER}
    read = "cat ended-0-{0} ended-1-{0} | grep -cx {0} | grep -x 2"
    for node, other in others.items():
        cluster.look_in_vain(read.format(node), other)
    step = "srun -o ended-$SLURM_ARRAY_TASK_ID-%N hostname"
    done = cluster.ssh(f"sbatch -Q -W -N2 --array=0-1 -o /dev/null --wrap '{step}'", seconds=90)
    assert done.returncode == 0, done
    took = [cluster.seconds_until(read.format(node), other, ALICE) for node, other in others.items()]
    print(f"seen after {took} s")
    assert max(took) < SEEN_WITHIN_SECONDS


def test_what_a_running_job_prints_is_read_elsewhere(cluster: NfsCluster, server: NfsServer, version: str) -> None:
    job = cluster.submit("echo printed; touch has-printed; until test -e may-end; do sleep 0.2; done; rm may-end")
    cluster.wait("it printed", (server.export / "persistent/home/alice/has-printed").exists, 60)
    took = cluster.seconds_until("grep -q printed job.out", SECOND, ALICE)
    print(f"seen after {took:.2f} s")
    assert cluster.jail("touch may-end; rm has-printed", user=ALICE).returncode == 0
    cluster.ended(job)
    # With version 3 the writer's kernel decides when it brings an open file to the server.
    assert version == "3" or took < SEEN_WITHIN_SECONDS


@pytest.mark.parametrize("name", ["interactive", "container", "processes that outlive it"])
def test_a_job_ends_and_leaves_nothing(cluster: NfsCluster, name: str) -> None:
    lives.test_a_job_ends_and_leaves_nothing(cluster, name)


@pytest.mark.parametrize(
    "life",
    [
        lives.test_a_cancelled_job_ends_with_all_its_processes,
        lives.test_a_suspended_job_stands_still_and_goes_on,
        lives.test_a_requeued_job_leaves_nothing_of_its_first_run,
        lives.test_a_job_ends_well_under_a_slurmd_that_was_killed,
        het_jobs.test_a_batch_job_of_two_components_runs_steps_over_both,
    ],
    ids=["cancelled", "suspended", "requeued", "slurmd killed", "heterogeneous"],
)
def test_a_job_lives_as_on_a_disk(cluster: NfsCluster, life: Callable[[RestingCluster], None]) -> None:
    life(cluster)
    cluster.wait("rest", cluster.is_at_rest, 60)


@pytest.fixture(scope="module")
def limited(cluster: NfsCluster) -> str:
    """A job with a minute, Slurm's shortest limit: tests that want no rest run meanwhile."""
    return submit_with_a_minute(cluster)


@pytest.mark.usefixtures("limited")
def test_users_made_at_the_same_moment_on_two_nodes_are_all_there_with_ids_of_their_own(cluster: NfsCluster) -> None:
    names = {WORKER: ("ann", "ben", "cem"), SECOND: ("dan", "eva", "fay")}

    def add(node: str) -> None:
        for name in names[node]:
            done = cluster.jail(f"useradd -m {name}", name=node)
            assert done.returncode == 0, done

    threads = [threading.Thread(target=add, args=(node,)) for node in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    listed = [line.split(":") for line in cluster.jail("cat /etc/passwd", name=LOGIN).stdout.splitlines()]
    made = {line[0]: line[2] for line in listed if line[0] in (*names[WORKER], *names[SECOND])}
    assert len(made) == 6
    assert len(set(made.values())) == 6, made


@pytest.fixture
def held_lock(cluster: NfsCluster) -> Iterator[threading.Thread]:
    """The first node holds the lock of the account files until told otherwise."""
    holder = threading.Thread(
        target=cluster.jail, args=(LOCK.format("F_SETLKW", 600),), kwargs={"name": WORKER, "seconds": 300}
    )
    holder.start()
    try:
        wait("the lock", lambda: cluster.is_locked_out(SECOND), 30)
        yield holder
    finally:
        cluster.pod("pkill -9 perl")
        holder.join()


def test_a_lock_of_one_node_binds_the_other_and_in_version_4_outlives_a_restart_of_the_server(
    cluster: NfsCluster, server: NfsServer, version: str, held_lock: threading.Thread
) -> None:
    server.restart(grace_seconds=LONG_GRACE_SECONDS)
    # An idle client learns of the restart when it renews its lease. The server waits no longer than for the last one.
    for node in (WORKER, SECOND, LOGIN):
        assert cluster.jail("touch /etc/after-a-restart", name=node, seconds=150).returncode == 0
    # One lockd serves all networks of this kernel, so servers and clients of version 3 are not told apart here.
    assert version == "3" or cluster.is_locked_out(SECOND)
    assert held_lock.is_alive()
    cluster.pod("pkill -9 perl")
    wait("the lock is free", lambda: not cluster.is_locked_out(SECOND), 60)


def test_a_job_ends_at_its_time_limit(cluster: NfsCluster, limited: str) -> None:
    with cluster.life_of_a_job(90):
        ends_at_its_limit(cluster, limited)


def test_jobs_run_while_the_server_is_slow(cluster: NfsCluster, server: NfsServer) -> None:
    server.become_slow(SLOW_MILLISECONDS)
    try:
        said = cluster.ssh("srun -N2 hostname", seconds=90)
    finally:
        server.recover()
    assert sorted(said.stdout.split()) == [WORKER, SECOND], said
    assert cluster.node_says(WORKER).startswith(("idle", "mixed", "completing"))


def test_a_job_writes_on_through_a_restart_of_the_server_and_loses_nothing(
    cluster: NfsCluster, server: NfsServer
) -> None:
    script = "i=0; until test -e enough; do i=$((i+1)); echo $i >> lines; sleep 0.1; done; echo done >> lines"
    job = cluster.submit(script)
    cluster.wait("its lines", lambda: cluster.lines("lines") > 5, 60)
    server.stop()
    before = cluster.lines("lines")
    server.start()
    cluster.wait("more lines", lambda: cluster.lines("lines") > before + 5, 90)
    assert cluster.jail("touch enough", user=ALICE).returncode == 0
    cluster.ended(job)
    lines = cluster.jail("cat lines; rm lines enough", user=ALICE).stdout.split()
    assert lines == [*map(str, range(1, len(lines))), "done"]


def test_a_full_server_is_an_error_that_breaks_no_file_and_passes(cluster: NfsCluster, server: NfsServer) -> None:
    jail = json.dumps({"revision": NEW_ROOT, "persistent": ["/home"], "tmpMib": 64, "shmMib": 64})
    passwd = cluster.jail("cat /etc/passwd").stdout
    server.fill()
    try:
        written = cluster.jail("srun -n1 sh -c 'head -c 1000000 /dev/zero > much'", user=ALICE)
        user = cluster.jail("useradd -m gil")
        populated = cluster.pod(f"SLURM_JAIL='{jail}' SLURM_USERS=[] python3 -m slurm_node populate")
        known = cluster.jail("cat /etc/passwd", name=SECOND).stdout
        inside = cluster.ssh("id -un")
    finally:
        server.recover()
    assert "No space left on device" in written.stderr, written
    assert user.returncode != 0
    assert populated.returncode == 1
    assert "the jail's storage is full: make room on it" in populated.stderr, populated
    assert known == passwd
    assert not (server.export / f"manifests/{NEW_ROOT}").exists()
    assert inside.stdout == "alice\n"
    assert cluster.jail("srun -n1 sh -c 'head -c 1000000 /dev/zero > much; rm much'", user=ALICE).returncode == 0
    assert cluster.jail("useradd -m gil").returncode == 0
    wait("gil on the other node", lambda: cluster.jail("id gil", name=SECOND).returncode == 0, SEEN_WITHIN_SECONDS)


# The server keeps what a silent client had until another one asks for it.
ENDS_OF_LEASES: dict[str, Callable[[NfsServer], None]] = {
    "by its administrator": NfsServer.end_leases,
    "by silence": lambda server: server.hang("node-1"),
}


@pytest.mark.parametrize("end", ENDS_OF_LEASES)
def test_a_node_whose_lease_ended_loses_its_locks_and_works_on(
    cluster: NfsCluster, server: NfsServer, version: str, held_lock: threading.Thread, end: str
) -> None:
    if version == "3":
        pytest.skip("version 3 has no lease")
    job = cluster.submit("touch begun; until test -e go; do sleep 0.2; done; echo went on > after")
    cluster.wait("the job runs", (server.export / "persistent/home/alice/begun").exists, 60)
    try:
        ENDS_OF_LEASES[end](server)
        wait("the other node has the lock", lambda: not cluster.is_locked_out(SECOND), 60)
    finally:
        server.recover()
    cluster.wait("the node is in service", lambda: "pulumi-slurm:jail" not in cluster.node_says(WORKER), 120)
    assert held_lock.is_alive()
    assert cluster.jail("touch go", user=ALICE).returncode == 0
    cluster.ended(job)
    assert cluster.jail("cat after; rm after begun go", user=ALICE, name=SECOND).stdout == "went on\n"
    assert cluster.ssh("srun -N2 true", seconds=90).returncode == 0


def test_nodes_whose_mounts_hang_say_so_keep_jobs_and_sessions_let_logins_wait_and_return(
    cluster: NfsCluster, server: NfsServer
) -> None:
    home = server.export / "persistent/home/alice"
    job = cluster.submit("touch begun; until test -e end; do sleep 0.2; done; echo whole > result")
    cluster.wait("the job runs", (home / "begun").exists, 60)
    with ThreadPoolExecutor() as aside:
        waiting = "touch open; until test -s result; do sleep 0.2; done; cat result"
        session = aside.submit(cluster.ssh, waiting, seconds=300)
        cluster.wait("a session", (home / "open").exists, 60)
        server.hang("node-1", "node-3")
        try:
            drained = "draining pulumi-slurm:jail"
            cluster.wait("a drain", lambda: drained in cluster.node_says(WORKER), 120)
            cluster.wait("the login node says so", lambda: SILENCE.search(cluster.login_says()), 120)
            said = [cluster.node_says(WORKER), cluster.state(), cluster.login_says()]
            # The second worker's own mount is well.
            outside = f"srun --jobid={job} --overlap -n1 echo ran outside"
            step = cluster.jail(outside, name=SECOND, user=ALICE, seconds=90)
            running = cluster.jail(f"squeue -h -j {job} -o %T", name=SECOND).stdout
            login = aside.submit(cluster.ssh, "echo inside", seconds=150)
            answered_in_silence = futures.wait([login], 3).done
        finally:
            server.recover()
        cluster.wait("the node returns", lambda: "pulumi-slurm:jail" not in cluster.node_says(WORKER), 120)
        cluster.wait("the login node returns", lambda: not cluster.login_says(), 120)
        assert cluster.ssh("touch end").returncode == 0
        cluster.ended(job)
        said_to_session, said_to_login = session.result(), login.result()
    print(said_to_login)
    assert not answered_in_silence, said_to_login
    assert said_to_login.stdout == "inside\n", said_to_login
    assert said_to_session.stdout == "whole\n", said_to_session
    assert cluster.ssh("cat result; rm result begun end open").stdout == "whole\n"
    assert all(SILENCE.search(each) for each in said), said
    assert step.stdout == ""
    assert JAIL_SENTENCE in step.stderr, step
    assert SILENCE.search(step.stderr), step
    assert running == "RUNNING\n"
    assert cluster.ssh("srun -N2 true", seconds=90).returncode == 0


def test_a_new_root_has_the_people_of_the_old_one_and_both_agree_on_those_who_come(
    cluster: NfsCluster, server: NfsServer
) -> None:
    roots.make("bookworm", server.export / "roots" / NEW_ROOT)
    cluster.populate(NEW_ROOT)
    cluster.start_worker(SECOND, NEW_ROOT)
    cluster.wait("the worker is ready", lambda: cluster.state(SECOND) == "ready", 90)
    cluster.wait("the node is idle", lambda: cluster.node_says(SECOND).startswith("idle"), 90)
    said = cluster.ssh("srun -N2 stat -c '%i %U' / /home/alice")
    lines = said.stdout.split("\n")[:-1]
    assert sorted(line.split()[1] for line in lines) == ["alice", "alice", "root", "root"], said
    assert len({line for line in lines if line.endswith("root")}) == 2, "two roots"
    assert len({line for line in lines if line.endswith("alice")}) == 1, "one home"
    assert cluster.jail("getent passwd hal", name=SECOND).returncode != 0
    assert cluster.jail("useradd -m hal", name=WORKER).returncode == 0
    assert cluster.seconds_until("getent passwd hal", SECOND) < SEEN_WITHIN_SECONDS
