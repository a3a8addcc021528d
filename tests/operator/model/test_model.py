"""A random walk through everything that changes nodes, with the operator's own decisions and actions.

Users edit numbers and templates, and jobs come and go. Administrators drain nodes. Kubernetes nodes fail, are cordoned
or tainted, vanish, or have a condition that tells of a fault. Weights and places in topologies are declared, and
administrators ask for `scontrol reboot`. slurmctld forgets nodes whose jobs run on, and refuses those without all their
GPUs. Listings are
incomplete, reconciles die between two actions, pods start late, and the clock runs. A long check may come before jobs.

These promises hold all the time:

* No job is killed before its deadline.
* No drain of another author changes.
* Budgets are kept.
* No node takes jobs while it is removed.
* No new or repaired node takes jobs before its first long check passed.
* The operator cordons a Kubernetes node only for a repair that it recorded.
* What it writes of features, weights and places changes nothing else, and no node of another set.

After the last fault and the last job every set has its size, its newest template, its weights and places. All nodes
serve, but for those that somebody else drained. Slurm has no orphaned record.

Kubernetes is played (played_cluster.py), and slurmctld (played_slurmctld.py). Their two servers refuse forbidden calls
at once (played_clients.py).
"""

from __future__ import annotations

import hypothesis
import pytest

from tests.operator.model.random_walk import Model, play

LEAST_STEPS = 10_000


@pytest.mark.timeout(900)  # Plays for about 80 s of a core's time; three workers share two of these, or slower ones.
@pytest.mark.usefixtures("examples_of_its_own")
def test_nothing_that_happens_costs_a_job_and_all_converges(pytestconfig: pytest.Config) -> None:
    """With `--hypothesis-seed=N` other examples are played."""
    is_seeded = pytestconfig.getoption("--hypothesis-seed") is not None
    settings = hypothesis.settings(
        max_examples=600,
        deadline=None,
        stateful_step_count=50,
        derandomize=not is_seeded,
        database=None,
        print_blob=True,
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    Model.steps, Model.repairs = 0, {}
    play(Model, settings=settings)
    assert Model.steps >= LEAST_STEPS
    assert Model.repairs.keys() == {False, True}, "every step was reached"
