"""The scripts that Slurm starts, as Slurm starts them."""

import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from node_health import node
from node_health.check import Context

from devcluster.machine.bootstrap import CHECKOUT

BIN = CHECKOUT / "health/bin"


def _until(happened: Callable[[], bool]) -> None:
    """Wait for another process."""
    deadline = time.monotonic() + 60
    while not happened():
        assert time.monotonic() < deadline
        time.sleep(0.05)  # Between looks at another process, which has no event to wait for.


def script(name: str, tmp_path: Path) -> Path:
    """A script that looks into a test's folder instead of the node's own."""
    text = (BIN / name).read_text()
    for place in ("/run/slurm-node", "/usr/sbin", "/etc/slurm-scripts"):
        text = text.replace(place, str(tmp_path))
    copy = tmp_path / name
    copy.write_text(text)
    copy.chmod(0o755)
    return copy


def test_the_prolog_refuses_a_job_while_a_check_or_the_jail_fails_and_says_why(tmp_path: Path) -> None:
    prolog = script("node-health-prolog", tmp_path)
    assert subprocess.run([prolog], check=False).returncode == 0
    whys = {"plugin-refused": "another Slurm's plugin", "unfit": "/tmp is full", "broken": "the jail is not mounted"}
    for name, why in whys.items():
        (tmp_path / name).write_text(f"{why}\n")
        refused = subprocess.run([prolog], capture_output=True, text=True, check=False)
        assert (refused.returncode, refused.stderr) == (1, f"this node can't run your job: {why}\n")
        assert (tmp_path / "prolog-refused").read_text() == f"{why}\n"


def test_the_prolog_notes_that_it_ran_until_the_epilog(tmp_path: Path) -> None:
    """slurm_node/slurm/cred_state.py reads it."""
    notes = tmp_path / "prologs"
    notes.mkdir()
    job = {**os.environ, "SLURM_JOB_ID": "7", "SLURM_JOB_SLUID": "s0000000000001"}
    (tmp_path / "unfit").write_text("/tmp is full\n")
    subprocess.run([script("node-health-prolog", tmp_path)], env=job, stderr=subprocess.DEVNULL, check=False)
    assert not list(notes.iterdir()), "a job that was refused had no prolog"
    (tmp_path / "unfit").unlink()
    subprocess.run([script("node-health-prolog", tmp_path)], env=job, check=True)
    assert (notes / "7").read_text() == "s0000000000001\n"
    (tmp_path / "node-health").symlink_to("/bin/true")
    subprocess.run([script("node-health-epilog", tmp_path)], env=job, check=True)
    assert not list(notes.iterdir())


def test_the_check_after_a_job_outlives_the_epilog_whose_process_group_slurm_kills(tmp_path: Path) -> None:
    done = tmp_path / "done"
    check = tmp_path / "node-health"
    check.write_text(f"#!/bin/sh\nsleep 0.5\necho $1 > {done}.part && mv {done}.part {done}\n")
    check.chmod(0o755)
    epilog = subprocess.Popen([script("node-health-epilog", tmp_path)], start_new_session=True, stdout=subprocess.PIPE)
    assert epilog.stdout
    assert epilog.stdout.read() == b""  # Slurm reads until nobody holds its output any more.
    assert epilog.wait() == 0
    with pytest.raises(ProcessLookupError):
        os.killpg(epilog.pid, signal.SIGKILL)
    _until(done.exists)
    assert done.read_text() == "--record\n"


@pytest.mark.parametrize(
    ("job", "waits"),
    [
        ({"SLURM_JOB_GPUS": "3", "SLURM_JOB_EXIT_CODE": "256"}, True),
        ({"SLURM_JOB_GPUS": "3", "SLURM_JOB_EXIT_CODE": "0"}, False),
        ({"SLURM_JOB_EXIT_CODE": "256"}, False),
    ],
    ids=["a job with a GPU failed", "it ended well", "without a GPU"],
)
def test_the_epilog_fails_where_a_failed_job_met_a_bad_gpu(tmp_path: Path, job: dict[str, str], waits: bool) -> None:
    """The check needs a moment to find the GPU bad."""
    check, go = tmp_path / "node-health", tmp_path / "go"
    os.mkfifo(go)
    check.write_text(f"#!/bin/sh\nread -r _ <{go}\necho the GPU >{tmp_path}/faulty\n")
    check.chmod(0o755)
    epilog = subprocess.Popen([script("node-health-epilog", tmp_path)], env={**os.environ, **job})
    if not waits:
        assert epilog.wait() == 0
    go.write_text("\n")
    assert epilog.wait() == (1 if waits else 0)
    _until((tmp_path / "faulty").exists)
    assert (tmp_path / "prolog-refused").exists() == waits
    check.write_text("#!/bin/sh\n")
    again = subprocess.run([script("node-health-epilog", tmp_path)], env={**os.environ}, check=False)
    assert again.returncode == 1, "the last run has found it"
    assert (tmp_path / "prolog-refused").read_text() == "the GPU\n"


def test_jobs_that_end_at_once_share_a_check_that_begins_after_the_last_of_them(tmp_path: Path) -> None:
    begun, held = tmp_path / "begun", tmp_path / "held"
    check = tmp_path / "node-health"
    check.write_text(f"#!/bin/sh\necho x >>{begun}\nwhile [ -e {held} ]; do sleep 0.05; done\n")
    check.chmod(0o755)
    held.touch()
    text = script("node-health-epilog", tmp_path).read_text()
    assert "exec sleep 10\n" in text
    epilog = tmp_path / "node-health-epilog"
    epilog.write_text(text.replace("exec sleep 10\n", "exit\n"))
    subprocess.run([epilog], check=True)
    _until(lambda: begun.exists())
    for _ in range(20):
        subprocess.run([epilog], check=True)
    # One runs the check, and one waits; an epilog does not wait until the others have given way.
    of_epilogs = ["pgrep", "--count", "--full", f"exec 8>{tmp_path}"]
    _until(lambda: subprocess.run(of_epilogs, capture_output=True, text=True, check=False).stdout == "2\n")
    assert begun.read_text() == "x\n"
    held.unlink()
    _until(lambda: begun.read_text() == "x\nx\n")
    # Nobody is left who could begin a third.
    subprocess.run(["flock", tmp_path / "epilog-checks.lock", "true"], check=True, timeout=60)
    assert begun.read_text() == "x\nx\n"


def test_the_first_checks_are_those_of_the_start_and_later_ones_are_periodic(tmp_path: Path) -> None:
    check = tmp_path / "node-health"
    check.write_text("#!/bin/sh\necho $*\n")
    check.chmod(0o755)
    program = script("node-health-program", tmp_path)
    said = [subprocess.run([program], capture_output=True, text=True, check=True).stdout]
    (tmp_path / node.RESULTS.name).touch()
    said.append(subprocess.run([program], capture_output=True, text=True, check=True).stdout)
    assert said == [f"--record --context {context}\n" for context in (Context.START, Context.PERIODIC)]


def test_python_starts_without_a_say_of_the_environment(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("raise SystemExit(7)")
    first = (BIN / "node-health").read_text().splitlines()[0]
    assert first == "#!/usr/bin/python3 -IS"
    ran = subprocess.run(
        [*first.removeprefix("#!").split(), "-c", "print(1)"],
        env={"PYTHONPATH": str(tmp_path), "PYTHONSTARTUP": str(tmp_path / "sitecustomize.py")},
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ran.stdout == "1\n"


def put_site_scripts(tmp_path: Path, kind: str, status: int = 0) -> Path:
    """Has the site declare scripts of a kind; returned is the file that tells what ran."""
    ran = tmp_path / "ran"
    (tmp_path / kind).write_text("scratch 30\n")
    for name, ends in (("site-scripts", status), ("node-health", 0)):
        program = tmp_path / name
        program.write_text(f'#!/bin/sh\necho "{name} $1" >> {ran}\nexit {ends}\n')
        program.chmod(0o755)
    return ran


@pytest.mark.parametrize("status", [0, 1])
def test_the_sites_prologs_come_last_and_one_that_fails_refuses_the_job(tmp_path: Path, status: int) -> None:
    ran = put_site_scripts(tmp_path, "prolog", status)
    (tmp_path / "prologs").mkdir()
    job = {**os.environ, "SLURM_JOB_ID": "7", "SLURM_JOB_SLUID": "s0000000000001"}
    prolog = script("node-health-prolog", tmp_path)
    assert subprocess.run([prolog], env=job, check=False).returncode == status
    assert ran.read_text() == "site-scripts prolog\n"
    assert (tmp_path / "prologs/7").exists() == (status == 0), "a job that was refused had no prolog"
    assert not (tmp_path / "prolog-refused").exists(), "the entry would lift the drain"
    ran.unlink()
    (tmp_path / "broken").write_text("the jail is not mounted\n")
    assert subprocess.run([prolog], env=job, stderr=subprocess.DEVNULL, check=False).returncode == 1
    assert not ran.exists(), "they run where a job may run"


@pytest.mark.parametrize("status", [0, 1])
def test_the_sites_epilogs_come_last_and_one_that_fails_fails_the_epilog(tmp_path: Path, status: int) -> None:
    ran = put_site_scripts(tmp_path, "epilog", status)
    assert subprocess.run([script("node-health-epilog", tmp_path)], check=False).returncode == status
    assert "site-scripts epilog\n" in ran.read_text()


def test_the_sites_health_scripts_run_before_the_checks_which_read_their_result(tmp_path: Path) -> None:
    ran = put_site_scripts(tmp_path, "healthCheck", status=1)
    assert subprocess.run([script("node-health-program", tmp_path)], check=False).returncode == 0
    assert ran.read_text() == "site-scripts healthCheck\nnode-health --record\n"
