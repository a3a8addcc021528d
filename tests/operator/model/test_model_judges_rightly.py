"""Histories in which the operator is right, and which the model of test_model.py once took for faults.

And those that a random walk seldom plays, in which a wrong operator is found.
"""

from __future__ import annotations

import pytest
from slurm_operator import drains
from slurm_operator.decide.node_sets import records
from slurm_operator.state.slurm import SlurmNode

from contract import names, reasons
from tests.operator.model.histories import goes_on, played
from tests.operator.model.random_walk import Model
from tests.operator.played.played_cluster import BROKEN
from tests.operator.played.played_slurmctld import TOO_FEW, TOO_LARGE, Job


def test_nodes_that_are_out_together_may_all_be_mended() -> None:
    """A bad host lends its slot to another node; a template that works then takes both, and no node that works."""
    model = played(4)
    model.change_the_template_to_one_that_does_not_work()
    goes_on(model, 8)
    model.a_nodes_machine_gets_sick_or_recovers(3, sick=True)
    goes_on(model, 8)
    model.a_nodes_machine_gets_sick_or_recovers(3, sick=False)
    told = [model.cluster.records[name].reason for name in ("cpu-3", "cpu-2", "cpu-1")]
    assert told == [BROKEN, BROKEN, ""]
    model.change_the_template(1)
    model.the_operator_passes()
    told = [model.cluster.records[name].reason for name in ("cpu-3", "cpu-2", "cpu-1")]
    assert told == [reasons.UPDATE, reasons.UPDATE, ""]
    model.teardown()


def test_a_repaired_node_that_is_smaller_than_its_record_waits_for_a_deep_queue_to_end() -> None:
    """Nobody knows which jobs name it. It was out of service before, and works when its record may go."""
    model = shrinking_in_a_deep_queue()
    model.a_nodes_machine_gets_sick_or_recovers(1, sick=True)
    model.time_passes(90)
    goes_on(model, 6)
    record = model.cluster.records["cpu-1"]
    assert (record.refused, record.user, model.cluster.pods["cpu-1"].memory) == (TOO_LARGE, names.SLURM_USER, 1)
    assert not model.cluster.records["cpu-0"].is_held
    model.teardown()


def test_an_update_remembers_what_it_took_of_nodes_that_were_to_leave_for_a_moment() -> None:
    """Once an update took the other node, too: `update.maxUnavailable` was exceeded."""
    model = played(2)
    model.change_the_size_of_nodes(memory=2)
    model.the_operator_passes()
    model.the_operator_passes()
    assert model.cluster.pods["cpu-1"].phase == "ending"
    model.edit_the_number_twice(size=0, later=2)
    model.the_operator_passes()
    assert not model.cluster.records["cpu-0"].is_held
    model.teardown()


def test_a_repair_that_was_refused_is_no_repair() -> None:
    """The operator's lease ended before its pod was deleted, and the next pass deleted it."""
    model = played(4)
    model.a_machine_fails_and_then_nobody_knows(number=1, then="Unknown")
    model.cluster.jobs.append(Job("cpu-2"))
    model.cluster.slurmctld_forgets(["cpu-2"])
    model.the_operator_passes()
    model.time_passes(351)
    model.the_machines_of_the_first_nodes_get_sick_together(nodes=3, stay=False)
    model.a_node_stays_sick_for_hours_wherever_it_starts(ordinal=3)
    model.change_the_template_to_one_that_does_not_work()
    model.the_operator_passes_with_half_listings_and_dies(checks=2, later=set(), lost={0})
    model.a_node_stays_sick_for_hours_wherever_it_starts(ordinal=0)
    model.teardown()


def test_an_update_that_makes_such_a_node_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    model = shrinking_in_a_deep_queue()
    goes_on(model, 6)
    monkeypatch.setattr(records, "is_too_large", lambda *_: False)
    with pytest.raises(AssertionError, match="held in a deep queue"):
        goes_on(model, 6)


def refused_under_a_persons_drain() -> Model:
    """Somebody drains a node that leaves and comes back smaller than its record, and the template changes meanwhile."""
    model = played(2)
    model.an_administrator_drains(1, "bad fan")
    model.edit_the_number(1)
    goes_on(model, 4)
    model.change_the_size_of_nodes(memory=1)
    model.cluster.records["cpu-1"].memory = 2
    model.edit_the_number(2)
    goes_on(model, 8)
    model.drains_of_others_stay()
    return model


def test_a_persons_drain_keeps_its_words_when_slurm_refuses_the_node() -> None:
    model = refused_under_a_persons_drain()
    record = model.cluster.records["cpu-1"]
    assert (record.reason, record.user, record.refused) == ("alice: bad fan", names.SLURM_USER, TOO_LARGE)
    model.teardown()
    model.slurmctld_forgets_nodes({1})  # As somebody deletes its record: Slurm lifts no drain of such a node.
    model.all_settles()
    assert not model.cluster.records["cpu-1"].is_held


def test_an_operator_that_takes_slurms_words_for_its_reason_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drains, "with_kept_words", lambda nodes, _: nodes)
    with pytest.raises(AssertionError, match=r"the drain of cpu-1 is another's"):
        refused_under_a_persons_drain()


def down_and_refused(*, by_person: bool) -> Model:
    """A node that is DOWN comes back smaller than its record: Slurm drains it not, and leaves it DOWN."""
    model = played(2)
    for name, record in model.cluster.records.items():
        record.memory = model.cluster.pods[name].memory = 2
    model.pause_or_go_on_and_perhaps_declare_first_checks_and_features(True, "", tested=False, features=None)
    model.change_the_size_of_nodes(1)
    if by_person:
        model.an_administrator_sets_a_node_down(1)
        model.the_operator_passes()
    model.a_machine_goes_away_or_comes_back(1, dead=True)
    model.lost_machines_are_switched_off_and_fenced()
    goes_on(model, 4)
    assert {"DOWN", "INVALID_REG"} <= model.cluster.seen("cpu-1").states
    return model


def test_a_node_that_is_down_when_slurm_refuses_it_gets_a_record_of_its_size() -> None:
    model = down_and_refused(by_person=False)
    model.teardown()
    assert model.cluster.records["cpu-1"].memory == 1


@pytest.mark.parametrize("leaves", [False, True])
def test_a_node_that_a_person_set_down_stays_so_when_slurm_refuses_it(leaves: bool) -> None:
    model = down_and_refused(by_person=True)
    model.edit_the_number(1 if leaves else 2)
    model.teardown()
    record = model.cluster.records["cpu-1"]
    assert (record.base, record.reason, record.memory) == ("DOWN", "alice: bad DIMM", 2)


def removed_under_its_own_drain() -> None:
    """A sick node leaves with the scale-in, and recovers before its pod goes: it lifts its drain and takes a job."""
    model = played(2)
    goes_on(model, 4)
    model.a_nodes_machine_gets_sick_or_recovers(1, sick=True)
    model.edit_the_number(1)
    model.the_operator_passes()
    model.nodes_recover_between_a_decision_and_its_action({1}, starts=True)
    for _ in range(2):
        model.kubernetes_steps()
        model.no_node_serves_while_it_is_removed()
        model.the_operator_passes()
    model.teardown()


def test_a_sick_node_that_leaves_is_drained_for_that_first() -> None:
    removed_under_its_own_drain()


def test_a_removal_that_builds_on_the_nodes_own_drain_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    may_become = drains.may_become

    def unless_drained(node: SlurmNode, reason: str) -> bool:
        return drains.owner(node) is not drains.Owner.UNFIT and may_become(node, reason)

    monkeypatch.setattr(drains, "is_held", drains.is_drained)
    monkeypatch.setattr(drains, "may_become", unless_drained)
    with pytest.raises(AssertionError, match="cpu-1 goes under a job"):
        removed_under_its_own_drain()


def shrinking_in_a_deep_queue() -> Model:
    model = played(2)
    model.cluster.memory = 2
    for name, record in model.cluster.records.items():
        record.memory = model.cluster.pods[name].memory = 2
    model.many_jobs_are_submitted_or_end()
    model.change_the_size_of_nodes(1)
    return model


def test_a_rebooted_node_that_slurm_refuses_is_started_anew_once() -> None:
    """Slurm refuses each pod under that record, which an update replaces."""
    model = played(2)
    for name, record in model.cluster.records.items():
        record.memory = model.cluster.pods[name].memory = 2
    model.an_administrator_reboots(1)
    model.slurm_issues_reboots()
    model.change_the_size_of_nodes(1)
    goes_on(model, 12)
    model.teardown()
    assert (model.cluster.records["cpu-1"].memory, model.cluster.records["cpu-1"].reason) == (1, "")


def test_a_rebooted_node_that_slurm_refuses_for_another_cause_is_started_anew_once() -> None:
    model = played(2)
    model.a_machine_loses_a_gpu_or_gets_it_back(1)
    model.an_administrator_reboots(1)
    model.slurm_issues_reboots()
    before = model.cluster.pods["cpu-1"].uid
    goes_on(model, 2)
    pod = model.cluster.pods["cpu-1"].uid
    goes_on(model, 6)
    assert model.cluster.pods["cpu-1"].uid == pod != before
    assert model.cluster.records["cpu-1"].refused == TOO_FEW
    model.a_machine_loses_a_gpu_or_gets_it_back(1)
    goes_on(model, 1)
    assert model.cluster.usable() == ["cpu-0", "cpu-1"]
    model.teardown()
