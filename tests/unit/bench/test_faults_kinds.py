"""Each kind of fault that has to be told is told by its own line."""

from __future__ import annotations

import re

import pytest

from bench.faults.kinds import KINDS, Teller
from bench.faults.verdict import history
from bench.faults.verdict.history import History
from devcluster.machine.bootstrap import CHECKOUT
from tests.unit.bench.faults_history import HOLDER, OTHER, kubernetes

LINES = {
    "operator-killed": f"Lease holder={OTHER}",
    "operator-stopped": f"Lease holder={OTHER}",
    "slurmrestd-killed": "SlurmCluster/dev Available=Unknown RestUnreachable slurmrestd does not answer",
    "slurmrestd-stopped": "SlurmCluster/dev Available=Unknown RestUnreachable slurmrestd does not answer",
    "slurmctld-deleted": "SlurmCluster/dev Available=False ControllerNotReady StatefulSet slurm-controller: 0 of 1",
    "slurmctld-stopped": "Event Warning AvailableUnknown SlurmCluster/dev slurmctld does not answer",
    "slurmdbd-stopped": "SlurmCluster/dev Degraded=True AccountingNotReady accounting: slurmdbd is not ready yet",
    "database-deleted": "SlurmCluster/dev Degraded=True AccountingNotReady accounting: slurmdbd waits for MariaDB",
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
    "node-cordoned": "NodeSet/cpu Degraded=True NodesDrained drained: cpu-0 (pulumi-slurm:node dev is cordoned)",
}


BY_KUBELET = {
    "slurmrestd-killed": "Event Normal Started Pod/slurm-rest-6d5f-x Started container slurmrestd",
    "slurmctld-deleted": "Event Normal Killing Pod/slurm-controller-0 Stopping container controller",
    "login-deleted": "Event Normal Killing Pod/slurm-login-0 Stopping container login",
    "database-deleted": "Event Normal Killing Pod/slurm-database-0 Stopping container database",
}
NOTE = {"holder": HOLDER, "reason": "bad-fan-1"}
TOLD = {name: kind.told_by("Service slurm-rest", NOTE) for name, kind in KINDS.items()}


def telling(who: Teller) -> dict[str, re.Pattern[str]]:
    return {name: patterns[who] for name, patterns in TOLD.items() if who in patterns}


def test_each_kind_is_told_by_somebody_or_shows_that_it_has_passed() -> None:
    assert [name for name, kind in KINDS.items() if bool(TOLD[name]) == bool(kind.passed)] == []


@pytest.mark.parametrize(("who", "lines"), [(Teller.OPERATOR, LINES), (Teller.KUBELET, BY_KUBELET)])
def test_each_kind_that_has_to_be_told_is_told_by_its_own_words_alone(who: Teller, lines: dict[str, str]) -> None:
    patterns = telling(who)
    assert set(patterns) == set(lines)
    assert [name for name, pattern in patterns.items() if not pattern.search(lines[name])] == []
    calm = History(kubernetes=[history.kubernetes({k: v for k, v in kubernetes(0).items() if k != "record"})])
    quiet = [line for seen in calm.kubernetes for line in seen.lines()]
    assert [name for name, pattern in patterns.items() if any(map(pattern.search, quiet))] == []


def test_the_page_says_of_each_kind_who_tells_it_or_what_shows_that_it_has_passed() -> None:
    page = (CHECKOUT / "docs/faults.md").read_text()
    rows = {name: line.rpartition(" | ")[2] for line in page.splitlines() for name in re.findall(r"`([a-z-]+)`", line)}
    for name, kind in KINDS.items():
        who = [*TOLD[name], *([kind.passed] if kind.passed else [])]
        assert [each for each in who if str(each) not in rows[name]] == [], name
