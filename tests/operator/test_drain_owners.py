"""Drains have owners: reason and author tell whose drain a node carries."""

from __future__ import annotations

import dataclasses

import pytest
from slurm_operator import drains
from slurm_operator.drains import Owner
from slurm_operator.state.slurm import SlurmNode

from contract import reasons
from tests.operator.states.repairs import UNFIT, repaired, unfit
from tests.operator.states.sets import node


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
        (by_slurm("a", reasons.UPDATE, "FAIL"), Owner.FOREIGN),
    ],
)
def test_a_drain_is_told_by_its_reason(seen: SlurmNode, whose: Owner | None) -> None:
    assert drains.owner(seen) is whose
