"""Rules between accounting's QOS and Slurm's options."""

from collections.abc import Iterator
from typing import Final

from components.config.accounts.qos import QosPreemptMode
from components.config.program import Config
from components.config.rule import Violation

_BY_QOS: Final = "preempt/qos"


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


ON_ACCOUNTING: Final = (_preemption,)
