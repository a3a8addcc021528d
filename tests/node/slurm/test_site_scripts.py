"""The site's scripts, as processes: their order, time, environment and failures, and what the node makes of these."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from slurm_node.jail import tree_plan
from slurm_node.pod import paths
from slurm_node.pod.settings import Jail
from slurm_node.slurm import site_scripts

from contract import paths as shared
from contract.site_scripts import Kind, Script, file_of, list_text, parse_list
from devcluster.machine.bootstrap import CHECKOUT

ROOTFS = CHECKOUT / "images/slurm/rootfs"
DRAINED = "NodeName=cpu-0 State=IDLE+DRAIN Reason=a person's [alice@2026-11-25T20:00:00]"
IDLE = "NodeName=cpu-0 State=IDLE"

Put = Callable[..., None]


@pytest.fixture
def put(tmp_path: Path) -> Put:
    """Writes the scripts of a kind, as kubelet does: name → text."""

    def write(kind: Kind, seconds: int = 20, **texts: str) -> None:
        (tmp_path / kind).write_text(list_text([Script(name, seconds) for name in texts]))
        for name, text in texts.items():
            file = tmp_path / file_of(kind, name)
            file.write_text(f"#!/bin/sh\n{text}\n")
            file.chmod(0o555)

    return write


RUNNER = """
import sys
from pathlib import Path
from slurm_node.slurm import site_scripts
from contract.site_scripts import Kind
failure = site_scripts.run_all(Kind.PROLOG, Path(sys.argv[1]))
print(failure.sentence if failure else "well")
"""


@contextmanager
def slurms_prolog(folder: Path) -> Iterator[tuple[int, str]]:
    """Runs the prologs in a process group, as Slurm does; yields the group and what was told, and ends the group."""
    slurms = subprocess.Popen(
        [sys.executable, "-c", RUNNER, str(folder)],
        env={**os.environ, "PYTHONPATH": f"{CHECKOUT}/images/slurm:{CHECKOUT}:{CHECKOUT}/health"},
        stdout=subprocess.PIPE,
        text=True,
        process_group=0,
    )
    try:
        assert slurms.stdout
        told = slurms.stdout.read()
        assert slurms.wait(30) == 0
        yield slurms.pid, told.strip()
    finally:
        with suppress(ProcessLookupError):
            os.killpg(slurms.pid, signal.SIGKILL)


def test_a_list_reads_as_it_was_written() -> None:
    scripts = [Script("b", 3), Script("a", 1)]
    assert parse_list(list_text(scripts)) == scripts


def test_scripts_run_in_their_order_with_slurms_variables(put: Put, tmp_path: Path) -> None:
    told = tmp_path / "told"
    put(Kind.PROLOG, z=f'echo "z $SLURM_JOB_ID" >> {told}', a=f'echo "a $SLURM_JOB_ID" >> {told}')
    assert site_scripts.run_all(Kind.PROLOG, tmp_path, {"SLURM_JOB_ID": "7"}) is None
    assert told.read_text() == "z 7\na 7\n"


def test_the_first_failure_ends_the_run_and_is_told_with_its_last_words(put: Put, tmp_path: Path) -> None:
    after = tmp_path / "after"
    put(Kind.EPILOG, good="echo well", bad="echo working; echo 'no \"space\"' >&2; echo; exit 3", then=f"touch {after}")
    failure = site_scripts.run_all(Kind.EPILOG, tmp_path, {})
    assert failure
    assert failure.sentence == "bad ended with status 3: no 'space'"
    assert not after.exists()


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("exit 1", "one ended with status 1"),
        ("kill -TERM $$", "one was ended by signal 15"),
        ("echo slowly; exec sleep 1000", "one took longer than 1 s: slowly"),
        # It says no more, and goes on.
        ("echo closed; exec >&- 2>&-; exec sleep 1000", "one took longer than 1 s: closed"),
        # The child holds the output, as a daemon would.
        ("sleep 1000 & echo started; exit 2", "one ended with status 2: started"),
        ("while :; do echo much; done", "one took longer than 1 s: "),
    ],
)
def test_each_way_to_fail_is_told(put: Put, tmp_path: Path, text: str, sentence: str) -> None:
    put(Kind.PROLOG, seconds=1 if "longer" in sentence else 20, one=text)
    begun = time.monotonic()
    with slurms_prolog(tmp_path) as (_, told):
        assert told.startswith(sentence)
    assert time.monotonic() - begun < 20, "it waited for more than the script"


def test_a_script_that_cannot_start_has_failed(put: Put, tmp_path: Path) -> None:
    put(Kind.PROLOG, lost="")
    (tmp_path / "prolog.lost").unlink()
    failure = site_scripts.run_all(Kind.PROLOG, tmp_path, {})
    assert failure
    assert failure.sentence == "lost did not start: No such file or directory"


def test_a_pod_that_has_not_got_its_scripts_yet_runs_none(tmp_path: Path) -> None:
    assert site_scripts.run_all(Kind.PROLOG, tmp_path, {}) is None


def test_scripts_find_slurms_commands_where_slurm_sets_no_path(put: Put, tmp_path: Path) -> None:
    told = tmp_path / "told"
    put(Kind.PROLOG, one=f'echo "$PATH" > {told}')
    assert site_scripts.run_all(Kind.PROLOG, tmp_path, {}) is None
    assert told.read_text().startswith("/opt/slurm/bin:")


def test_what_a_script_leaves_ends_with_slurms_own_script(put: Put, tmp_path: Path) -> None:
    """Slurm kills the process group of its script: a child, also one of a script that was killed, is in that group."""
    put(Kind.PROLOG, seconds=1, one=f"sleep 1000 & echo $! > {tmp_path}/child; exec sleep 1000")
    with slurms_prolog(tmp_path) as (group, _):
        assert os.getpgid(int((tmp_path / "child").read_text())) == group


class Slurm:
    """scontrol, with a node's record."""

    def __init__(self, record: str | None) -> None:
        self.record = record
        self.changes: list[tuple[str, ...]] = []

    def __call__(self, *arguments: str) -> str | None:
        if arguments[0] != "-o":
            self.changes.append(arguments)
        return self.record


def test_a_failed_prolog_drains_the_node_with_its_sentence() -> None:
    slurm = Slurm(IDLE)
    site_scripts.drain("site prolog scratch ended with status 3: no space", "cpu-0", slurm)
    reason = "reason=site prolog scratch ended with status 3: no space"
    assert slurm.changes == [("update", "nodename=cpu-0", "state=drain", reason)]


@pytest.mark.parametrize("record", [DRAINED, None])
def test_nobody_elses_drain_is_written_over(record: str | None) -> None:
    slurm = Slurm(record)
    site_scripts.drain("site epilog scratch ended with status 3", "cpu-0", slurm)
    assert slurm.changes == []


@pytest.mark.parametrize(
    ("kind", "drains", "notifies"),
    [
        (Kind.PROLOG, True, True),
        (Kind.EPILOG, True, False),
        (Kind.PROLOG_SLURMCTLD, False, False),
        (Kind.EPILOG_SLURMCTLD, False, False),
    ],
)
def test_slurm_hears_of_a_failure_by_the_exit_status(
    kind: Kind,
    drains: bool,
    notifies: bool,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    drained, notified, logged = list[str](), list[str](), list[str]()
    monkeypatch.setenv("SLURMD_NODENAME", "cpu-0")
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    monkeypatch.setattr(site_scripts, "drain", lambda reason, node: drained.append(f"{node}: {reason}"))
    monkeypatch.setattr(site_scripts, "run_scontrol", lambda *words: notified.append(" ".join(words)))
    monkeypatch.setattr(site_scripts, "tell_log", logged.append)
    monkeypatch.setattr(site_scripts, "run_all", lambda _: None)
    assert site_scripts.main(kind.value) == 0
    monkeypatch.setattr(site_scripts, "run_all", lambda _: site_scripts.Failure("a", "ended with status 3", "why"))
    assert site_scripts.main(kind.value) == 1
    sentence = f"site {kind} a ended with status 3: why"
    assert capsys.readouterr().err == f"{sentence}\n"
    assert drained == ([f"cpu-0: {sentence}"] if drains else [])
    assert logged == ([] if drains else [sentence]), "slurmd logs it by itself"
    assert notified == ([f"notify 7 this node can't run your job: {sentence}"] if notifies else [])


def test_what_slurmctld_would_drop_is_in_the_pods_log(tmp_path: Path) -> None:
    log = tmp_path / "log"
    site_scripts.tell_log("nobody reads it", log)
    log.write_text("slurmctld: running\n")
    site_scripts.tell_log("site epilogSlurmctld bill ended with status 3", log)
    assert log.read_text() == "slurmctld: running\nsite epilogSlurmctld bill ended with status 3\n"


def test_a_health_script_that_fails_again_keeps_its_first_words(tmp_path: Path) -> None:
    """Each new reason would begin the drain anew."""
    file = tmp_path / "site-health"
    fail = site_scripts.Failure
    for failure, told in (
        (fail("disk", "ended with status 1", "81 percent"), "disk ended with status 1: 81 percent"),
        (fail("disk", "ended with status 1", "82 percent"), "disk ended with status 1: 81 percent"),
        (fail("disk", "ended with status 2", "83 percent"), "disk ended with status 2: 83 percent"),
        (None, ""),
        (fail("disk", "ended with status 2", "84 percent"), "disk ended with status 2: 84 percent"),
    ):
        site_scripts.note_health(failure, file)
        assert file.read_text() == told


def test_a_failed_health_script_is_no_failure_of_slurms_program(monkeypatch: pytest.MonkeyPatch) -> None:
    noted = list[site_scripts.Failure | None]()
    failure = site_scripts.Failure("a", "ended with status 3")
    monkeypatch.setattr(site_scripts, "run_all", lambda _: failure)
    monkeypatch.setattr(site_scripts, "note_health", noted.append)
    assert site_scripts.main("healthCheck") == 0
    assert noted == [failure]


def in_a_task(kind: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Starts what slurmstepd would start in a task, with the folder in place of the jail's."""
    starter = (ROOTFS / shared.PREFIX.lstrip("/") / f"libexec/{kind}").read_text()
    scripts = (ROOTFS / shared.PREFIX.lstrip("/") / "libexec/task_scripts").read_text()
    assert f"folder={shared.JAIL_TASK_SCRIPTS}\n" in scripts
    for name, text in ((kind, starter), ("task_scripts", scripts)):
        copy = folder / name
        copy.write_text(
            text.replace(shared.JAIL_TASK_SCRIPTS, str(folder)).replace(f"{shared.PREFIX}/libexec", str(folder))
        )
        copy.chmod(0o755)
    return subprocess.run(
        [folder / kind], env={"SLURM_PROCID": "3"}, capture_output=True, text=True, check=False, timeout=60
    )


def test_task_prologs_run_in_their_order_and_slurmstepd_reads_what_they_print(put: Put, tmp_path: Path) -> None:
    put(Kind.TASK_PROLOG, z="echo export Z=$SLURM_PROCID; cat", a="echo unset A")
    ran = in_a_task("task_prolog", tmp_path)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "export Z=3\nunset A\n", "")


def test_a_failed_task_prolog_stops_the_task_and_tells_its_user(put: Put, tmp_path: Path) -> None:
    put(Kind.TASK_PROLOG, bad="exit 3", then="echo print then")
    ran = in_a_task("task_prolog", tmp_path)
    assert (ran.returncode, ran.stdout) == (3, "print this cluster's task prolog bad ended with status 3\n")


def test_a_task_prolog_has_a_time_limit(put: Put, tmp_path: Path) -> None:
    put(Kind.TASK_PROLOG, seconds=1, slow="exec sleep 1000")
    ran = in_a_task("task_prolog", tmp_path)
    assert ran.returncode != 0
    assert ran.stdout == "print this cluster's task prolog slow took longer than 1 s, or was killed\n"


def test_a_failed_task_epilog_is_told_on_the_tasks_stderr(put: Put, tmp_path: Path) -> None:
    put(Kind.TASK_EPILOG, good="echo well", bad="exit 3")
    ran = in_a_task("task_epilog", tmp_path)
    assert (ran.returncode, ran.stdout) == (3, "well\n")
    assert ran.stderr == "this cluster's task epilog bad ended with status 3\n"


@pytest.mark.parametrize("kind", ["task_prolog", "task_epilog"])
def test_a_task_runs_on_a_node_that_has_not_got_its_scripts_yet(kind: str, tmp_path: Path) -> None:
    ran = in_a_task(kind, tmp_path)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")


def test_jobs_get_their_scripts_below_the_part_of_run_that_they_keep() -> None:
    (shown,) = [
        mount
        for mount in tree_plan.plan(Jail("r1"), task_scripts=paths.ETC_TASK_SCRIPTS)
        if mount.source == shared.ETC_TASK_SCRIPTS
    ]
    assert (shown.kind, shown.target) == (tree_plan.Kind.READ_ONLY, shared.JAIL_TASK_SCRIPTS)
    assert shown.target.startswith(f"{shared.JAIL_NODE_FILES}/")
    assert shared.ETC_TASK_SCRIPTS not in {mount.source for mount in tree_plan.plan(Jail("r1"))}, "on a login node"


def test_slurm_finds_the_programs_that_slurm_conf_names() -> None:
    for path in (
        *(shared.SITE_SCRIPTS, shared.PROLOG_SLURMCTLD, shared.EPILOG_SLURMCTLD),
        *(shared.TASK_PROLOG, shared.TASK_EPILOG),
    ):
        file = ROOTFS / path.lstrip("/")
        assert os.access(file, os.X_OK), path
        assert file.read_text().startswith("#!")
    for path, kind in (
        (shared.PROLOG_SLURMCTLD, Kind.PROLOG_SLURMCTLD),
        (shared.EPILOG_SLURMCTLD, Kind.EPILOG_SLURMCTLD),
    ):
        assert f"exec {shared.SITE_SCRIPTS} {kind}\n" in (ROOTFS / path.lstrip("/")).read_text()
    for path, kind in ((shared.TASK_PROLOG, Kind.TASK_PROLOG), (shared.TASK_EPILOG, Kind.TASK_EPILOG)):
        assert f"exec {shared.PREFIX}/libexec/task_scripts {kind}\n" in (ROOTFS / path.lstrip("/")).read_text()
    for name, kind in (("prolog", Kind.PROLOG), ("epilog", Kind.EPILOG), ("program", Kind.HEALTH_CHECK)):
        text = (CHECKOUT / f"health/bin/node-health-{name}").read_text()
        assert f"[ ! -e {shared.ETC_SCRIPTS}/{kind} ] || " in text
        assert f"{shared.SITE_SCRIPTS} {kind}" in text
