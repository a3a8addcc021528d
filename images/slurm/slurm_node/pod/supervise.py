"""Keeps a pod's daemons running, in place: slurmd may be killed under running jobs, and they must not notice.

The jobs' slurmstepd processes are children of the container's init, not of slurmd, so a new slurmd finds them again.
"""

import functools
import os
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from slurm_node.pod.log import say
from slurm_node.pod.slurmd_port import HeldPort

TICK_SECONDS = 0.5
FIRST_BACK_OFF_SECONDS = 1.0
LONGEST_BACK_OFF_SECONDS = 30.0
STEADY_SECONDS = 60.0
"""A daemon that ran this long restarts without back-off."""
STOP_SECONDS = 25.0
REMIND_SECONDS = 60.0
STOP_SIGNALS = {signal.SIGTERM, signal.SIGINT}


def end(process: subprocess.Popen[bytes], name: str, seconds: float) -> None:
    """Ask a process to end, and kill it after a deadline."""
    process.terminate()
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        say(f"{name} did not end in {seconds:.0f} s; killing it")
        process.kill()
        process.wait()


def next_back_off(last_seconds: float, ran_seconds: float) -> float:
    """Returns how long to wait before the next start."""
    if ran_seconds >= STEADY_SECONDS or last_seconds == 0:
        return FIRST_BACK_OFF_SECONDS
    return min(last_seconds * 2, LONGEST_BACK_OFF_SECONDS)


@dataclass(slots=True)
class Daemon:
    """A program that is kept running.

    Attributes:
        name: as the log calls it.
        command: its arguments; it stays in the foreground.
        environment: what is added to the pod's environment.
        refusal: called at every tick. A sentence stops the daemon, and it is tried again after the longest back-off.
        at_first: further arguments of its first start in this container.
        port: its listening socket, passed as standard input.
    """

    name: str
    command: Sequence[str]
    environment: dict[str, str] = field(default_factory=dict)
    refusal: Callable[[], str | None] = lambda: None
    at_first: Sequence[str] = ()
    port: HeldPort | None = None
    process: subprocess.Popen[bytes] | None = None
    started: float = 0.0
    not_before: float = 0.0
    back_off: float = 0.0

    def tick(self, now: float) -> None:
        """Starts, restarts or stops the daemon as needed."""
        if self.process is None:
            if now >= self.not_before:
                self._start(now)
            return
        code = self.process.poll()
        if code is not None:
            self._end()
            self.back_off = next_back_off(self.back_off, now - self.started)
            self.not_before = now + self.back_off
            say(f"{self.name} ended ({_reason(code)}); starting it again in {self.back_off:.0f} s")
            return
        if sentence := self.refusal():
            say(f"stopping {self.name}: {sentence}")
            self.stop(STOP_SECONDS)
            self.not_before = now + LONGEST_BACK_OFF_SECONDS
            self.back_off = 0.0  # It did not fail: after its return, a first failure delays it by one second.

    def send(self, number: signal.Signals) -> None:
        """Sends a signal. A daemon that does not run needs none, since it reads everything at its start."""
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(number)

    def stop(self, seconds: float) -> None:
        """Asks the daemon to end, and kills it after a deadline."""
        if self.process is None:
            return
        end(self.process, self.name, seconds)
        self._end()

    def _end(self) -> None:
        self.process = None
        if self.port is not None:
            self.port.refuse()

    def _start(self, now: float) -> None:
        try:
            self.process = subprocess.Popen(
                [*self.command, *self.at_first],
                env=os.environ | self.environment,
                preexec_fn=_unblock,  # noqa: PLW1509 - this program has one thread
                stdin=self.port.listen() if self.port else subprocess.DEVNULL,
            )
        except OSError as error:
            self.back_off = next_back_off(self.back_off, 0.0)
            self.not_before = now + self.back_off
            say(f"{self.name} can't be started: {error}; trying again in {self.back_off:.0f} s")
            return
        self.started, self.at_first = now, ()
        say(f"started {self.name} as process {self.process.pid}")


def run(
    daemons: Sequence[Daemon],
    each_tick: Callable[[], None] = lambda: None,
    before_end: Callable[[], None] = lambda: None,
) -> int:
    """Keeps the daemons running until the pod is told to end.

    Refusals of the system are logged, and tried again at the next tick. It may refuse another process while jobs have
    all that the pod may have. If this program ended, the pod would end with all its jobs.

    Args:
        daemons: started in this order, stopped in reverse.
        each_tick: called about twice a second.
        before_end: called when the pod is told to end, before the daemons are.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, {*STOP_SIGNALS, signal.SIGCHLD})
    told = dict[str, float]()
    while True:
        now = time.monotonic()
        looks: list[Callable[[], None]] = [functools.partial(daemon.tick, now) for daemon in daemons]
        for look in [*looks, each_tick]:
            try:
                look()
            except OSError as error:
                if now >= told.get(str(error), now):
                    say(f"{error}; trying again")
                    told[str(error)] = now + REMIND_SECONDS
        received = signal.sigtimedwait({*STOP_SIGNALS, signal.SIGCHLD}, TICK_SECONDS)
        if received is not None and received.si_signo in STOP_SIGNALS:
            say(f"told to end by {signal.Signals(received.si_signo).name}")
            before_end()
            for daemon in reversed(daemons):
                daemon.stop(STOP_SECONDS)
            return 0


def _unblock() -> None:
    signal.pthread_sigmask(signal.SIG_SETMASK, set())


def _reason(code: int) -> str:
    return f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
