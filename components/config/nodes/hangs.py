"""Configuration of what is done about jobs that hang."""

from collections.abc import Iterator
from enum import StrEnum
from typing import Final

from components.config.model import Model, setting
from components.config.rule import Violation, rule
from components.config.values.quantities import Duration, duration_seconds

LEAST_AFTER_SECONDS: Final = 600


class Then(StrEnum):
    """Reaction to a job that hangs."""

    TELL = "tell"
    REQUEUE = "requeue"


class Hangs(Model):
    """Jobs of a partition that hang; see docs/health.md."""

    after: Duration = setting(
        "A job hangs when it used no CPU on any of its nodes for so long: 10m or more. If its user's home has a file "
        "`.slurm-heartbeat-JOBID`, the age of that counts instead.",
        unit="s, m or h",
    )
    then: Then = setting(
        "tell tells the job, and writes an Event. requeue also queues it again if it may be requeued, without the "
        "nodes on which it hung.",
        default=Then.TELL,
    )

    @property
    def after_seconds(self) -> int:
        """The time as the operator has it."""
        return duration_seconds(self.after)

    @rule
    def _after(self) -> Iterator[Violation]:
        if self.after_seconds < LEAST_AFTER_SECONDS:
            yield Violation("after", want=f"{LEAST_AFTER_SECONDS // 60}m or more: many a job waits for something")
