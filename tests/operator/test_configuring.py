"""Promises about partitions that are being closed while Slurm answers nobody, or refuses."""

from __future__ import annotations

import asyncio
import dataclasses
import datetime
from typing import Any, cast

import pytest
from slurm_operator import actions
from slurm_operator.configuring import Configuration
from slurm_operator.kubernetes_api import KubernetesApi
from slurm_operator.lease import Lease
from slurm_operator.seen import Cluster, Kubernetes, Running, Unknown
from slurm_operator.slurm_rest import SlurmError, SlurmRest, Trouble

CLOSED = frozenset({"a", "b", "c", "d"})
FILES = {"slurm.conf": "SlurmctldParameters=pulumi_slurm=1\nPartitionName=main Nodes=ns_cpu\n"}
CLUSTER = Cluster("test", "r1", "", "wanted", "active", "slurm-controller", "", "", closed=CLOSED)
SEEN = Kubernetes(CLUSTER, (), {}, None, {}, FILES, FILES, "r1")
READS = Running("pulumi_slurm=0", datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC))
AWAY = Unknown("RestUnreachable", "no answer in time")


@dataclasses.dataclass
class Failing:
    """A slurmrestd of which every call about a partition fails."""

    trouble: Trouble
    asked: int = 0

    async def partition_state(self, name: str) -> str:
        self.asked += 1
        raise SlurmError(self.trouble, name)


@pytest.mark.parametrize(
    ("running", "trouble", "asked", "told"),
    [
        (AWAY, Trouble.UNREACHABLE, 0, set()),
        (READS, Trouble.UNREACHABLE, 1, {"ActionFailed"}),
        (READS, Trouble.REFUSED, len(CLOSED), {actions.REFUSED}),
    ],
)
def test_closed_partitions_cost_a_silent_slurm_one_deadline_at_most_and_are_not_forgotten(
    running: Running | Unknown, trouble: Trouble, asked: int, told: set[str]
) -> None:
    rest = Failing(trouble)
    nobody = cast(Any, None)
    configuration = Configuration(cast(KubernetesApi, nobody), cast(Lease, nobody))
    bringing = configuration.bring(cast(SlurmRest, rest), {}, SEEN, running, AWAY, declared=True)
    found, closed = asyncio.run(bringing)
    assert (rest.asked, {each.reason for each in found.wrong}, closed) == (asked, told, CLOSED)
