"""slurm.options.SelectTypeParameters: what jobs take of a node."""

from __future__ import annotations

import pytest

from components.config import ConfigurationError, parse
from components.slurm.conf import slurm_conf
from tests.unit.samples import changed

OPTION = "slurm.options.SelectTypeParameters"


@pytest.mark.parametrize(
    ("given", "written"),
    [
        ("CR_CPU_Memory", "CR_CPU_Memory"),
        ("cr_socket_memory,CR_LLN", "cr_socket_memory,CR_LLN"),
        ("LL_SHARED_GRES,CR_Pack_Nodes", "CR_Core_Memory,LL_SHARED_GRES,CR_Pack_Nodes"),
        ("CR_ONE_TASK_PER_CORE", "CR_Core_Memory,CR_ONE_TASK_PER_CORE"),
    ],
)
def test_jobs_take_cores_unless_the_site_says_otherwise(given: str, written: str) -> None:
    text = slurm_conf.slurm_conf(parse(changed("slurm.options", {"SelectTypeParameters": given})))
    assert [line for line in text.splitlines() if line.startswith("SelectTypeParameters=")] == [
        f"SelectTypeParameters={written}"
    ]


@pytest.mark.parametrize(
    ("given", "want"),
    [
        ("CR_CPU", "want CR_CPU_Memory in place of CR_CPU: jobs take CPUs, and memory, which their limits depend on"),
        ("CR_Memory", "want CR_Core_Memory in place of CR_Memory: jobs take CPUs, and memory"),
        ("CR_CPU_Memory,CR_Core_Memory", "want one of CR_Core_Memory, CR_CPU_Memory"),
        ("CR_CPU_Memory,CR_ONE_TASK_PER_CORE", "want no CR_ONE_TASK_PER_CORE beside CR_CPU_Memory"),
        ("CR_CPU_Memory,CR_LL", "want words of slurm.conf(5), CR_Core_Memory, CR_CPU_Memory, CR_Socket_Memory,"),
    ],
)
def test_what_would_take_the_memory_limits_away_is_refused(given: str, want: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        parse(changed("slurm.options", {"SelectTypeParameters": given}))
    assert f"{OPTION}: got {given!r}; {want}" in str(refused.value)
