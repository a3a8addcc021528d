"""Asks slurmctld for the configuration again and again, since a login node receives none by itself.

slurmctld would send it to a listening sackd. But that accepts it from everybody with a token of SlurmUser, whose id
root of the jail can take. And slurmctld forgets a sackd that it failed to reach once (src/slurmctld/agent.c, _wdog).
"""

from collections.abc import Callable
from pathlib import Path

from slurm_node.pod import paths
from slurm_node.pod.log import say
from slurm_node.slurm import configless_cache, configuration

EVERY_SECONDS = 10.0
ANSWER_SECONDS = 15.0


class ConfigRenewal:
    """Keeps the configuration equal to slurmctld's, without blocking on an answer.

    Args:
        ask: begins a question to slurmctld.
        changed: called when other files than before are there.
        target: where they are.
    """

    def __init__(
        self,
        ask: Callable[[], configuration.Fetch],
        changed: Callable[[], object],
        target: Path = paths.FETCHED,
    ) -> None:
        self._ask = ask
        self._changed = changed
        self._target = target
        self._asking: configuration.Fetch | None = None
        self._due = 0.0
        self._answered = True

    def tick(self, now: float) -> None:
        """Called about twice a second, with the monotonic clock's seconds."""
        if self._asking is None:
            if now >= self._due:
                self._asking, self._due = self._ask(), now + ANSWER_SECONDS
            return
        over = self._asking.is_over()
        files = self._asking.files()
        if not (files or over or now >= self._due):
            return
        self._asking.end()
        self._asking, self._due = None, now + EVERY_SECONDS
        if bool(files) != self._answered:
            say("slurmctld answers again" if files else f"slurmctld gave no configuration in {ANSWER_SECONDS:.0f} s")
        self._answered = bool(files)
        if files and files != configless_cache.read(self._target):
            configuration.put(files, self._target)
            say("took slurmctld's newest configuration")
            self._changed()
