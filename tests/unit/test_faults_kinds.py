"""Each kind of fault that has to be told is told by its own line."""

from __future__ import annotations

from bench.faults import history
from bench.faults.history import History
from bench.faults.kinds import KINDS
from tests.unit.faults_history import HOLDER, OTHER, kubernetes

LINES = {
    "operator-killed": f"Lease holder={OTHER}",
    "operator-stopped": f"Lease holder={OTHER}",
    "slurmrestd-killed": "Event Normal Started Pod/slurm-rest-6d5f-x Started container slurmrestd",
    "slurmrestd-stopped": "SlurmCluster/dev Available=Unknown RestUnreachable slurmrestd does not answer",
    "slurmctld-deleted": "Event Normal Killing Pod/slurm-controller-0 Stopping container controller",
    "slurmctld-stopped": "Event Warning AvailableUnknown SlurmCluster/dev slurmctld does not answer",
    "slurmdbd-stopped": "SlurmCluster/dev Degraded=True AccountingNotReady accounting: slurmdbd is not ready yet",
    "database-deleted": "Event Normal Killing Pod/slurm-database-0 Stopping container database",
    "login-deleted": "SlurmCluster/dev Available=False LoginNotReady StatefulSet slurm-login: 0 of 1 ready",
    "object-edited": "Event Normal Heal SlurmCluster/dev restored Service slurm-rest: spec.selector (by python-httpx)",
    "object-deleted": "Event Normal Heal SlurmCluster/dev restored Service slurm-rest, which was deleted",
    "template-edited": "Event Normal Heal SlurmCluster/dev restored Service slurm-rest: spec.template",
    "workers-orphaned": "Event Normal Heal SlurmCluster/dev restored Service slurm-rest, which was deleted",
    "scaled-out": "NodeSet/cpu ScaledOutsidePulumi=True ReplicasDiffer kubectl asked for 3 nodes",
    "scaled-in": "NodeSet/cpu ScaledOutsidePulumi=True ReplicasDiffer kubectl asked for 1 nodes",
    "person-drained": "NodeSet/cpu DrainedByPeople=True DrainedByPeople drained by admin: cpu-0 (bad-fan-1)",
    "person-failed": "SlurmCluster/dev DrainedByPeople=True DrainedByPeople drained by admin: cpu-0 (bad-fan-1)",
    "check-failed": "NodeSet/cpu Degraded=True NodesDrained drained: cpu-0 (pulumi-slurm:health space: /tmp has less)",
    "machine-cordoned": "NodeSet/cpu Degraded=True NodesDrained drained: cpu-0 (pulumi-slurm:node dev is cordoned)",
}


def test_each_kind_that_has_to_be_told_is_told_by_its_own_words_alone() -> None:
    note = {"holder": HOLDER, "reason": "bad-fan-1"}
    patterns = {name: kind.told_by("Service slurm-rest", note) for name, kind in KINDS.items()}
    telling = {name: pattern for name, pattern in patterns.items() if pattern}
    assert set(telling) == set(LINES)
    assert [name for name, pattern in telling.items() if not pattern.search(LINES[name])] == []
    calm = History(kubernetes=[history.kubernetes({k: v for k, v in kubernetes(0).items() if k != "record"})])
    quiet = [line for seen in calm.kubernetes for line in seen.lines()]
    assert [name for name, pattern in telling.items() if any(map(pattern.search, quiet))] == []
