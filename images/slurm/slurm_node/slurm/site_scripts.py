"""Runs the site's scripts of one kind, in their order, each with a time limit (docs/scripts.md).

The first failure ends the run. All stay in the process group that Slurm makes for each of its scripts. So what a script
leaves behind ends with Slurm's script.
"""

import os
import select
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import node_health.node

from contract.site_scripts import END_SECONDS, Kind, Script, file_of, parse_list
from slurm_node.conditions.drains import parse_record, plain, run_scontrol
from slurm_node.pod import paths

SEARCH_PATH = f"{paths.PREFIX}/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""PATH of the scripts: Slurm sets none."""
PART_BYTES = 4096
"""Most that is kept of a script's output, from its end."""

CONTAINER_LOG = Path("/proc/1/fd/2")
Scontrol = Callable[..., str | None]


@dataclass(frozen=True, slots=True)
class Failure:
    """A script that failed.

    Attributes:
        name: its name.
        how: what became of it, such as "ended with status 3".
        said: the last line that it wrote; empty if it wrote none.
    """

    name: str
    how: str
    said: str = ""

    @property
    def sentence(self) -> str:
        """One line for people."""
        return plain(f"{self.name} {self.how}: {self.said}" if self.said else f"{self.name} {self.how}")


def main(kind: str) -> int:
    """Runs the scripts of a kind, and returns the exit status for Slurm."""
    failure = run_all(Kind(kind))
    if kind == Kind.HEALTH_CHECK:
        note_health(failure)
        return 0
    if failure is None:
        return 0
    sentence = f"site {Kind(kind)} {failure.sentence}"
    print(sentence, file=sys.stderr)
    if kind in (Kind.PROLOG_SLURMCTLD, Kind.EPILOG_SLURMCTLD):
        tell_log(sentence)
    if kind in (Kind.PROLOG, Kind.EPILOG):
        drain(sentence, os.environ.get("SLURMD_NODENAME") or socket.gethostname())
    if kind == Kind.PROLOG:
        # Without this a waiting srun would not hear of it.
        run_scontrol("notify", os.environ.get("SLURM_JOB_ID", ""), f"this node can't run your job: {sentence}")
    return 1


def run_all(
    kind: Kind, folder: Path = paths.ETC_SCRIPTS, environment: Mapping[str, str] = os.environ
) -> Failure | None:
    """Runs the scripts of a kind until one fails, and returns that failure.

    Args:
        kind: which of them.
        folder: where the list and the scripts are. Without a list there are none.
        environment: Slurm's variables, which each script gets.
    """
    try:
        scripts = parse_list((folder / kind).read_text())
    except FileNotFoundError:
        return None
    failures = (run(script, folder / file_of(kind, script.name), environment) for script in scripts)
    return next((failure for failure in failures if failure), None)


def run(script: Script, file: Path, environment: Mapping[str, str]) -> Failure | None:
    """Runs a script and returns how it failed; None if it ended with status 0 in its time."""
    try:
        process = subprocess.Popen(
            [file],
            env={"PATH": SEARCH_PATH, **environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
    except OSError as error:
        return Failure(script.name, f"did not start: {error.strerror}")
    said = _listen(process, script.seconds)
    status = process.poll()
    if status is None:
        process.kill()
        # A process that waits for storage in the kernel can't be killed.
        with suppress(subprocess.TimeoutExpired):
            process.wait(END_SECONDS)
    if process.stdout:
        process.stdout.close()
    how = _how(status, script.seconds)
    lines = said.decode(errors="replace").split("\n")
    last = next((line for line in reversed(lines) if line.strip()), "")
    return Failure(script.name, how, last) if how else None


def _how(status: int | None, seconds: int) -> str:
    """Returns what became of a script, in words; empty if it is well."""
    if status is None:
        return f"took longer than {seconds} s"
    return "" if status == 0 else f"ended with status {status}" if status > 0 else f"was ended by signal {-status}"


def _listen(process: subprocess.Popen[bytes], seconds: float) -> bytes:
    """Returns the last part of a process's output, once the process has ended or its time is over.

    It waits for the process alone: what that started may keep the output open.
    """
    assert process.stdout
    output, ended = process.stdout.fileno(), os.pidfd_open(process.pid)
    waits, said = [output, ended], b""
    deadline = time.monotonic() + seconds
    try:
        while (left := deadline - time.monotonic()) > 0:
            ready = select.select(waits, [], [], left)[0]
            if output in ready:
                part = os.read(output, PART_BYTES)
                said = (said + part)[-PART_BYTES:]
                if not part:
                    waits.remove(output)
            elif ended in ready:
                break
    finally:
        os.close(ended)
    return said


def note_health(failure: Failure | None, file: Path = paths.SITE_HEALTH) -> None:
    """Leaves the result of the health scripts for the check that reads it.

    A script that fails again in the same way keeps its first words: others would begin its drain anew.
    """
    if failure and file.exists() and file.read_text().partition(": ")[0] == f"{failure.name} {failure.how}":
        return
    node_health.node.put(file, failure.sentence if failure else "")


def tell_log(sentence: str, log: Path = CONTAINER_LOG) -> None:
    """Writes one line to the pod's log: slurmctld drops what its scripts print."""
    # Non-blocking: a log that nobody reads must not hold up a job.
    how = os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC | os.O_NOCTTY | os.O_NONBLOCK
    with suppress(OSError), os.fdopen(os.open(log, how), "w") as lines:
        lines.write(f"{sentence}\n")


def drain(reason: str, node_name: str, scontrol: Scontrol = run_scontrol) -> None:
    """Drains the node before Slurm does so by itself, with a reason that says less. Another drain stays as it is."""
    printed = scontrol("-o", "show", "node", node_name)
    if printed is not None and not parse_record(printed).drained:
        scontrol("update", f"nodename={node_name}", "state=drain", f"reason={plain(reason)}")
