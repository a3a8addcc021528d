"""Configuration of a QOS."""

from collections.abc import Iterator
from enum import StrEnum
from typing import Annotated

from pydantic import BeforeValidator

from components.config.model import Model, setting
from components.config.rule import Violation, rule
from components.config.slurm_keys.slurm_options import quoted_text
from components.config.values.object_names import QosName
from components.config.values.quantities import WholeNumber
from components.config.values.slurm_limits import MOST, LimitValue, QosLimit, written
from components.config.values.validation import matching, text_of
from contract import accounts

Description = Annotated[str, matching(r"[^\x00-\x1f\"'\\]{1,200}", "one line of text without quotes, 200 characters")]
Factor = Annotated[str, text_of("a number such as 0.5"), matching(r"\d{1,6}(\.\d{1,4})?", "a number such as 0.5")]
_FLAGS = f"one of {', '.join(accounts.QOS_FLAGS)}"
QosFlag = Annotated[str, matching("|".join(accounts.QOS_FLAGS), _FLAGS)]


class QosPreemptMode(StrEnum):
    """Fate of a job whose QOS another one preempts; the values are those of sacctmgr's PreemptMode."""

    CANCEL = "cancel"
    REQUEUE = "requeue"
    SUSPEND = "suspend"


class Qos(Model):
    """A quality of service: a priority, limits, and whose jobs it preempts."""

    name: QosName = setting("Its name. `normal` is Slurm's own, whose values you may set here.")
    description: Description | None = setting("What it is for.", default=None)
    priority: WholeNumber | None = setting(
        "Its part of a job's priority; see accounting.priority.weightQos. Left out: 0.", default=None, ge=0, le=MOST
    )
    preempts: list[QosName] = setting(
        "QOS whose jobs its jobs may preempt, with slurm.options.PreemptType: preempt/qos.", factory=list
    )
    preempt_mode: Annotated[QosPreemptMode, BeforeValidator(quoted_text)] | None = setting(
        "What happens to its own jobs when others preempt them. Left out: slurm.options.PreemptMode.", default=None
    )
    preempt_exempt_time: WholeNumber | None = setting(
        "So long its jobs run before others may preempt them.", unit="seconds", default=None, ge=0, le=MOST
    )
    grace_time: WholeNumber | None = setting(
        "So long a preempted job may run on after SIGTERM. Left out: 0.", unit="seconds", default=None, ge=0, le=MOST
    )
    usage_factor: Factor | None = setting(
        "Factor of the usage that its jobs are charged, such as 0.5. Left out: 1.", default=None
    )
    flags: list[QosFlag] = setting("What it does besides, in sacctmgr's words, such as DenyOnLimit.", factory=list)
    limits: dict[QosLimit, LimitValue] = setting(
        "Its limits by sacctmgr's words, such as MaxJobsPerUser or GrpTRES.", factory=dict
    )

    @rule
    def _limits(self) -> Iterator[Violation]:
        for word, value in self.limits.items():
            try:
                written(accounts.QOS[word].kind, value)
            except ValueError as error:
                yield Violation("limits", word, want=str(error))
