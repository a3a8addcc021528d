"""Tells since when jobs use no CPU, or keep no heartbeat, where a partition asks for it (`partitions[].hangs`).

A job that writes uses CPU, too. What a quiet job means is decided where all of its nodes are known: by the operator.
"""

import json
import os
import pwd
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from contract import paths, reasons
from contract.node_notes import QUIET
from node_health import node, notes
from node_health.check import WITHOUT_JOBS, Check, DoesNotApplyError, Machine
from node_health.sources import jobs
from node_health.sources.jobs import Use
from node_health.verdict import Finding, Result, Verdict, passes, warns

BUSY = 0.001
"""Share of one CPU. A job that uses more is at work: an idle shell uses none, and a runtime's timers less."""
TICK_SECONDS = 0.01
LEAST_SECONDS = 10.0
"""Two looks in a shorter time count as one."""
HEARTBEAT = ".slurm-heartbeat-{}"
"""A job's heartbeat in its user's home, by the job's id. Where it exists, its age counts in place of CPU time."""
MARKS = node.COUNTERS / "quiet-jobs.json"


@dataclass(frozen=True, slots=True)
class Mark:
    """A job at a look.

    Attributes:
        at: when, in seconds since boot.
        cpu: CPU time of its processes here, in seconds.
        active: when it was at work last, in seconds since boot.
        since: the same in seconds since the epoch.
    """

    at: float
    cpu: float
    active: float
    since: float


@dataclass(frozen=True, slots=True)
class Quiet:
    """Jobs that run here, and since when each is quiet: for how many seconds, and since the epoch."""

    seconds: Mapping[int, tuple[float, float]]


def look(machine: Machine) -> Quiet:
    """Compares CPU times with those of an earlier run, and looks for heartbeats."""
    if not machine.declared.hangs_after:
        raise DoesNotApplyError("no partition of this node declares hangs")
    used = machine.once(jobs.look).used
    file, now = machine.path(MARKS), time.clock_gettime(time.CLOCK_BOOTTIME)
    marks = advanced(_read(file, now), used, now, time.time())
    node.put(file, json.dumps({job: [mark.at, mark.cpu, mark.active, mark.since] for job, mark in marks.items()}))
    quiet = {job: (now - mark.active, mark.since) for job, mark in marks.items()}
    return Quiet(quiet | heartbeats(machine, used, time.time()))


def advanced(marks: Mapping[int, Mark], used: Mapping[int, Use], now: float, clock: float) -> dict[int, Mark]:
    """Returns the marks after a look.

    Args:
        marks: those before.
        used: what the jobs that run here have used.
        now: seconds since boot.
        clock: seconds since the epoch.
    """
    after = {}
    for job, use in used.items():
        mark = marks.get(job)
        if mark is None:
            after[job] = Mark(now, use.cpu, now, clock)
            continue
        passed, worked = now - mark.at, use.cpu - mark.cpu
        if passed < LEAST_SECONDS:
            after[job] = mark
        elif worked < 0 or worked > max(TICK_SECONDS, BUSY * passed) + TICK_SECONDS / 2:
            after[job] = Mark(now, use.cpu, now, clock)  # Less time than before: a process has ended.
        else:
            after[job] = Mark(now, use.cpu, mark.active, mark.since)
    return after


def heartbeats(machine: Machine, used: Mapping[int, Use], clock: float) -> dict[int, tuple[float, float]]:
    """Returns the ages of heartbeats, as `Quiet` has them, of the jobs that keep one."""
    tree = machine.path(paths.JAIL_TREE)
    beats = {job: _beat(tree, use.user, HEARTBEAT.format(job)) for job, use in used.items()}
    # Users may give a file any time, also one that no date has.
    return {job: (max(0.0, clock - beat), max(0.0, beat)) for job, beat in beats.items() if beat is not None}


def judge(seen: Quiet, machine: Machine) -> Finding:
    """WARNING when there are some; its evidence is what `read` reads."""
    after = machine.declared.hangs_after
    quiet = {job: _utc(since) for job, (seconds, since) in seen.seconds.items() if seconds >= after}
    if not quiet:
        return passes(f"{len(seen.seconds)} jobs run here, and none is quiet")
    return warns(notes.quiet(quiet).removeprefix(QUIET))


def read(result: Result | None) -> dict[int, str]:
    """Returns the quiet jobs of this check's result, and since when each is: as `date -u +%FT%TZ`."""
    if result is None or result.finding.verdict is not Verdict.WARNING:
        return {}
    return {int(job): since for job, since in re.findall(r"(\d+) since ([\dT:-]+Z)", result.finding.evidence)}


def _home(user: int) -> str:
    """Returns a user's home, empty for an unknown one.

    The pod's name service knows the jail's users. It reads their file only if that is a plain one of no great size.
    """
    try:
        return pwd.getpwuid(user).pw_dir
    except KeyError:
        return ""


def _beat(tree: Path, user: int, name: str) -> float | None:
    """Returns when a file of a user's home was changed; None without it, and where a part of its path is a link.

    Root in a job may change the tree. An absolute link in it would lead to the pod's own files here. The user looks,
    since storage of homes may refuse root.
    """
    parts = [part for part in _home(user).split("/") if part]
    if not parts or ".." in parts:
        return None
    opened = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        with ExitStack() as folders:
            folder = os.open(tree, opened)
            folders.callback(os.close, folder)
            folders.enter_context(_effective(user))
            for part in parts:
                folder = os.open(part, opened, dir_fd=folder)
                folders.callback(os.close, folder)
            return os.stat(name, dir_fd=folder, follow_symlinks=False).st_mtime
    except OSError:
        return None


@contextmanager
def _effective(user: int) -> Iterator[None]:
    """Looks at files with a user's rights. The real id stays, so that no process of the user reaches this one."""
    before = os.geteuid()
    if before == 0:
        os.seteuid(user)
    try:
        yield
    finally:
        os.seteuid(before)


def _read(file: Path, now: float) -> dict[int, Mark]:
    """Returns the marks of this boot; none from a file that can't be read."""
    try:
        said = {int(job): Mark(*map(float, row)) for job, row in json.loads(file.read_text()).items()}
    except (OSError, ValueError, TypeError, AttributeError):
        return {}
    return {job: mark for job, mark in said.items() if mark.at <= now}


def _utc(at: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at))


CHECK = Check(
    reasons.Check.QUIET_JOBS,
    look,
    judge,
    fails="",
    warns="a job used no CPU for the time of its partition's `hangs.after`, or its heartbeat is as old",
    remedy="ask its user; `status.hangs` says on which nodes jobs hang often",
    contexts=WITHOUT_JOBS,
)
