"""Steps of long checks, and what is noted of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from slurm_operator.decide.cluster.checks import long_checks
from slurm_operator.decide.cluster.checks.ledger import CheckJob, Latest, Ledger
from slurm_operator.decide.nodes.workers import NodeSetState
from slurm_operator.state.resources import LongCheck
from slurm_operator.state.slurm import SeenCheckJob, SlurmNode

from tests.operator.states.check_samples import CHECK, NOW

OPEN = CheckJob(7, "bandwidth", "cpu-1", NOW)


def ledger_of(*jobs: CheckJob, latest: Mapping[str, Latest] | None = None) -> Ledger:
    return Ledger(
        {job.job_id: job for job in jobs}, {("bandwidth", name): said for name, said in (latest or {}).items()}
    )


def decide(
    there: NodeSetState,
    ledger: Ledger,
    seen: Mapping[int, SeenCheckJob | None] | None = None,
    check: LongCheck = CHECK,
    told: Ledger | None = None,
) -> long_checks.Decision:
    nodes = cast(Mapping[str, SlurmNode], there.nodes)
    told = ledger if told is None else told
    return long_checks.decide([check], {"cpu": there}, ledger, told, seen or {}, NOW, nodes, ())
