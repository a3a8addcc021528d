"""Tells slurmctld and the node's jobs why a slurmd is stopped, before it is stopped.

Until then slurmd vouches for scontrol's identity and forwards messages. A slurmd that has just read another
configuration opens its socket for scontrol only later. Meanwhile native/stepd/stepd_guard.c refuses every step.
"""

from __future__ import annotations

from collections.abc import Callable

from contract import reasons
from slurm_node.conditions.drains import OwnDrain
from slurm_node.conditions.job_notify import JobNotifier

TELL_SECONDS = 15.0
"""After these, a slurmd is stopped although slurmctld does not answer."""


class StopNotice:
    """Decides when a slurmd with a configuration that must not be used is stopped.

    Args:
        judge: says why slurmd, which has run for some seconds, must stop; None if it need not.
        drain: the node's.
        notifier: of the node's jobs.
        is_right: says whether the fetched configuration may be used, or is missing.
    """

    def __init__(
        self, judge: Callable[[float], str | None], drain: OwnDrain, notifier: JobNotifier, is_right: Callable[[], bool]
    ) -> None:
        self._judge = judge
        self._drain = drain
        self._notifier = notifier
        self._is_right = is_right
        self._sentence: str | None = None
        self._until = 0.0

    def refusal(self, now: float, ran_seconds: float) -> str | None:
        """Returns why slurmd is to be stopped now; None while it may run, or has to vouch for scontrol.

        Args:
            now: of the monotonic clock, in seconds.
            ran_seconds: since slurmd was started.
        """
        sentence = self._judge(ran_seconds)
        if sentence is not None and self._sentence is None:
            self._until = now + TELL_SECONDS
        if sentence is None and self._is_right():
            self._sentence = None
        self._sentence = sentence or self._sentence
        if self._sentence is None:
            return None
        told = self._drain.tick(now, {reasons.JAIL: self._sentence}, hurries=True)
        if told:
            self._notifier.tick(self._sentence)
        elif now < self._until:
            return None
        sentence, self._sentence = self._sentence, None
        return sentence
