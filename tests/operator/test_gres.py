"""Generic resources as slurmctld 26.05.5 shows them are those that slurmd registered."""

from __future__ import annotations

import pytest
from slurm_operator.gres import canonical


@pytest.mark.parametrize(
    ("registered", "shown"),
    [
        ("gpu:h100:8", "gpu:h100:8(S:0-1)"),
        ("gpu:h100:2,gpu:l40s:2,shard:2048", "gpu:h100:2,gpu:l40s:2,shard:h100:1K,shard:l40s:1K"),
        ("gpu:h100:1,gpu:1g.10gb:2,mps:300", "gpu:h100:1(S:0,2),gpu:1g.10gb:2(S:1),mps:h100:100,mps:1g.10gb:200"),
        ("fpga:u280:2,bandwidth:4096", "bandwidth:4K,fpga:u280:2"),
        ("", ""),
    ],
)
def test_a_record_shows_what_was_registered(registered: str, shown: str) -> None:
    assert canonical(shown) == canonical(registered)


@pytest.mark.parametrize("other", ["gpu:h100:7", "gpu:a100:8", "gpu:h100:8,shard:1", "shard:8", "gpu:h100:8K"])
def test_another_count_name_or_type_is_another_resource(other: str) -> None:
    assert canonical(other) != canonical("gpu:h100:8")


def test_what_nobody_can_read_stays_as_it_is() -> None:
    assert canonical("gpu:h100:no_consume:8") == "gpu:h100:no_consume:8"
