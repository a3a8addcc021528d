"""A check of two nodes finds the bad one of three real nodes, and drains no other."""

from __future__ import annotations

import dataclasses
import datetime
import re
from collections.abc import Iterator

import pytest
from slurm_operator.decide.cluster.checks import changes, long_checks, selection
from slurm_operator.decide.cluster.checks.changes import Submitted
from slurm_operator.decide.cluster.checks.ledger import CheckJob, Ledger, Verdict
from slurm_operator.reconcile.health.long_checks import job
from slurm_operator.state.resources import LongCheck

from tests.image.pods import SECOND, THIRD, WORKER
from tests.image.slurmrestd import Calls, Rest, made
from tests.image.small_cluster import NewCluster, SmallCluster
from tests.operator.states.sets import node_set, pod

NODES = (WORKER, SECOND, THIRD)
SCRIPT = f"""#!/bin/sh
srun sh -c '[ "$(hostname)" != {SECOND} ]'
"""
CHECK = LongCheck("pair", "main", ("cpu",), 86_400, 10, 100, drains=True, script=SCRIPT, nodes=2)


@pytest.fixture(scope="module")
def cluster(new_cluster: NewCluster) -> Iterator[SmallCluster]:
    with new_cluster() as started:
        started.start_second_worker()
        started.start_third_worker()
        yield started


@dataclasses.dataclass
class Checks:
    """The operator's decisions, carried out by its own calls; waits between jobs are skipped."""

    calls: Calls
    ledger: Ledger = dataclasses.field(default_factory=Ledger)
    skipped: datetime.timedelta = datetime.timedelta()

    def look(self) -> bool:
        """Make a pass, and return whether a node is drained now."""
        now = datetime.datetime.now(datetime.UTC) + self.skipped
        nodes = made(self.calls.nodes(full=True))
        state = node_set(3, 3, [pod(name) for name in NODES], now, nodes=nodes)
        seen = {number: made(self.calls.check_job(number)) for number in long_checks.to_look_at(self.ledger)}
        decided = long_checks.decide([CHECK], {"cpu": state}, self.ledger, self.ledger, seen, now, nodes, None)
        made_now = [*decided.changes]
        for drain in decided.drains:
            made(self.calls.drain(drain.node, drain.reason))
        for number in decided.releases:
            made(self.calls.release(number))
        for wanted in decided.submissions:
            of = (CHECK.name, wanted.node, now, "", wanted.others, wanted.aim)
            made_now.append(Submitted(CheckJob(made(self.calls.submit(job(wanted))), *of)))
        self.ledger = changes.changed(self.ledger, made_now)
        self.skipped += datetime.timedelta() if self.ledger.jobs else selection.SUSPECT_AFTER
        return any("DRAIN" in node.states for node in nodes.values())


def test_the_bad_one_of_three_nodes_is_drained_after_it_failed_beside_a_good_one(cluster: SmallCluster) -> None:
    checks = Checks(Calls(Rest(cluster)))
    cluster.wait("a node is drained", checks.look, 180)
    nodes = made(checks.calls.nodes(full=True))
    reason = r"pulumi-slurm:health long pair: job \d+ FAILED, exit status 1 beside cpu-[02]"
    assert re.fullmatch(reason, nodes[SECOND].reason), nodes[SECOND]
    assert [name for name in NODES if "DRAIN" in nodes[name].states] == [SECOND]
    # It failed beside a node that was a suspect, too, and beside one that had passed.
    cluster.wait("both count", lambda: checks.look() and checks.ledger.counts[CHECK.name, Verdict.FAIL] == 2, 30)
    assert checks.ledger.counts[CHECK.name, Verdict.PASS] >= 1
