"""Accounting on the real thing: what ran is recorded, whatever was away meanwhile, and trouble is told in words."""

from __future__ import annotations

import base64
import contextlib
import json
import shlex
import time
from collections.abc import Iterator
from concurrent import futures
from pathlib import Path

import pytest

from components.slurm.conf import slurmdbd_conf
from contract import paths
from tests.unit.golden_files import stack

GOLDEN = Path(__file__).parents[2] / "unit" / "golden_slurmdbd"
SPECIAL = "p\"a'ss #$\\`!%&;:@/?=*(){}[]<>|~^, \tüß€"
"""Every kind of character that a shell, SQL, a URL or Slurm's parser could trip over."""
EDGES = " # both \\ ends'"
"""Slurm strips what a password script says, so this one goes another way."""
PROBE = [paths.READY_PROBE, "accounting"]


def sacct(slurm, job: str, fields: str = "state") -> list[str]:
    """Lines of sacct about a job itself, as an ordinary user."""
    return slurm.sh(f"sacct -nP -X -j {job} -o {fields}").stdout.split()


def recorded(slurm, job: str, state: str = "COMPLETED", seconds: float = 120) -> None:
    slurm.wait(f"job {job} is {state} in sacct", lambda: sacct(slurm, job) == [state], seconds)


def submit(slurm, script: str = "true", options: str = "") -> str:
    return slurm.sh(f"sbatch --parsable -o /dev/null {options} --wrap {script!r}").ok()


def accounting_says(slurm, words: str, seconds: float = 120) -> None:
    """Degraded tells slurmdbd's own words, and jobs run on."""
    slurm.wait(
        f"Degraded says {words!r}",
        lambda: words in (found := slurm.condition("Degraded"))["message"] and found["status"] == "True",
        seconds,
    )
    slurm.wait("Available", lambda: slurm.condition("Available")["status"] == "True", seconds)


def accounting_is_well(slurm, seconds: float = 180) -> None:
    slurm.wait("accounting is well", lambda: "accounting" not in slurm.condition("Degraded")["message"], seconds)
    slurm.wait("slurmdbd answers", lambda: slurm.kubectl("exec", "slurm-accounting-0", "--", *PROBE).status == 0, 60)


@contextlib.contextmanager
def away(slurm, pod: str) -> Iterator[None]:
    """Ends a pod, and keeps Kubernetes from making it again: what is declared stays as it is."""
    held = {"metadata": {"finalizers": ["pulumi-slurm.dev/test"]}}
    slurm.kubectl("patch", "pod", pod, "--type=merge", "-p", json.dumps(held)).ok()
    try:
        slurm.kubectl("delete", "pod", pod, "--wait=false").ok()

        def ended() -> bool:
            statuses = slurm.get("pod", pod)["status"].get("containerStatuses", [])
            return not any("running" in each["state"] for each in statuses)

        slurm.wait(f"{pod} has ended", ended, 150)
        yield
    finally:
        slurm.kubectl("patch", "pod", pod, "--type=merge", "-p", '{"metadata": {"finalizers": null}}').ok()


def on_database(slurm, sql: str) -> str:
    client = ["mariadb", "--no-defaults", "--socket=/run/mariadb/mariadb.sock", "--user=mariadb", "-N"]
    return slurm.kubectl("exec", "-i", "slurm-database-0", "--", *client, text=sql).ok()


def test_an_ordinary_user_gets_answers_from_sacct_sreport_and_sshare(slurm):
    accounting_is_well(slurm)
    job = submit(slurm, "srun true")
    recorded(slurm, job)
    assert sacct(slurm, job, "user,cluster,partition") == ["dev|dev|main"]
    assert {f"{job}.batch", f"{job}.0"} <= set(slurm.sh(f"sacct -nP -j {job} -o jobid").ok().split())
    assert "Cluster Utilization" in slurm.sh("sreport cluster utilization").ok()
    assert "RawShares" in slurm.sh("sshare -a").ok()
    assert "root" in slurm.sh("sshare -a", user="admin").ok()
    assert slurm.sh("sacctmgr -nP show cluster format=cluster").ok() == "dev"


def test_an_ordinary_user_changes_nothing_in_accounting(slurm):
    refused = slurm.sh("sacctmgr -i add account mine")
    assert refused.status != 0
    assert "mine" not in slurm.sh("sacctmgr -nP show account format=account").ok()


def test_jobs_that_ran_while_the_database_was_dead_are_recorded_afterwards(slurm):
    accounting_is_well(slurm)
    before = submit(slurm, "sleep 20")
    slurm.wait("the job runs", lambda: "RUNNING" in slurm.sh(f"squeue -h -j {before} -o %T").stdout, 60)
    with away(slurm, "slurm-database-0"):
        meanwhile = submit(slurm)
        accounting_says(slurm, "mysql_real_connect failed")
    accounting_is_well(slurm)
    recorded(slurm, before)
    recorded(slurm, meanwhile)


@pytest.mark.timeout(1500)
def test_slurmctld_starts_while_slurmdbd_is_dead_and_no_job_is_lost(slurm):
    slurm.sh("rm -f go-on; printf '#!/bin/sh\\nsrun --het-group=0,1 hostname\\n' > both.sh").ok()
    running = submit(slurm, "until test -e go-on; do sleep 0.5; done")
    with futures.ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(slurm.sh, f"srun --dependency=afterany:{running} hostname", seconds=900)
        try:
            pending = "squeue -h -t PENDING -n hostname -o %i"
            slurm.wait("an srun waits", lambda: slurm.sh(pending).stdout.strip(), 60)
            with away(slurm, "slurm-accounting-0"):
                slurm.kubectl("delete", "pod", "slurm-controller-0", "--wait=true", seconds=150).ok()
                slurm.wait("slurmctld is back", lambda: slurm.sh("scontrol ping").stdout.count("UP") == 1, 120)
                meanwhile = submit(slurm)
                slurm.wait("it ran", lambda: slurm.sh(f"squeue -h -j {meanwhile}").stdout.strip() == "", 90)
                assert slurm.sh(f"squeue -h -j {running} -o %T").ok() == "RUNNING"
                both = slurm.sh("sbatch --parsable -n1 -o both.out : -n1 both.sh").ok()
                slurm.sh("touch go-on").ok()
                slurm.wait("a job of two components ran", lambda: not slurm.sh(f"squeue -h -j {both}").ok(), 120)
                assert slurm.sh("sort both.out").ok() == "cpu-0\ncpu-1"
        finally:
            slurm.sh("touch go-on")
    assert waiting.result().ok().startswith("cpu-"), "an srun in the queue outlives slurmctld's pod"
    accounting_is_well(slurm)
    recorded(slurm, running)
    recorded(slurm, meanwhile)
    slurm.wait("both components in sacct", lambda: sacct(slurm, both) == ["COMPLETED"] * 2, 120)
    slurm.sh("rm -f go-on").ok()


@pytest.mark.parametrize("pod", ["slurm-accounting-0", "slurm-database-0"])
def test_a_killed_daemon_comes_back_by_itself(slurm, pod):
    daemon = "slurmdbd" if pod == "slurm-accounting-0" else "mariadbd"
    kill = f"kill -9 $(grep -ls '^Name:.{daemon}' /proc/[0-9]*/status | cut -d/ -f3)"
    job = submit(slurm, "sleep 3")
    slurm.on_pod(pod, kill)
    accounting_is_well(slurm)
    recorded(slurm, job)


def test_the_database_takes_connections_from_slurmdbd_alone(slurm):
    def reaches(pod: str, port: int, host: str) -> bool:
        connect = f"import socket; socket.create_connection(('{host}', {port}), 3)"
        return slurm.kubectl("exec", pod, "--", "python3", "-c", connect).status == 0

    assert reaches("slurm-accounting-0", 3306, "slurm-database")
    assert reaches("slurm-login-0", 6819, "slurm-accounting")
    for pod in ("slurm-controller-0", "slurm-login-0", "cpu-0"):
        assert not reaches(pod, 3306, "slurm-database"), pod


UNKNOWN = """
import socket, struct
with socket.create_connection(("slurm-accounting", 6819), 9) as slurmdbd:
    for _ in range(2):
        slurmdbd.sendall(struct.pack("!IHHH", 6, 1401, 0, 0))  # DBD_FINI
        print("answered" if slurmdbd.recv(4096) else "closed")
"""


def test_slurmdbd_reads_nothing_of_who_has_not_said_who_he_is(slurm):
    """It ended by the second message of such a connection."""
    accounting_is_well(slurm)
    slurmdbd = "grep -ls '^Name:.slurmdbd' /proc/[0-9]*/status"
    before = slurm.on_pod("slurm-accounting-0", slurmdbd).ok()
    assert slurm.sh(f"python3 -c {shlex.quote(UNKNOWN)}").text == "answered\nanswered\n"
    refused = "refused DBD_FINI from uid -1"
    slurm.wait("it is told", lambda: refused in slurm.kubectl("logs", "slurm-accounting-0").ok())
    assert slurm.on_pod("slurm-accounting-0", slurmdbd).ok() == before


def test_no_password_is_in_a_config_map_a_log_or_a_command_line(slurm):
    password = base64.b64decode(slurm.get("secret", "slurm-database-credentials")["data"]["password"]).decode()
    shown = slurm.kubectl("get", "configmaps,pods,statefulsets,events", "-o", "yaml").ok()
    for pod in ("slurm-accounting-0", "slurm-database-0"):
        shown += slurm.kubectl("logs", pod).ok()
        shown += slurm.on_pod(pod, "cat /proc/[0-9]*/cmdline /proc/[0-9]*/environ 2>/dev/null | tr '\\0' '\\n'").stdout
    assert len(shown) > 10_000
    assert password not in shown
    listed = slurm.on_pod("slurm-accounting-0", "stat -c '%U %a' /run/slurmdbd/slurmdbd.conf").ok()
    assert listed == "slurm 600"


def until_it_knows(command: str) -> str:
    """Return a script that runs a slurmdbd until its log says whether it has its database. It then shows the log.

    slurmdbd has 45 s at most.
    """
    words, said = "mysql_real_connect failed|slurmdbd version .* started", "/tmp/said"
    return f"""exec 3<&0; timeout 45 {command} <&3 >{said} 2>&1 & started=$!
        for _ in $(seq 225); do
            if grep -qsE '{words}' {said} || ! kill -0 $started 2>/dev/null; then break; fi; sleep 0.2
        done; kill $started 2>/dev/null; wait $started; cat {said}; rm {said}"""


@pytest.mark.parametrize("golden", sorted(GOLDEN.iterdir()), ids=lambda file: file.stem)
def test_a_real_slurmdbd_takes_the_rendered_file(slurm, golden):
    """It reads every key; then it has no password, or finds no such database."""
    scratch = "/tmp/golden"
    text = golden.read_text().replace("DbdPort=6819", "DbdPort=7819").replace("/run/slurmdbd", scratch)
    text = text.replace("StorageHost=db.invalid", "StorageHost=127.0.0.1").replace(
        "AuthInfo=", "AuthInfo=disable_sack,"
    )
    write = f"mkdir -p {scratch}; umask 077; cat > {scratch}/slurmdbd.conf; cp /run/slurmdbd/*.key {scratch}"
    slurm.kubectl("exec", "-i", "slurm-accounting-0", "--", "sh", "-c", write, text=text).ok()
    variables = f"RUNTIME_DIRECTORY={scratch} SLURM_CONF={scratch}/slurm.conf SLURM_SACK_KEY={scratch}/slurm.key"
    start = until_it_knows(f"env {variables} slurmdbd -D")
    said = slurm.on_pod("slurm-accounting-0", f"{start}; rm -rf {scratch}").text
    assert "mysql_real_connect failed" in said
    assert "unrecognized key" not in said
    assert "fatal" not in said


@pytest.fixture(scope="module")
def another_slurmdbd(slurm):
    """Starts slurmdbd by the pod's own entry, with another file and password, in folders of its own."""

    def start(password: str | bytes, *, host: str = "slurm-database", database: str = "elsewhere"):
        conf = slurmdbd_conf.slurmdbd_conf(stack("dev"))
        for key, value in (("StorageHost", host), ("StorageLoc", database), ("StorageUser", "visitor")):
            conf = "".join(
                f"{key}={value}\n" if line.startswith(f"{key}=") else f"{line}\n" for line in conf.splitlines()
            )
        # The socket for commands in the pod stays the real one's.
        conf = conf.replace("AuthInfo=", "AuthInfo=disable_sack,")
        conf = conf.replace("DbdPort=6819", "DbdPort=7819").replace("/run/slurmdbd", "/tmp/other")
        content = password if isinstance(password, bytes) else password.encode()
        program = f"""
import base64, os, sys
from pathlib import Path
from slurm_node.pod import paths
from slurm_node.roles import accounting
from slurm_node.pod.log import NodeError
other = Path("/tmp/other"); other.mkdir(exist_ok=True)
(other / "password-file").write_bytes(base64.b64decode({base64.b64encode(content).decode()!r}))
(other / "etc").mkdir(exist_ok=True)
(other / "etc" / "slurmdbd.conf").write_bytes(base64.b64decode({base64.b64encode(conf.encode()).decode()!r}))
paths.ETC_ACCOUNTING, paths.ACCOUNTING_RUN = other / "etc", other
accounting.PASSWORD, accounting.SCRIPT = other / "password-file", other / "password"
try:
    sys.exit(accounting.main())
except NodeError as error:
    sys.exit(f"slurm-node: error: {{error}}")
"""
        run = f"cd /tmp; {until_it_knows('python3 -')}; rm -rf /tmp/other"
        return slurm.kubectl("exec", "-i", "slurm-accounting-0", "--", "sh", "-c", run, text=program).text

    yield start
    on_database(slurm, "DROP USER IF EXISTS visitor; DROP DATABASE IF EXISTS elsewhere;")


def make_visitor(slurm, password: str) -> None:
    """A user of the database as its administrator would make him: the server itself hashes the password."""
    quoted = password.replace("\\", "\\\\").replace("'", "\\'")
    sql = (
        "SET NAMES utf8mb4; CREATE DATABASE IF NOT EXISTS elsewhere;"
        f"CREATE OR REPLACE USER visitor IDENTIFIED BY '{quoted}'; GRANT ALL ON elsewhere.* TO visitor;"
    )
    on_database(slurm, sql)


@pytest.mark.parametrize("password", [SPECIAL, EDGES], ids=["special", "edges"])
def test_a_password_with_every_special_character_works(slurm, another_slurmdbd, password):
    make_visitor(slurm, password)
    said = another_slurmdbd(password)
    assert "slurmdbd version" in said, said
    assert " started" in said
    assert on_database(slurm, "SHOW TABLES IN elsewhere LIKE 'acct_table';").strip() == "acct_table"


def test_what_is_wrong_is_in_slurmdbds_own_words(slurm, another_slurmdbd):
    from slurm_operator.decide.cluster.accounting import last_words

    make_visitor(slurm, "right")
    assert "Access denied for user 'visitor'" in last_words(another_slurmdbd("wrong"))
    assert "Unknown server host 'nowhere.slurm.svc.cluster.local'" in last_words(
        another_slurmdbd("right", host="nowhere.slurm.svc.cluster.local")
    )
    refused = last_words(another_slurmdbd("right", database="forbidden"))
    assert "Access denied for user 'visitor'@'%' to database 'forbidden'" in refused
    assert "Slurm has no way to write that" in last_words(another_slurmdbd(b"from a file\n"))


def test_a_wrong_password_is_told_by_the_cluster_and_mended(slurm):
    """The whole way: the program's Secret, slurmdbd's refusal, the operator's words; and back."""
    secret = slurm.get("secret", "slurm-database-credentials")["data"]["password"]
    started = time.monotonic()
    try:
        on_database(slurm, "ALTER USER slurm IDENTIFIED BY 'another'; KILL USER slurm;")
        accounting_says(slurm, "Access denied for user 'slurm'")
        job = submit(slurm)
    finally:
        password = base64.b64decode(secret).decode()
        on_database(slurm, f"ALTER USER slurm IDENTIFIED BY '{password}';")
    accounting_is_well(slurm)
    recorded(slurm, job)
    print(f"told and mended in {time.monotonic() - started:.0f} s")
