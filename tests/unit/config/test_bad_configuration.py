"""Each wrong value of the configuration is refused, with its path and what would be right."""

from __future__ import annotations

from typing import Any

import pytest

from components.config import ConfigurationError, parse
from tests.unit.config.wrong_health import CHECK
from tests.unit.config.wrong_partitions import PARTITION
from tests.unit.config.wrong_services import USER
from tests.unit.config.wrong_values import WRONG_VALUES
from tests.unit.samples import GPU_SET, SMALL, changed


@pytest.mark.parametrize(
    ("path", "value", "expected"), WRONG_VALUES, ids=[f"{path}={value!r}"[:70] for path, value, _ in WRONG_VALUES]
)
def test_a_wrong_value_is_refused_with_its_path_and_what_would_be_right(path: str, value: Any, expected: str) -> None:
    gpus = path.startswith(("gpuOperator", "nodeSets.0.gpus."))
    raw = changed(path, value, changed("nodeSets.0.gpus", {"type": "h100", "perNode": 2}) if gpus else SMALL)
    with pytest.raises(ConfigurationError) as refused:
        parse(raw)
    assert expected in str(refused.value)


def test_node_feature_discovery_is_brought_once() -> None:
    network = {"mode": "install", "pools": [{"name": "fabric"}]}
    raw = changed("networkOperator", network, changed("gpuOperator.mode", "install"))
    assert parse(raw)
    with pytest.raises(ConfigurationError, match=r"want false for one of gpuOperator and networkOperator"):
        parse(changed("networkOperator.nodeFeatureDiscovery", True, raw))


def test_checks_of_gpus_that_are_only_to_come_are_refused() -> None:
    raw = changed("checks.cluster", True, changed("gpuOperator.mode", "install"))
    with pytest.raises(
        ConfigurationError, match=r"checks\.cluster: got true; want false while gpuOperator.mode is install"
    ):
        parse(raw)


def test_gpus_that_another_plugin_offers_need_no_gpu_operator() -> None:
    gpus = {"type": "mi300", "perNode": 8, "resource": "amd.com/gpu", "devices": "/dev/dri/renderD[128-135]"}
    raw = changed("nodeSets.0.gpus", {**gpus, "runtimeClass": "none"}, changed("gpuOperator.mode", "off"))
    assert parse(raw).node_sets[0].node_gres == "gpu:mi300:8"


def test_a_folder_of_people_in_var_may_be_persistent() -> None:
    assert parse(changed("jail.persistent", ["/var/www"])).jail.persistent == ["/var/www"]


def test_a_gpu_set_is_right() -> None:
    assert parse(changed("nodeSets", [GPU_SET])).node_sets[0].node_gres == "gpu:h100:8"


def test_a_secret_for_our_own_database_is_of_no_use_to_another() -> None:
    raw = changed("credentials.existingDatabaseSecret", "mine", changed("accounting", {"mode": "off"}))
    with pytest.raises(ConfigurationError, match=r"existingDatabaseSecret: got 'mine'; want nothing: accounting\.mode"):
        parse(raw)


def test_a_long_check_of_several_nodes_fits_its_partition() -> None:
    check = {"name": "a", "partition": "checks", "script": "/opt/a", "nodes": 3}
    partition = {"name": "checks", "nodeSets": ["cpu"], "maxNodes": 2}
    raw = changed("health.longChecks", [check], changed("partitions", [partition]))
    with pytest.raises(ConfigurationError) as refused:
        parse(raw)
    assert "want a partition that takes jobs of 3 nodes: maxNodes 2 of checks" in str(refused.value)


def test_core_specialization_leaves_a_socket_where_jobs_take_sockets() -> None:
    options = {"Sockets": 2, "CoresPerSocket": 4, "CoreSpecCount": 4}
    raw = changed("nodeSets.0.options", options, changed("nodeSets.0.resources.cpu", 8))
    raw = changed("slurm", {"constrainCores": True, "options": {"SelectTypeParameters": "CR_Socket_Memory"}}, raw)
    assert parse(raw)
    all_sockets = changed("nodeSets.0.options.CoreSpecCount", 5, raw)
    assert parse(changed("slurm.options.SelectTypeParameters", "CR_Core_Memory", all_sockets))
    assert parse(changed("slurm.options.AllowSpecResourcesUsage", "yes", all_sockets))
    with pytest.raises(
        ConfigurationError, match=r"options\.CoreSpecCount: got 5; want cores of fewer sockets, or anoth"
    ):
        parse(all_sockets)


def test_an_operator_that_sees_no_kubernetes_nodes_replaces_none() -> None:
    raw = changed("nodeSets.0.reactions", {"replace": True}, changed("operator.watchNodes", False))
    with pytest.raises(ConfigurationError) as refused:
        parse(raw)
    assert "pulumi-slurm:nodeSets[0].reactions.replace: got true; want false beside operator" in str(refused.value)


@pytest.mark.parametrize(
    "key",
    ["MaxDBDMsgs", "PriorityMaxAge", "PriorityWeightAge", "PriorityWeightAssoc", "PriorityWeightQOS", "trackWCKey"],
)
def test_options_that_slurm_ignores_without_slurmdbd_take_accounting(key: str) -> None:
    raw = changed("slurm.options", {key: "1"})
    assert parse(raw)
    with pytest.raises(ConfigurationError) as refused:
        parse(changed("accounting", {"mode": "off"}, raw))
    want = f"slurm.options.{key}: got '1'; want nothing, or accounting.mode mariadb or external: without it this"
    assert want in str(refused.value)


@pytest.mark.parametrize("key", ["admin", "operator"])
def test_an_administrator_without_accounting_is_refused(key: str) -> None:
    raw = changed("login.users", [{**USER, key: True}], changed("accounting", {"mode": "off"}))
    with pytest.raises(ConfigurationError) as refused:
        parse(raw)
    assert f"pulumi-slurm:login.users[0].{key}: got true; want accounting.mode mariadb or external" in str(
        refused.value
    )


def test_an_operator_that_sees_no_kubernetes_nodes_reads_no_conditions_of_theirs() -> None:
    raw = changed("health.nodeConditions", [{"type": "KernelDeadlock"}], changed("operator.watchNodes", False))
    with pytest.raises(ConfigurationError) as refused:
        parse(raw)
    assert "pulumi-slurm:health.nodeConditions: got" in str(refused.value)
    assert "want nothing beside operator.watchNodes: false" in str(refused.value)


def test_a_key_of_slurm_conf_is_set_in_one_place() -> None:
    raw = changed("slurm.options", {"PriorityWeightAge": 5}, changed("accounting.priority", {"weightAge": 4}))
    with pytest.raises(ConfigurationError) as refused:
        parse(raw)
    assert "slurm.options.PriorityWeightAge: got 5; want nothing beside accounting.priority.weightAge" in str(
        refused.value
    )


def test_jobs_are_billed_by_all_that_accounting_counts() -> None:
    weights = "CPU=1.0,Mem=.25G,GRES/gpu=3,gres/gpu:H100=2.5K,gres/gpumem=1,fs/disk=1e-3,License/matlab=2"
    partition = {"name": "gpu", "nodeSets": ["h100"], "options": {"TRESBillingWeights": weights}}
    raw = changed("partitions", [partition], changed("nodeSets", [GPU_SET]))
    raw = changed("slurm.options", {"AccountingStorageTRES": "license/matlab", "PriorityWeightTRES": "GRES/gpu=9"}, raw)
    assert parse(raw)
    with pytest.raises(ConfigurationError) as refused:
        parse(changed("accounting", {"mode": "off"}, raw))
    assert "fs/disk), or accounting.mode mariadb or external, which counts more, in place of GRES/gpu" in str(
        refused.value
    )


def test_usage_ends_by_a_half_life_or_a_period() -> None:
    options = {"PriorityUsageResetPeriod": "MONTHLY"}
    assert parse(changed("accounting.priority.decayHalfLife", 0, changed("slurm.options", options)))


def test_a_half_life_without_accounting_is_refused_for_that_alone() -> None:
    raw = changed("accounting", {"mode": "off", "priority": {"decayHalfLife": 0}})
    with pytest.raises(ConfigurationError) as refused:
        parse(raw)
    (problem,) = map(str, refused.value.problems)
    assert "accounting.priority: got " in problem
    assert "want nothing: accounting.mode is off" in problem
    raw = changed("slurm.options", {"PriorityDecayHalfLife": 0}, changed("accounting", {"mode": "off"}))
    with pytest.raises(ConfigurationError, match=r"PriorityDecayHalfLife: got 0; want more than 0, or slurm\.options"):
        parse(raw)


def test_a_partitions_state_is_kept_by_slurm_or_declared() -> None:
    raw = changed("slurm.options", {"ReconfigFlags": "KeepPartState"}, changed("partitions", [{**PARTITION}]))
    assert parse(raw)
    with pytest.raises(ConfigurationError) as refused:
        parse(changed("partitions.0.state", "DOWN", raw))
    assert "partitions[0].state: got 'DOWN'; want nothing beside slurm.options.ReconfigFlags: KeepPart" in str(
        refused.value
    )


def test_a_long_check_fits_the_limits_of_its_partition() -> None:
    partition = {"name": "checks", "nodeSets": ["cpu"], "maxTime": "5", "minNodes": 2}
    raw = changed("health.longChecks", [{**CHECK, "partition": "checks"}], changed("partitions", [partition]))
    with pytest.raises(ConfigurationError) as refused:
        parse(raw)
    said = str(refused.value)
    assert "health.longChecks[0].timeLimit: got '10m'; want at most maxTime of partition checks (5)" in said
    assert (
        "health.longChecks[0].partition: got 'checks'; want a partition that takes jobs of one node: minNodes 2 of"
        in said
    )
