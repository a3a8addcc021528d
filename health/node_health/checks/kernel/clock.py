"""Checks that a time service keeps the machine's clock, by what it tells the kernel (adjtimex(2))."""

from dataclasses import dataclass

from contract import reasons
from node_health import thresholds
from node_health.check import Check, Machine
from node_health.verdict import Finding, passes, unknown, warns

STA_UNSYNC = 0x0040
"""Bit of the status: no service keeps the clock (linux/timex.h)."""
PADDING = 26


@dataclass(frozen=True, slots=True)
class Clock:
    """The clock: whether a service keeps it, and the largest error that the kernel reckons with, in ms."""

    kept: bool
    error_ms: float


def adjtimex() -> Clock:
    """Asks the kernel, without a change of the clock."""
    import ctypes
    import os

    class Timex(ctypes.Structure):
        """The first fields of struct timex; the rest only has to be long enough."""

        _fields_ = (
            ("modes", ctypes.c_uint),
            ("offset", ctypes.c_long),
            ("freq", ctypes.c_long),
            ("maxerror", ctypes.c_long),
            ("esterror", ctypes.c_long),
            ("status", ctypes.c_int),
            ("rest", ctypes.c_long * PADDING),
        )

    facts = Timex()
    if ctypes.CDLL(None, use_errno=True).adjtimex(ctypes.byref(facts)) < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return Clock(not facts.status & STA_UNSYNC, facts.maxerror / 1000)


def look(machine: Machine) -> Clock:
    """Asks the kernel."""
    return adjtimex()


def judge(clock: Clock, machine: Machine) -> Finding:
    """WARNING for a clock that may be too wrong, UNKNOWN when nobody keeps it: it may be right all the same."""
    if not clock.kept:
        return unknown("no time service tells the kernel that it keeps the clock")
    most = thresholds.of().number("clock.error")
    if clock.error_ms > most:
        return warns(f"the clock may be wrong by more than {most:g} ms")
    return passes(f"the clock is right within {clock.error_ms:.0f} ms")


CHECK = Check(
    reasons.Check.CLOCK,
    look,
    judge,
    fails="",
    warns="the time service admits a large error. UNKNOWN: there is none that tells the kernel",
    remedy="repair the Kubernetes node's chronyd, which tells the kernel only with `rtcsync`, or systemd-timesyncd",
)
