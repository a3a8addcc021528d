"""Updates slurmd's memory of the jobs whose prolog ran here, before each start of slurmd (docs/adr/0023).

slurmd writes this memory when a step starts, when a job ends, and at its own end. It does not after a prolog. A kill in
between loses the jobs since then. The next slurmd would wait in vain for their prolog at their next step, requeue them
and drain the node.

The format is Slurm's own (src/slurmd/slurmd/cred_context.c, src/common/sluid.c), and only that of one version.
"""

import fcntl
import os
import struct
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from contract.native import JOB_LIVES
from slurm_node.pod import paths
from slurm_node.pod.log import say

VERSION = 45 << 8
"""Protocol version of Slurm 26.05 (SLURM_26_05_PROTOCOL_VERSION)."""
SLUID_DIGITS = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"

_HEAD = struct.Struct(">HI")
"""Version, number of jobs; the jobs follow, then a list of credentials."""
_JOB = struct.Struct(">QIIIqqqq")
"""SLUID, job, step, component; when it was revoked and seen first; until when it is kept, credentials are too old."""
_NO_CREDENTIALS = struct.pack(">I", 0)
_NO_VAL = 0xFFFFFFFE
_NEVER_REVOKED = 0
_MAX_TIME = 0x7FFFFFFF
"""Slurmd's value for "never"."""
_LOCK = struct.Struct("hhqqi4x")
"""struct flock: type, whence, start, length, process."""


def restore(spool: Path = paths.SPOOL, prologs: Path = paths.PROLOGS, jobs: Path = paths.JOBS) -> None:
    """Adds the jobs that live here to the next slurmd's memory, if the previous slurmd could not.

    A failure is logged. slurmd starts all the same, but then starts no further steps of these jobs.

    Args:
        spool: SlurmdSpoolDir.
        prologs: folder with the SLUID of each job whose prolog ran (health/bin/node-health-prolog).
        jobs: folder with a file for each job with namespaces (native/job/job.h).
    """
    try:
        prologs.mkdir(exist_ok=True)
        ran = living(prologs, jobs)
        if not ran:
            return
        file = spool / "cred_state"
        state = file.read_bytes() if file.exists() else _HEAD.pack(VERSION, 0) + _NO_CREDENTIALS
        changed = with_jobs(state, ran, int(time.time()))
        if changed != state:
            _write(file, changed)
            say("slurmd was killed under jobs whose prolog ran: the next one knows of them")
    except (OSError, ValueError) as error:
        say(f"jobs that run here may start no further steps: {error}")


def living(prologs: Path, jobs: Path) -> dict[int, int]:
    """Returns SLUID → number of each job whose prolog ran here and whose extern step keeps its namespaces."""
    ran = {}
    for file in jobs.glob("[0-9]*"):
        # Both files vanish when the job ends.
        with suppress(FileNotFoundError):
            if is_locked(file, JOB_LIVES):
                ran[parse_sluid((prologs / file.name).read_text().strip())] = int(file.name)
    return ran


def is_locked(file: Path, byte: int) -> bool:
    """Return whether another process holds a lock on that byte of a file."""
    with file.open("rb") as opened:
        asked = _LOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, byte, 1, 0)
        kind, *_ = _LOCK.unpack(fcntl.fcntl(opened, fcntl.F_GETLK, asked))
    return bool(kind != fcntl.F_UNLCK)


def parse_sluid(text: str) -> int:
    """Reads a SLUID, Slurm's name of one run of a job: an "s" and 13 digits of Crockford's base 32.

    Raises:
        ValueError: it is something else.
    """
    if len(text) != 14 or text[0] != "s" or not set(text[1:]) <= set(SLUID_DIGITS):
        raise ValueError(f"{text!r} is no SLUID")
    number = 0
    for digit in text[1:]:
        number = number * len(SLUID_DIGITS) + SLUID_DIGITS.index(digit)
    if number >= 1 << 64:
        raise ValueError(f"{text!r} is no SLUID")
    return number


def with_jobs(state: bytes, ran: Mapping[int, int], now: int) -> bytes:
    """Returns the state for the next slurmd: the present one with the missing jobs added.

    A job that is in it stays as it is: it may be revoked, since its end has begun.

    Args:
        state: the present one.
        ran: SLUID → job.
        now: seconds since the epoch.

    Raises:
        ValueError: the state is not as Slurm 26.05 writes it.
    """
    if len(state) < _HEAD.size:
        raise ValueError("slurmd's cred_state is too short")
    version, count = _HEAD.unpack_from(state)
    end = _HEAD.size + count * _JOB.size
    if version != VERSION or len(state) < end:
        raise ValueError(f"slurmd's cred_state has the format of another Slurm ({version >> 8}, not {VERSION >> 8})")
    there = {sluid for sluid, *_ in _JOB.iter_unpack(state[_HEAD.size : end])}
    added = [
        _JOB.pack(sluid, job, _NO_VAL, _NO_VAL, _NEVER_REVOKED, now, _MAX_TIME, _MAX_TIME)
        for sluid, job in ran.items()
        if sluid not in there
    ]
    return _HEAD.pack(version, count + len(added)) + state[_HEAD.size : end] + b"".join(added) + state[end:]


def _write(file: Path, state: bytes) -> None:
    aside = file.with_name(".cred_state.new")
    with os.fdopen(os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600), "wb") as opened:
        opened.write(state)
    aside.replace(file)
