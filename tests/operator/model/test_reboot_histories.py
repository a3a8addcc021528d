"""Histories of `scontrol reboot`, and of nodes that Slurm itself drains, as the model of test_model.py plays them."""

from __future__ import annotations

import pytest
from slurm_operator.decide.cluster import status

from contract import names, reasons
from contract.conditions import Reason
from tests.operator.model.histories import goes_on, played
from tests.operator.model.random_walk import Model
from tests.operator.played.played_slurmctld import TOO_FEW, Job


def rebooted(model: Model, passes: int = 6) -> None:
    model.slurm_issues_reboots()
    goes_on(model, passes)


def told(model: Model) -> set[str]:
    """Return for which reasons the status names nodes."""
    cluster = model.cluster
    return {str(each.reason) for each in status.node_set(cluster.state().seen(cluster.listing(set())))[1]}


def test_a_reboot_asap_waits_for_the_job_under_its_drain_and_makes_one_pod() -> None:
    model = played(2)
    pods, runs = model.cluster.pods, Job("cpu-1")
    before = {name: pod.uid for name, pod in pods.items()}
    model.cluster.jobs.append(runs)
    model.an_administrator_reboots(1, asap=True)
    rebooted(model)
    assert model.cluster.usable() == ["cpu-0"]
    assert runs in model.cluster.jobs
    assert pods["cpu-1"].uid == before["cpu-1"], "the job runs on"
    model.cluster.jobs.clear()
    rebooted(model)
    after = pods["cpu-1"].uid
    goes_on(model, 6)
    assert (pods["cpu-0"].uid, pods["cpu-1"].uid) == (before["cpu-0"], after) != (before["cpu-0"], before["cpu-1"])
    assert model.cluster.usable() == ["cpu-0", "cpu-1"]
    assert model.cluster.foreign == {}
    model.teardown()


@pytest.mark.parametrize("asap", [False, True])
def test_a_persons_drain_of_before_stays_over_a_reboot(asap: bool) -> None:
    model = played(2)
    model.an_administrator_drains(1, "bad fan")
    before = model.cluster.pods["cpu-1"].uid
    model.an_administrator_reboots(1, asap=asap)
    rebooted(model)
    record = model.cluster.records["cpu-1"]
    assert (record.drained, record.reason, record.reboot) == (True, "bad fan", "")
    assert model.cluster.pods["cpu-1"].uid != before
    model.teardown()
    assert model.cluster.usable() == ["cpu-0"]


def test_a_persons_drain_stays_when_slurm_refuses_the_node_after_its_reboot() -> None:
    """The operator once took it for Slurm's, and the node left under the drain of its removal."""
    model = played(2)
    model.an_administrator_drains(1, "bad fan")
    model.an_administrator_reboots(1)
    model.a_machine_loses_a_gpu_or_gets_it_back(1)
    model.slurm_issues_reboots()
    goes_on(model, 2)
    assert model.cluster.records["cpu-1"].refused == TOO_FEW
    model.edit_the_number(1)
    goes_on(model, 6)
    assert model.cluster.records["cpu-1"].reason == "slurm: bad fan"
    model.teardown()


def test_a_node_that_slurm_refuses_after_a_reboot_asap_tells_the_cause() -> None:
    """The operator once wrote `Reboot ASAP` over it, as if that were a person's drain."""
    model = played(2)
    model.a_machine_loses_a_gpu_or_gets_it_back(1)
    model.an_administrator_reboots(1, asap=True)
    model.the_operator_passes()
    rebooted(model)
    record = model.cluster.records["cpu-1"]
    assert (record.drained, record.reason, record.user) == (True, TOO_FEW, names.SLURM_USER)
    model.a_machine_loses_a_gpu_or_gets_it_back(1)
    goes_on(model, 2)
    assert model.cluster.usable() == ["cpu-0", "cpu-1"]
    model.teardown()


@pytest.mark.parametrize("reason", ["", "new kernel"])
def test_the_drain_of_a_reboot_that_slurm_gave_up_ends_when_it_is_slurms_word(reason: str) -> None:
    """A `pulumi up` that takes long holds the new pod up. Then the old slurmd answers a ping."""
    model = played(2)
    model.an_administrator_reboots(1, asap=True, reason=reason)
    model.slurm_issues_reboots()
    model.hold = "pulumi up is under way"
    model.time_passes(601)
    rebooted(model)
    assert model.cluster.usable() == (["cpu-0"] if reason else ["cpu-0", "cpu-1"])
    assert model.cluster.foreign == ({"cpu-1": reason} if reason else {})
    model.teardown()


def test_a_pod_may_still_end_when_slurm_gives_its_reboot_up() -> None:
    """The node is DOWN then, and takes no job of which the end of the pod would be the end."""
    model = played(2)
    model.an_administrator_reboots(1)
    model.slurm_issues_reboots()
    model.the_operator_passes()
    assert model.cluster.pods["cpu-1"].phase == "ending"
    model.time_passes(601)
    model.slurm_issues_reboots()
    model.no_node_serves_while_it_is_removed()
    model.teardown()


def test_a_node_stays_down_after_its_reboot_if_a_person_asked_for_that() -> None:
    model = played(2)
    model.an_administrator_reboots(1, next_state="DOWN")
    rebooted(model)
    record = model.cluster.records["cpu-1"]
    assert (record.drained, record.reason) == (True, reasons.REBOOT_COMPLETE)
    model.teardown()
    assert model.cluster.usable() == ["cpu-0"]


def test_a_node_that_registers_with_all_its_gpus_again_serves_again() -> None:
    """Slurm leaves its drain, which is no person's word."""
    model = played(2)
    model.a_machine_loses_a_gpu_or_gets_it_back(1)
    model.cluster.register("cpu-1", 1, {}, all_gpus=False)
    goes_on(model, 3)
    assert model.cluster.seen("cpu-1").states >= {"DRAIN", "INVALID_REG"}
    assert told(model) == {Reason.NODES_DRAINED}
    assert model.cluster.drains == (), "nobody else said that"
    model.a_machine_loses_a_gpu_or_gets_it_back(1)
    model.kubernetes_steps()
    assert model.cluster.records["cpu-1"].reason == TOO_FEW
    assert told(model) == {Reason.NODES_DRAINED}
    model.the_operator_passes()
    assert model.cluster.usable() == ["cpu-0", "cpu-1"]
    model.teardown()


def test_a_persons_drain_of_a_node_that_lost_a_gpu_meanwhile_stays_his() -> None:
    model = played(2)
    model.an_administrator_drains(1, "bad fan")
    model.the_operator_passes()
    model.a_machine_loses_a_gpu_or_gets_it_back(1)
    model.cluster.register("cpu-1", 1, {drain.node: drain.reason for drain in model.cluster.drains}, all_gpus=False)
    model.a_machine_loses_a_gpu_or_gets_it_back(1)
    goes_on(model, 6)
    record = model.cluster.records["cpu-1"]
    assert (record.drained, record.reason, record.refused) == (True, "alice: bad fan", "")
    assert model.cluster.usable() == ["cpu-0"]
    model.teardown()
