"""Lists of nodes as slurmctld writes them are expanded, and what is none is refused."""

from __future__ import annotations

import pytest
from slurm_operator.clients.slurm import hostlist


@pytest.mark.parametrize(
    ("expression", "names"),
    [
        ("", []),
        ("cpu-0", ["cpu-0"]),
        ("cpu-[0-2,7],gpu-1", ["cpu-0", "cpu-1", "cpu-2", "cpu-7", "gpu-1"]),
        ("n[08-10]", ["n08", "n09", "n10"]),
        ("r[1-2]n[1-2]", ["r1n1", "r1n2", "r2n1", "r2n2"]),
    ],
)
def test_node_lists_are_expanded(expression: str, names: list[str]) -> None:
    assert sorted(hostlist.expand(expression)) == names


@pytest.mark.parametrize("expression", ["cpu-[0-", "cpu-]3[", "a[b-c]", ",a", "a,", "n[3-1]", "n[0-999999999]"])
def test_a_node_list_that_is_none_is_refused(expression: str) -> None:
    with pytest.raises(ValueError, match=r"node"):
        hostlist.expand(expression)


@pytest.mark.parametrize(
    "expression",
    ["n[0-99999][0-99999][0-99999]", f"n[{','.join(['0-99999'] * 50)}]", ",".join(["n[0-9999]"] * 50)],
    ids=["product", "in brackets", "repeated"],
)
def test_a_user_makes_no_endless_list_of_nodes(expression: str) -> None:
    with pytest.raises(ValueError, match="too many nodes"):
        hostlist.expand(expression)
