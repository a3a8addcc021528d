"""Drains have owners: reason and author tell whose drain a node carries."""

from __future__ import annotations

import dataclasses

import pytest
from slurm_operator import drains
from slurm_operator.actions import RestoreReason
from slurm_operator.decide.node_sets import preconditions
from slurm_operator.drains import Owner
from slurm_operator.state.resources import KeptDrain
from slurm_operator.state.slurm import SlurmNode

from contract import policies, reasons
from tests.operator.states.repairs import UNFIT, repaired, unfit
from tests.operator.states.sets import node

LOW = "Low RealMemory"
FEW = "gres/gpu count reported lower than configured (3 < 4)"


def by_slurm(name: str, reason: str, *flags: str) -> SlurmNode:
    return node(name, "IDLE", "DRAIN", *flags, reason=reason, reason_user="slurm")


@pytest.mark.parametrize(
    ("seen", "whose"),
    [
        (node("a"), None),
        (dataclasses.replace(node("a"), reason=UNFIT), None),
        (node("a"), None),
        (unfit("a"), Owner.UNFIT),
        (unfit("a", "pulumi-slurm:jail: stale"), Owner.UNFIT),
        (unfit("a", "pulumi-slurm:healthy"), Owner.FOREIGN),
        (dataclasses.replace(unfit("a", "pulumi-slurm:node k is not ready"), reason_user="slurm"), Owner.K8S_NODE),
        (unfit("a", "pulumi-slurm:node k is not ready"), Owner.FOREIGN),
        (unfit("a", "pulumi-slurm:update"), Owner.FOREIGN),
        (unfit("a", "pulumi-slurm:scale-in"), Owner.FOREIGN),
        (repaired("a"), Owner.REPAIR),
        (dataclasses.replace(repaired("a"), reason_user="root"), Owner.FOREIGN),
        (unfit("a", "a fan is broken"), Owner.FOREIGN),
        (unfit("a", ""), Owner.FOREIGN),
        (by_slurm("a", reasons.UPDATE), Owner.UPDATE),
        (by_slurm("a", f"{reasons.UPDATE}{reasons.DEADLINE_PASSED}"), Owner.UPDATE),
        (by_slurm("a", f"{reasons.UPDATE} of mine"), Owner.FOREIGN),
        (by_slurm("a", reasons.SCALE_IN), Owner.SCALE_IN),
        (by_slurm("a", reasons.NEW), Owner.NEW),
        (by_slurm("a", f"{reasons.UNTESTED}diag"), Owner.UNTESTED),
        (unfit("a", f"{reasons.UNTESTED}diag"), Owner.FOREIGN),
        (by_slurm("a", "Low RealMemory", "INVALID_REG"), Owner.SLURM),
        (by_slurm("a", "Low RealMemory"), Owner.FOREIGN),
        (by_slurm("a", FEW), Owner.SLURM),
        (unfit("a", FEW), Owner.FOREIGN),
        (node("a", "IDLE", "DRAIN", reason=FEW, reason_user="alice"), Owner.FOREIGN),
        (by_slurm("a", f"{FEW}, says alice"), Owner.FOREIGN),
        (by_slurm("a", f"{FEW}, Low CPUs, {LOW} (reported:7 < 100.00% of configured:8), Low TmpDisk"), Owner.SLURM),
        (by_slurm("a", reasons.REBOOT_ASAP, "REBOOT_REQUESTED"), Owner.FOREIGN),
        (by_slurm("a", reasons.REBOOT_ASAP, "REBOOT_ISSUED"), Owner.FOREIGN),
        (by_slurm("a", reasons.REBOOT_ASAP), Owner.SLURM),
        (by_slurm("a", reasons.UPDATE, "FAIL"), Owner.FOREIGN),
    ],
)
def test_a_drain_is_told_by_its_reason(seen: SlurmNode, whose: Owner | None) -> None:
    assert drains.owner(seen) is whose


BY_ALICE = KeptDrain("a", "bad fan", "alice")


@pytest.mark.parametrize(
    ("listed", "words"),
    [
        (by_slurm("a", LOW, "INVALID_REG"), ("bad fan", "alice", LOW)),
        (by_slurm("a", LOW, "INVALID_REG", "FAIL"), ("bad fan", "alice", LOW)),
        (node("a", "DOWN", "INVALID_REG", reason=LOW, reason_user="slurm"), ("bad fan", "alice", LOW)),
        (by_slurm("a", "alice: bad fan", "INVALID_REG"), ("bad fan", "alice", "alice: bad fan")),
        (by_slurm("a", "alice: bad fan"), ("bad fan", "alice", "alice: bad fan")),
        (node("a", "INVALID_REG", "IDLE", reason=LOW, reason_user="slurm"), (LOW, "slurm", "")),
        (node("a", "IDLE", "DRAIN", reason="rma", reason_user="bob"), ("rma", "bob", "")),
        (by_slurm("a", reasons.UPDATE, "INVALID_REG"), (reasons.UPDATE, "slurm", "")),
        (by_slurm("a", "Kill task failed"), ("Kill task failed", "slurm", "")),
        (by_slurm("b", LOW, "INVALID_REG"), (LOW, "slurm", "")),
        (by_slurm("a", FEW), ("bad fan", "alice", FEW)),
    ],
)
def test_a_kept_drain_stays_its_authors_whatever_slurm_writes(listed: SlurmNode, words: tuple[str, str, str]) -> None:
    (seen,) = drains.with_kept_words({listed.name: listed}, (BY_ALICE,)).values()
    assert (seen.reason, seen.reason_user, seen.replaced_by) == words
    assert drains.owner(seen) is not Owner.SLURM or listed.name == "b"


def test_what_is_kept_is_what_was_said_first_until_it_is_lifted() -> None:
    said = node("a", "IDLE", "DRAIN", reason="bad fan", reason_user="alice")
    assert drains.kept([said, by_slurm("b", reasons.UPDATE), node("c")]) == (BY_ALICE,)
    for later in (by_slurm("a", LOW, "INVALID_REG"), by_slurm("a", drains.signed(BY_ALICE))):
        assert drains.kept(drains.with_kept_words({"a": later}, (BY_ALICE,)).values()) == (BY_ALICE,)
    lifted = node("a", "IDLE", "INVALID_REG")
    assert drains.kept(drains.with_kept_words({"a": lifted}, (BY_ALICE,)).values()) == ()


def test_who_set_a_node_down_is_kept_unless_slurm_did() -> None:
    by_alice = node("a", "DOWN", reason="bad fan", reason_user="alice")
    rebooted = node("b", "DOWN", "REBOOT_ISSUED", reason="reboot requested", reason_user="slurm")
    refused = node("c", "DOWN", "INVALID_REG", reason=LOW, reason_user="slurm")
    assert drains.kept([by_alice, rebooted, refused]) == (BY_ALICE,)


def test_a_persons_drain_stays_so_when_slurm_reboots_the_node_and_then_refuses_it() -> None:
    """Slurm names itself as the author of that drain when it reboots the node."""
    rebooted = by_slurm("a", "bad fan", "DOWN", "REBOOT_ISSUED")
    kept = drains.kept([rebooted])
    for stands in (LOW, "slurm: bad fan"):
        (seen,) = drains.with_kept_words({"a": by_slurm("a", stands, "INVALID_REG")}, kept).values()
        assert (seen.reason, drains.owner(seen)) == ("bad fan", Owner.FOREIGN)
        assert drains.kept([seen]) == kept


def test_the_drain_of_a_reboot_ends_with_it_and_is_not_kept() -> None:
    asked = node("a", "IDLE", "DRAIN", "REBOOT_REQUESTED", reason=reasons.REBOOT_ASAP, reason_user="alice")
    issued = by_slurm("b", reasons.REBOOT_ASAP, "REBOOT_ISSUED")
    assert drains.kept([asked, issued]) == ()
    by_alice = node("c", "IDLE", "DRAIN", "REBOOT_REQUESTED", reason="bad fan", reason_user="alice")
    assert drains.kept([by_alice]) == (KeptDrain("c", "bad fan", "alice"),)


def test_words_are_written_back_only_in_the_place_of_slurms_own() -> None:
    back = RestoreReason("a", "alice: bad fan")
    others = [by_slurm("a", LOW), by_slurm("a", reasons.UPDATE, "INVALID_REG"), unfit("a"), node("a", "INVALID_REG")]
    by_bob = node("a", "IDLE", "DRAIN", "INVALID_REG", reason="rma", reason_user="bob")
    assert not any(preconditions.hold(back, now) for now in (*others, by_bob))
    assert preconditions.hold(back, by_slurm("a", LOW, "INVALID_REG"))


def test_a_refused_node_is_anybodys_once_no_more_drains_can_be_kept() -> None:
    many = tuple(KeptDrain(f"n{number}", "rack", "alice") for number in range(policies.MOST_DRAINS_KEPT))
    refused = by_slurm("a", LOW, "INVALID_REG")
    assert drains.owner(drains.with_kept_words({"a": refused}, many[1:])["a"]) is Owner.SLURM
    assert drains.owner(drains.with_kept_words({"a": refused}, many)["a"]) is Owner.FOREIGN
