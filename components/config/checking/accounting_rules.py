"""Rules between accounting's QOS and priorities, and Slurm's options."""

from collections.abc import Iterator
from typing import Final

from components.config.accounting import PRIORITY_KEYS
from components.config.accounts.qos import QosPreemptMode
from components.config.checking import tres_rules
from components.config.program import Config
from components.config.rule import Violation
from components.config.slurm_keys.slurm_options import slurms_name
from components.config.values.quantities import SLURM_TIME, slurm_seconds

_BY_QOS: Final = "preempt/qos"

_IN_THE_DATABASE: Final = (
    *("accountingstorageparameters", "accountingstoragetres", "accountingstoreflags", "fairsharedampeningfactor"),
    *("maxdbdmsgs", "prioritymaxage", "priorityweightage", "priorityweightassoc", "priorityweightfairshare"),
    *("priorityweightqos", "trackwckey"),
)
"""Keys of slurm.conf in lower case that slurmctld ignores without slurmdbd.

Most are about what slurmdbd keeps: jobs, associations and QOS. The age of jobs counts with slurmdbd alone, too.
"""


def _preemption(config: Config) -> Iterator[Violation]:
    options = config.slurm.slurm_conf_options
    by_qos = options.get("PreemptType", "").lower() == _BY_QOS
    gangs = "gang" in options.get("PreemptMode", "").lower()
    for index, qos in enumerate(config.accounting.qos):
        for key in ("preempts", "preemptMode", "preemptExemptTime", "graceTime"):
            if key in qos.given and not by_qos:
                want = f"nothing, or slurm.options.PreemptType: {_BY_QOS}: without it Slurm ignores this key"
                yield Violation("accounting", "qos", index, key, want=want)
        if by_qos and getattr(qos, "preempt_mode", None) is QosPreemptMode.SUSPEND and not gangs:
            want = "another mode, or slurm.options.PreemptMode: SUSPEND,GANG: suspended jobs would never go on"
            yield Violation("accounting", "qos", index, "preemptMode", want=want)


def _priority(config: Config) -> Iterator[Violation]:
    for name in config.slurm.options:
        key = PRIORITY_KEYS.get(slurms_name(name), "")
        if key in config.accounting.priority.given:
            want = f"nothing beside accounting.priority.{key}, which sets it"
            yield Violation("slurm", "options", name, want=want)


def _without_accounting(config: Config) -> Iterator[Violation]:
    """Options that Slurm passes over without a database."""
    for name in config.slurm.options if not config.accounting.is_on else ():
        if name.lower() in _IN_THE_DATABASE:
            want = "nothing, or accounting.mode mariadb or external: without it this does nothing"
            yield Violation("slurm", "options", name, want=want)


def _half_life(config: Config) -> Iterator[Violation]:
    """Yield a half-life of 0 by which nothing else ends usage: slurmctld would not start."""
    options = config.slurm.slurm_conf_options
    if "PriorityDecayHalfLife" not in options and not config.accounting.is_on:
        return  # slurm.conf has none then, and another rule says that accounting's keys do nothing.
    time = options.get("PriorityDecayHalfLife", config.accounting.priority.decay_half_life)
    if SLURM_TIME.fullmatch(time) and not slurm_seconds(time) and "PriorityUsageResetPeriod" not in options:
        written = next((name for name in config.slurm.options if name.lower() == "prioritydecayhalflife"), None)
        at = ("slurm", "options", written) if written else ("accounting", "priority", "decayHalfLife")
        want = "more than 0, or slurm.options.PriorityUsageResetPeriod beside it: slurmctld would not start"
        yield Violation(*at, want=want)


ON_ACCOUNTING: Final = (
    _preemption,
    _priority,
    _without_accounting,
    _half_life,
    tres_rules.counted,
    tres_rules.of_priority,
)
