"""Values of Slurm's keys that this program chooses: each stands in its file, and an option replaces it."""

from __future__ import annotations

from typing import Any

import pytest

from components.config import Config, parse
from components.config.slurm_keys import defaults
from components.config.slurm_keys.defaults import Chosen
from components.slurm.conf import slurm_conf
from tests.unit.samples import SMALL, changed

LARGE = changed(
    "partitions",
    [{"name": "main", "nodeSets": ["cpu"], "maxTime": "7-00:00:00"}],
    changed("nodeSets.0.replicas", 1000),
)
IN_SLURM_CONF = pytest.mark.parametrize("chosen", defaults.SLURM_CONF, ids=lambda row: row.word or row.key)
IN_CGROUP_CONF = pytest.mark.parametrize("chosen", defaults.CGROUP_CONF, ids=lambda row: row.key)


def values(text: str, key: str) -> list[str]:
    """Values of a key in a file."""
    return [line.partition("=")[2] for line in text.splitlines() if line.startswith(f"{key}=")]


def said(raw: dict[str, Any], chosen: Chosen) -> list[str]:
    """Return the value of a key of slurm.conf, or the items of one word of its list."""
    (value,) = values(slurm_conf.slurm_conf(parse(raw)), chosen.key)
    if not chosen.word:
        return [value]
    return [item for item in value.split(",") if item.partition("=")[0] == chosen.word]


def with_option(chosen: Chosen, value: str) -> dict[str, Any]:
    return changed("slurm.options", {chosen.key: value}, LARGE)


def test_a_cluster_of_1000_nodes_and_jobs_of_a_week_has_all_of_them() -> None:
    found = {row.word or row.key: said(LARGE, row) for row in defaults.SLURM_CONF}
    assert found == {
        "MessageTimeout": ["30"],
        "TCPTimeout": ["10"],
        "conmgr_max_connections": ["conmgr_max_connections=2048"],
        "SlurmdTimeout": ["300"],
        "MinJobAge": ["300"],
        "EnforcePartLimits": ["NO"],
        "enable_expedited_requeue": ["enable_expedited_requeue"],
        "bf_continue": ["bf_continue"],
        "bf_window": ["bf_window=10080"],
        "bf_resolution": ["bf_resolution=420"],
    }


def test_a_small_cluster_keeps_slurms_own_times_and_window() -> None:
    text = slurm_conf.slurm_conf(parse(SMALL))
    assert values(text, "MessageTimeout") == values(text, "TCPTimeout") == []
    assert not {"conmgr_max_connections", "bf_window", "bf_resolution"} & {
        item.partition("=")[0]
        for key in ("SlurmctldParameters", "SchedulerParameters")
        for item in values(text, key)[0].split(",")
    }


@pytest.mark.parametrize(
    ("limits", "window", "resolution"),
    [
        (["UNLIMITED"], None, None),
        (["1-0"], None, None),
        (["1-00:00:01"], "1441", "120"),
        (["12:00:00", "UNLIMITED", "3-0"], "4320", "180"),
        (["60-0"], "43200", "600"),
    ],
)
def test_backfill_looks_as_far_as_the_longest_time_limit(
    limits: list[str], window: str | None, resolution: str | None
) -> None:
    partitions = [{"name": f"p{number}", "nodeSets": ["cpu"], "maxTime": at} for number, at in enumerate(limits)]
    raw = changed("partitions", partitions)
    by_word = {row.word: said(raw, row) for row in defaults.SLURM_CONF if row.word in ("bf_window", "bf_resolution")}
    assert by_word == {
        "bf_window": [f"bf_window={window}"] if window else [],
        "bf_resolution": [f"bf_resolution={resolution}"] if resolution else [],
    }


@pytest.mark.parametrize(("nodes", "connections"), [(512, None), (513, "2048"), (3000, "4096"), (30_000, "4096")])
def test_slurmctld_takes_a_connection_of_each_node_up_to_linux_queue(nodes: int, connections: str | None) -> None:
    facts = defaults.Facts(slurm_conf.max_node_count(nodes), 0)
    found = [item for item in defaults.items("SlurmctldParameters", facts) if item.startswith("conmgr")]
    assert found == ([f"conmgr_max_connections={connections}"] if connections else [])


@IN_SLURM_CONF
def test_an_option_replaces_the_value(chosen: Chosen) -> None:
    if not chosen.word:
        other = "ALL" if chosen.key == "EnforcePartLimits" else "77"
        assert said(with_option(chosen, other), chosen) == [other]
    elif "=" in said(LARGE, chosen)[0]:
        assert said(with_option(chosen, f"{chosen.word}=77"), chosen) == [f"{chosen.word}=77"]
    else:
        assert said(with_option(chosen, chosen.word), chosen) == [chosen.word]


@pytest.mark.parametrize("chosen", [row for row in defaults.SLURM_CONF if row.word], ids=lambda row: row.word)
def test_a_minus_takes_a_word_out_and_leaves_the_others(chosen: Chosen) -> None:
    before, after = (
        set(values(slurm_conf.slurm_conf(parse(raw)), chosen.key)[0].split(","))
        for raw in (LARGE, with_option(chosen, f"-{chosen.word}"))
    )
    assert before - after == set(said(LARGE, chosen))
    assert after - before == set()


@IN_CGROUP_CONF
def test_cgroup_options_replace_the_value(chosen: Chosen) -> None:
    def found(config: Config) -> list[str]:
        return values(slurm_conf.cgroup_conf(config), chosen.key)

    assert found(parse(SMALL)) == [chosen.slurms]
    assert found(parse(changed("slurm.cgroupOptions", {chosen.key: "yes"}))) == ["yes"]
