"""A user's heterogeneous job names a bounded number of nodes (native/doors/components_guard.c)."""

from __future__ import annotations

import pytest

from tests.native.message_programs import ALICE, PING, Ask

ALLOCATE, SUBMIT = 4025, 4028
MOST, BYTES = 256, 64 << 10


@pytest.mark.parametrize("kind", [ALLOCATE, SUBMIT])
def test_slurmctld_takes_no_heterogeneous_job_that_names_too_many_nodes(ask: Ask, kind: int) -> None:
    taken = {f"components:{MOST}:0", f"components:{MOST}:{BYTES // MOST}", f"components:1:{BYTES}", "components:0:0"}
    assert {ask("slurmctld", kind, ALICE, asked) for asked in taken} == {"read"}
    too_many = {f"components:{MOST + 1}:0", "components:999:3", f"components:1:{BYTES + 1}", f"components:2:{BYTES}"}
    assert {ask("slurmctld", kind, ALICE, asked) for asked in too_many} == {"refused"}


def test_other_messages_of_slurmctld_have_lists_of_any_length(ask: Ask) -> None:
    assert ask("slurmctld", PING, ALICE, "components:999:999") == "read"
