"""A pass over a cluster whose configuration is to be brought to slurmctld."""

from __future__ import annotations

import datetime
from typing import cast

from slurm_operator.clients.slurm.slurmrestd import SlurmRest
from slurm_operator.reconcile.pass_budget import PassBudget
from slurm_operator.reconcile.pass_context import PassContext
from slurm_operator.state.kubernetes import Kubernetes
from slurm_operator.state.resources import Cluster
from slurm_operator.state.slurm import Running, Unknown

CLOSED = frozenset({"a", "b", "c", "d"})
FILES = {"slurm.conf": "SlurmctldParameters=pulumi_slurm=1\nPartitionName=main Nodes=ns_cpu\n"}
CLUSTER = Cluster("test", "r1", "", "wanted", "active", "slurm-controller", "", "", closed=CLOSED)
SEEN = Kubernetes(CLUSTER, (), {}, None, {}, FILES, FILES, "r1")
READS = Running("pulumi_slurm=0", datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC))


def this_pass(rest: object, seen: Kubernetes, running: Running | Unknown) -> PassContext:
    return PassContext(cast(SlurmRest, rest), {}, seen, running, PassBudget())
