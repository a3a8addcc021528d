"""Slurm's configuration files, against golden files that a real slurmctld took."""

from __future__ import annotations

import pytest

from components.config import parse
from components.config.slurm_keys.plugin_names import CHOICES
from components.config.slurm_keys.slurm_options import ALLOWED, NOT, OWNED, REFUSED
from components.slurm.conf import gres_conf, slurm_conf
from tests.unit import golden_files
from tests.unit.samples import GPU_SET, SMALL, changed, config_with
from tests.unit.slurm.conf_lines import lines


@pytest.mark.parametrize("name", golden_files.STACKS)
def test_rendered_files_are_the_golden_ones(name: str) -> None:
    kept = {path.name: path.read_text() for path in (golden_files.FOLDER / name).iterdir()}
    assert slurm_conf.files(golden_files.stack(name)) == kept, golden_files.AGAIN


def test_no_line_names_a_plugstack_file_and_the_plugin_is_required_by_an_absolute_path() -> None:
    config = parse(SMALL)
    assert "PlugStackConfig" not in lines(config)
    assert slurm_conf.plugstack_conf(config) == "required /opt/slurm/lib/slurm-wlm/spank_jail.so jail=/run/jail\n"


def test_every_key_that_we_write_is_known_and_each_is_written_once() -> None:
    written = [line.split("=", 1)[0] for line in slurm_conf.slurm_conf(config_with("nodeSets", [GPU_SET])).splitlines()]
    settings = [key for key in written if key not in ("NodeSet", "PartitionName")]
    assert [key for key in settings if key.lower() not in ALLOWED.keys() | OWNED.keys()] == []
    assert len(settings) == len(set(settings))


def test_a_key_is_ours_or_refused_or_allowed() -> None:
    """tests/image/configuration/test_options.py compares the three lists with the installed Slurm."""
    assert OWNED.keys() & REFUSED.keys() == set()
    taken = ALLOWED.keys() & (OWNED.keys() | REFUSED.keys())
    assert taken == set(), "take them out of components/config/slurm_keys/slurm_conf_keys.txt"
    assert ALLOWED.keys() >= CHOICES.keys() | NOT.keys()


def test_every_key_that_we_write_is_ours_or_may_be_set() -> None:
    """A key that an option may replace must not be one that the jail or the pods rely on."""
    config = config_with("nodeSets", [GPU_SET])
    replaceable = {key for key in lines(config) if key.lower() not in OWNED and key != "NodeSet"}
    assert replaceable == {
        "CommunicationParameters",
        "JobSubmitPlugins",
        "ResumeTimeout",
        "SlurmctldParameters",
        "SlurmdParameters",
        "TaskPlugin",
        "AccountingStorageTRES",
        "PriorityType",
        "PriorityWeightAge",
        "PriorityWeightFairshare",
        "PriorityWeightJobSize",
        "PriorityWeightPartition",
        "PriorityWeightQOS",
        "PriorityMaxAge",
        "PriorityDecayHalfLife",
        "GroupUpdateTime",
        "JobAcctGatherType",
        "PropagateResourceLimitsExcept",
        "SelectTypeParameters",
        "PrologTimeout",
        "PrologFlags",
        "SchedulerParameters",
        "LaunchParameters",
        "MpiDefault",
        "SlurmdTimeout",
        "MinJobAge",
        "EnforcePartLimits",
    }


def test_items_of_lists_are_added_to_ours() -> None:
    options = {
        "SchedulerParameters": "bf_interval=60,nohold_on_prolog_fail",
        "SlurmctldParameters": "user_resv_delete",
    }
    found = lines(config_with("slurm.options", options))
    assert found["SchedulerParameters"] == "nohold_on_prolog_fail,bf_continue,bf_interval=60"
    ours = "enable_configless,reconfig_on_restart,enable_expedited_requeue"
    assert found["SlurmctldParameters"] == f"{ours},user_resv_delete"


def test_a_task_plugin_replaces_none_and_joins_cgroup() -> None:
    options = {"TaskPlugin": "task/affinity"}
    with_limits = changed("slurm.options", options)
    assert lines(parse(with_limits))["TaskPlugin"] == "task/cgroup,task/affinity"
    without = changed("slurm.cgroupPlugin", "disabled", with_limits)
    assert lines(parse(without))["TaskPlugin"] == "task/affinity"


def test_plugins_are_named_with_their_kind_or_without() -> None:
    """Slurm takes both, and files of sites have both."""
    options = {
        "TaskPlugin": "affinity,cgroup",
        "AcctGatherEnergyType": "gpu",
        "JobSubmitPlugins": "job_submit/require_timelimit,defaults",
        "CliFilterPlugins": "cli_filter/user_defaults",
    }
    found = lines(config_with("slurm.options", options))
    assert {key: found[key] for key in options} == {
        "TaskPlugin": "task/cgroup,task/affinity",
        "AcctGatherEnergyType": "acct_gather_energy/gpu",
        "JobSubmitPlugins": "jail,require_timelimit,defaults",
        "CliFilterPlugins": "user_defaults",
    }


def test_no_plugin_is_meant_by_none_in_any_case() -> None:
    """As slurm.conf's reader takes it (xstrcasestr in read_config.c)."""
    options = {"MpiDefault": "None", "JobCompType": "JobComp/NONE", "MCSPlugin": "mcs/None"}
    assert lines(config_with("slurm.options", options)).items() >= options.items()


@pytest.mark.parametrize("key", ["DefMemPerCPU", "DefMemPerGPU", "DefMemPerNode"])
def test_a_default_of_memory_for_the_cluster_holds_where_a_partition_has_none(key: str) -> None:
    """slurmctld takes the partition's before it (_get_def_mem of job_mgr.c)."""
    rows = [{"name": "main", "nodeSets": ["cpu"]}, {"name": "own", "nodeSets": ["cpu"], "defMemPerCpu": "512Mi"}]
    text = slurm_conf.slurm_conf(parse(changed("slurm.options", {key: "2048"}, changed("partitions", rows))))
    assert f"{key}=2048\n" in text
    main, own = (line for line in text.splitlines() if line.startswith("PartitionName="))
    assert ("DefMem" in main, "DefMemPerCPU=512" in own) == (False, True)


def test_words_with_spaces_stand_in_quotes() -> None:
    """As slurm.conf(5) has it. `#` and quotes can't stand in them."""
    options = "--interactive --preserve-env --pty $SHELL"
    found = slurm_conf.slurm_conf(config_with("slurm.options", {"InteractiveStepOptions": options}))
    assert f'InteractiveStepOptions="{options}"' in found.splitlines()


def test_options_are_taken_in_any_case_and_written_in_slurms() -> None:
    assert lines(config_with("slurm.options", {"killwait": "31"}))["KillWait"] == "31"


def test_without_cgroups_no_plugin_needs_them() -> None:
    found = lines(config_with("slurm.cgroupPlugin", "disabled"))
    assert (found["ProctrackType"], found["TaskPlugin"]) == ("proctrack/linuxproc", "task/none")


@pytest.mark.parametrize(("wanted", "room"), [(0, 1024), (512, 1024), (513, 2048), (10_000, 32768), (40_000, 65536)])
def test_the_node_table_has_room_for_twice_the_nodes(wanted: int, room: int) -> None:
    assert slurm_conf.max_node_count(wanted) == room


def test_scaling_does_not_change_slurm_conf() -> None:
    assert lines(config_with("nodeSets.0.replicas", 2)) == lines(config_with("nodeSets.0.replicas", 200))


def test_a_job_that_names_no_memory_gets_its_cpus_share_of_the_poorest_node() -> None:
    small = {"name": "small", "replicas": 1, "resources": {"cpu": 2, "memory": "2304Mi"}}
    config = parse(
        changed("partitions", [{"name": "both", "nodeSets": ["h100", "small"]}], changed("nodeSets", [GPU_SET, small]))
    )
    assert "DefMemPerCPU=1024 " in slurm_conf.slurm_conf(config)


def test_a_slurm_node_set_never_has_the_name_of_a_node() -> None:
    """Pod names are DNS labels, which have no underscore."""
    for name in ("a", "gpu-0", "ns-a"):
        assert "_" in slurm_conf.slurm_node_set(name)
    assert len({slurm_conf.slurm_node_set(name) for name in ("a-b", "ab", "a-b-c")}) == 3


def test_gpu_nodes_find_their_gpus_and_jobs_see_no_other() -> None:
    config = config_with("nodeSets", [GPU_SET])
    assert gres_conf.text(config) == "NodeName=h100-[0-9999] AutoDetect=nvidia\nAutoDetect=off\n"
    assert "ConstrainDevices=yes\n" in slurm_conf.cgroup_conf(config)
    assert lines(config)["GresTypes"] == "gpu"


def test_each_node_set_finds_its_gpus_in_its_own_way() -> None:
    named = {**GPU_SET, "name": "mi300", "gpus": {"type": "mi300", "perNode": 1, "devices": "/dev/dri/renderD128"}}
    config = config_with("nodeSets", [SMALL["nodeSets"][0], GPU_SET, named])
    assert gres_conf.text(config).splitlines() == [
        "NodeName=h100-[0-9999] AutoDetect=nvidia",
        "NodeName=mi300-[0-9999] AutoDetect=off Name=gpu Type=mi300 File=/dev/dri/renderD128",
        "AutoDetect=off",
    ]


def test_without_gpus_slurm_looks_for_none() -> None:
    assert gres_conf.text(parse(SMALL)) == "AutoDetect=off\n"
    assert "ConstrainDevices" not in slurm_conf.cgroup_conf(parse(SMALL))


def test_the_lines_of_gpus_hold_for_every_node_that_a_set_may_have() -> None:
    few, many = (config_with("nodeSets", [{**GPU_SET, "replicas": count}]) for count in (1, 10_000))
    assert gres_conf.text(few) == gres_conf.text(many)
