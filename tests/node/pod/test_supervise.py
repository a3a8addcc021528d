import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from slurm_node.pod.supervise import LONGEST_BACK_OFF_SECONDS, STEADY_SECONDS, Daemon, next_back_off

from devcluster.machine.bootstrap import CHECKOUT


def test_restarts_slow_down_and_a_steady_daemon_starts_at_once() -> None:
    waits = [0.0]
    for _ in range(8):
        waits.append(next_back_off(waits[-1], ran_seconds=0.1))
    assert waits[1:6] == [1, 2, 4, 8, 16]
    assert waits[-1] == LONGEST_BACK_OFF_SECONDS
    assert next_back_off(waits[-1], ran_seconds=STEADY_SECONDS) == 1


def ticked_until(daemon: Daemon, condition: Callable[[], object], seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        daemon.tick(time.monotonic())
        if condition():
            return
        time.sleep(0.02)  # Between two looks at another process.
    pytest.fail("the condition did not come true")


def test_a_killed_daemon_is_started_again() -> None:
    daemon = Daemon("sleeper", ["sleep", "60"])
    daemon.tick(time.monotonic())
    assert daemon.process
    first = daemon.process.pid
    daemon.process.kill()
    try:
        ticked_until(daemon, lambda: daemon.process is not None and daemon.process.pid != first)
    finally:
        daemon.stop(5)


def test_what_is_said_at_the_first_start_is_not_said_again(tmp_path: Path) -> None:
    said = tmp_path / "said"
    daemon = Daemon("sayer", ["sh", "-c", f'echo "$*" >> {said}', "sh", "always"], at_first=["once"])
    ticked_until(daemon, lambda: said.exists() and said.read_text().count("\n") == 2)
    daemon.stop(5)
    assert said.read_text() == "always once\nalways\n"


def test_a_refused_daemon_is_stopped_and_not_started_again_at_once() -> None:
    daemon = Daemon("sleeper", ["sleep", "60"], refusal=lambda: "no")
    daemon.tick(0.0)
    daemon.tick(1.0)
    assert daemon.process is None
    daemon.tick(LONGEST_BACK_OFF_SECONDS)
    assert daemon.process is None


def test_a_crash_after_a_refusal_that_is_over_costs_a_second() -> None:
    refused = ["no"]
    daemon = Daemon("sleeper", ["sleep", "60"], refusal=lambda: refused[0] if refused else None)
    daemon.tick(0.0)
    daemon.tick(1.0)
    refused.clear()
    now = 1.0 + LONGEST_BACK_OFF_SECONDS
    daemon.tick(now)
    assert daemon.process is not None
    try:
        daemon.process.kill()
        daemon.process.wait()
        daemon.tick(now + 1)
        assert daemon.not_before == now + 2
    finally:
        daemon.stop(5)


PRESSED = """
import os, resource, subprocess
from slurm_node.pod.supervise import Daemon, run

daemon, ticks = Daemon("d", ["sleep", "60"]), []
_, most = resource.getrlimit(resource.RLIMIT_NPROC)

def look():
    ticks.append(daemon.process)
    if len(ticks) == 4:
        resource.setrlimit(resource.RLIMIT_NPROC, (most, most))
    subprocess.run(["true"])
    if daemon.process:
        os.kill(os.getpid(), 15)

if os.geteuid() == 0:
    os.setuid(65533)
resource.setrlimit(resource.RLIMIT_NPROC, (0, most))
raise SystemExit(run([daemon], look))
"""
"""An ordinary user's limit of processes stands for that of the pod's control group, which a job has used up."""


def test_a_pod_whose_jobs_have_all_processes_goes_on_and_recovers() -> None:
    source = CHECKOUT / "images/slurm"
    environment = {**os.environ, "PYTHONPATH": str(source), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [sys.executable, "-c", PRESSED], capture_output=True, text=True, env=environment, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    said = [line.removeprefix("slurm-node: ") for line in done.stderr.splitlines()]
    unavailable = "[Errno 11] Resource temporarily unavailable"
    assert said[:2] == [f"d can't be started: {unavailable}; trying again in 1 s", f"{unavailable}; trying again"]
    assert any(line.startswith("started d") for line in said)


def test_the_end_of_the_pod_reaches_every_daemon(tmp_path: Path) -> None:
    mark = tmp_path / "ended"
    inner = f"trap 'echo x > {mark}; exit 0' TERM; echo up; while :; do sleep 0.05; done"
    program = (
        f"from slurm_node.pod.supervise import *; import sys; sys.exit(run([Daemon('d', ['sh', '-c', {inner!r}])]))"
    )
    source = CHECKOUT / "images/slurm"
    with subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": str(source)}
    ) as process:
        assert process.stdout
        assert process.stdout.readline() == b"up\n"
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
    assert mark.exists()
