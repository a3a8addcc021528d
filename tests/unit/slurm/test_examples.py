"""slurm.conf files of five public sites in this project's configuration: previewed, and rendered as the sites say."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from components.config import parse
from components.slurm.conf import slurm_conf
from contract import names
from devcluster.machine.bootstrap import CHECKOUT
from tests.unit.samples import run_program

NODE_SET = f"kubernetes:{names.API_GROUP}/v1alpha1:NodeSet"
FOLDER = CHECKOUT / "examples"
SAID: dict[str, dict[str, str]] = {
    "genomedk": {
        "ClusterName": "genomedk",
        "AccountingStorageEnforce": "associations,limits",
        "JobSubmitPlugins": "lua,jail",
        "MaxJobCount": "100000",
        "MessageTimeout": "60",
        "MinJobAge": "30",
        "PriorityDecayHalfLife": "14-0",
        "PriorityFavorSmall": "NO",
        "PriorityMaxAge": "14-0",
        "PriorityType": "priority/multifactor",
        "PriorityWeightAge": "1000",
        "PriorityWeightFairshare": "10000",
        "PriorityWeightJobSize": "1000",
        "PriorityWeightPartition": "1000",
        "PriorityWeightQOS": "0",
        "PrologFlags": "Contain,Alloc",
        "SchedulerParameters": "nohold_on_prolog_fail,bf_continue,defer",
        "SlurmdTimeout": "300",
        "TaskPlugin": "task/cgroup",
    },
    "odyssey": {
        "AccountingStorageEnforce": "associations,limits,safe",
        "EnforcePartLimits": "ALL",
        "EpilogMsgTime": "10000",
        "HealthCheckInterval": "500",
        "Licenses": "bicepfs1:100,kovac_holyscratch:500,huttenhower:20,lumerical:10,blackhole:32",
        "MaxArraySize": "10000",
        "MaxJobCount": "150000",
        "MessageTimeout": "100",
        "MinJobAge": "300",
        "PreemptMode": "REQUEUE",
        "PreemptType": "preempt/partition_prio",
        "PriorityDecayHalfLife": "2-0",
        "PriorityMaxAge": "7-0",
        "PriorityWeightFairshare": "20000000",
        "PriorityWeightPartition": "100000000",
        "PriorityWeightQOS": "1000000000",
        "SchedulerParameters": "nohold_on_prolog_fail,bf_continue,default_queue_depth=50,partition_job_depth=1,"
        "bf_interval=60,bf_window=2880,bf_resolution=3600,bf_max_job_test=50000,bf_max_job_part=50000,"
        "bf_max_job_user=10,bf_max_job_start=100,max_rpc_cnt=8",
        "SlurmdTimeout": "300",
    },
    "hfcluster": {
        "EnforcePartLimits": "ALL",
        "GresTypes": "gpu",
        "KillWait": "30",
        "MessageTimeout": "60",
        "MinJobAge": "300",
        "ReconfigFlags": "KeepPartState",
        "ResumeTimeout": "1800",
        "SlurmctldTimeout": "300",
        "SlurmdTimeout": "180",
        "TaskPlugin": "task/cgroup,task/affinity",
    },
    "biomedia": {
        "ClusterName": "biomediacluster",
        "AccountingStorageEnforce": "associations,limits",
        "DebugFlags": "Gres",
        "DefMemPerCPU": "2048",
        "GresTypes": "gpu",
        "InactiveLimit": "7200",
        "JobAcctGatherType": "jobacct_gather/linux",
        "MaxArraySize": "32000",
        "MaxJobCount": "25000",
        "MinJobAge": "300",
        "PriorityCalcPeriod": "5",
        "PriorityDecayHalfLife": "7-0",
        "PriorityFavorSmall": "YES",
        "PriorityMaxAge": "7-0",
        "PriorityUsageResetPeriod": "NONE",
        "PriorityWeightAge": "2000",
        "PriorityWeightFairshare": "10000",
        "PriorityWeightJobSize": "3000",
        "PriorityWeightPartition": "1000",
        "SchedulerType": "sched/builtin",
        "SelectTypeParameters": "CR_CPU_Memory",
        "SlurmctldTimeout": "120",
        "TaskPlugin": "task/cgroup",
    },
    "pal": {
        "ClusterName": "compute-cluster",
        "DebugFlags": "CPU_Bind,gres",
        "DefMemPerGPU": "30000",
        "GresTypes": "gpu,mps",
        "JobAcctGatherType": "jobacct_gather/cgroup",
        "MinJobAge": "300",
        "SelectTypeParameters": "CR_Core_Memory,CR_CORE_DEFAULT_DIST_BLOCK,CR_ONE_TASK_PER_CORE",
        "SlurmctldDebug": "error",
        "SlurmctldTimeout": "300",
        "TaskPlugin": "task/cgroup",
    },
}
"""Site → lines of its own slurm.conf, as they are rendered here."""
PARTITIONS = {
    "genomedk": {
        "normal": {"Default=YES", "MaxTime=UNLIMITED", "DefaultTime=2-00:00:00", "DefMemPerCPU=1024"},
        "express": {"MaxTime=01:00:00", "DefMemPerCPU=1024"},
        "fat1": {"MaxTime=UNLIMITED", "DefaultTime=7-00:00:00"},
        "fat2": {"MaxTime=UNLIMITED", "DefaultTime=7-00:00:00"},
    },
    "odyssey": {
        "serial_requeue": {"Default=YES", "MaxTime=1-0", "MaxNodes=1", "PreemptMode=REQUEUE", "PriorityTier=1"},
        "general": {"MaxTime=7-0", "PriorityTier=2", "AllowAccounts=rc_admin,cluster_users", "DefMemPerCPU=100"},
        "unrestricted": {"OverSubscribe=FORCE:4", "PriorityTier=2"},
        "interact": {"MaxTime=3-0", "PriorityTier=10"},
        "bigmem": {"AllowAccounts=rc_admin,slurm_group_bigmem"},
        "gpgpu": {"PriorityTier=10"},
        "davis": {"AllowAccounts=rc_admin,davis_lab"},
        "hernquist": {"MaxTime=7-0"},
        "kuang": {"PriorityTier=20", "PriorityJobFactor=20"},
    },
    "hfcluster": {"train-p4de24xlarge": {"Default=YES", "MaxTime=UNLIMITED", "State=UP"}},
    "biomedia": {
        "long": {"Default=YES", "MaxTime=43200"},
        "rocsLong": {"Default=NO", "MaxTime=43200", "Nodes=ns_roc01"},
        "gpus": {"MaxTime=10080"},
        "interactive": {"MaxTime=4320", "PriorityTier=7000", "PriorityJobFactor=7000"},
    },
    "pal": {"PAL1": {"Default=YES", "MaxTime=UNLIMITED", "State=UP"}},
}


def raw(site: str) -> dict[str, Any]:
    content = yaml.safe_load((FOLDER / f"Pulumi.{site}.yaml").read_text())["config"]
    return {key.removeprefix("pulumi-slurm:"): value for key, value in content.items()}


def test_each_example_is_looked_at() -> None:
    assert {path.name for path in FOLDER.iterdir()} == {f"Pulumi.{site}.yaml" for site in SAID}


@pytest.mark.parametrize("site", SAID)
def test_the_example_says_what_the_sites_slurm_conf_says(site: str) -> None:
    lines = slurm_conf.slurm_conf(parse(raw(site))).splitlines()
    settings = dict(line.split("=", 1) for line in lines if " " not in line)
    assert {key: settings.get(key) for key in SAID[site]} == SAID[site]
    words = [line.split() for line in lines if line.startswith("PartitionName=")]
    partitions = {first.partition("=")[2]: set(rest) for first, *rest in words}
    assert partitions.keys() == PARTITIONS[site].keys()
    assert {name: lacks for name, said in PARTITIONS[site].items() if (lacks := said - partitions[name])} == {}


@pytest.mark.parametrize("site", SAID)
def test_the_example_is_previewed(site: str) -> None:
    engine, _ = run_program(raw(site), preview=True)
    declared = {each.inputs["metadata"]["name"] for each in engine.registered if each.type == NODE_SET}
    assert declared == {node_set["name"] for node_set in raw(site)["nodeSets"]}
