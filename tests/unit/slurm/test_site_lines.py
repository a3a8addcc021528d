"""Lines of three more sites' slurm.conf: each is taken, or refused for one reason that says what is in its place."""

from __future__ import annotations

import pytest

from components.config import ConfigurationError, parse
from tests.unit.samples import SMALL, changed

NO_MORE = "Slurm 26.05 does not have it any more"
OURS = "is set by this program"
TARA: dict[str, tuple[str, str]] = {
    "CryptoType": ("crypto/munge", "keys come from credentials"),
    "JobRequeue": ("1", ""),
    "LaunchType": ("launch/slurm", NO_MORE),
    "MailProg": ("/bin/mail", OURS),
    "MpiDefault": ("pmix", "srun --mpi names one of slurm.mpiPlugins"),
    "PrivateData": ("jobs,usage,users", "it comes from slurm.privateData"),
    "TaskPlugin": ("task/affinity,task/cgroup", ""),
    "TaskPluginParam": ("Sched", "without Sched, which Slurm 26.05 does not read"),
    "TopologyPlugin": ("topology/tree", "slurm.files.topology.conf beside it"),
    "RoutePlugin": ("route/topology", NO_MORE),
    "TmpFS": ("/tmp", ""),
    "CpuFreqGovernors": ("OnDemand,Performance,PowerSave,UserSpace", "/sys is read-only in a pod"),
    "CpuFreqDef": ("Performance", "/sys is read-only in a pod"),
    "OverTimeLimit": ("5", ""),
    "InactiveLimit": ("0", ""),
    "Waittime": ("0", ""),
    "HealthCheckNodeState": ("ANY", "it comes from health"),
    "FastSchedule": ("2", "SlurmdParameters: config_overrides does what its 2 did"),
    "SelectTypeParameters": ("CR_Socket_Memory", ""),
    "PreemptType": ("preempt/qos", ""),
    "PreemptMode": ("REQUEUE", ""),
    "PriorityDecayHalfLife": ("7-0", ""),
    "PriorityCalcPeriod": ("5", ""),
    "PriorityUsageResetPeriod": ("NONE", ""),
    "PriorityWeightAge": ("1000", ""),
    "JobCompType": ("jobcomp/slurmdbd", "accounting keeps jobs in a database"),
    "SlurmctldDebug": ("3", ""),
    "SlurmSchedLogLevel": ("1", "daemons log to the pod's log"),
}
"""Key → its value at the site, and words of its refusal. NSTDA's cluster: hibozzy18/nstda-hpc-test-suite, 0300e145."""
INCD: dict[str, tuple[str, str]] = {
    "DisableRootJobs": ("NO", "srun sudo runs a program as root"),
    "EnforcePartLimits": ("NO", ""),
    "GroupUpdateForce": ("1", "partitions and reservations admit no Unix groups"),
    "GroupUpdateTime": ("600", ""),
    "KillOnBadExit": ("1", ""),
    "MaxStepCount": ("40000", ""),
    "MpiDefault": ("pmi2", "srun --mpi names one of slurm.mpiPlugins"),
    "PropagateResourceLimits": ("MEMLOCK,STACK", ""),
    "TaskPluginParam": ("NONE", ""),
    "TrackWCKey": ("no", ""),
    "UsePam": ("1", "slurmstepd would load PAM modules"),
    "SelectTypeParameters": ("CR_Core", "CR_Core_Memory in place of CR_Core"),
    "PriorityFlags": ("FAIR_TREE", "Slurm does so unless NO_FAIR_TREE is set"),
    "PriorityWeightTRES": ("CPU=2000,Mem=4000", ""),
    "AccountingStorageTRES": ("CPU,Mem", ""),
    "JobAcctGatherType": ("jobacct_gather/cgroup", ""),
    "VSizeFactor": ("0", ""),
}
"""INCD of Portugal, a recipe for its cluster on AlmaLinux."""
FAIR: dict[str, tuple[str, str]] = {
    "AccountingStorageTRES": ("cpu,mem,energy,node,billing,fs/disk,vmem,pages", ""),
    "AcctGatherEnergyType": ("acct_gather_energy/none", ""),
    "BcastExclude": ("/lib,/usr/lib", "sbcast of the jail has no such settings"),
    "DefMemPerNode": ("61440", ""),
    "EnforcePartLimits": ("ANY", ""),
    "InteractiveStepOptions": ("--interactive --preserve-env --pty $SHELL", ""),
    "JobAcctGatherParams": ("NoOverMemoryKill", "Slurm does so unless OverMemoryKill is set"),
    "LaunchParameters": ("slurm_params", "without slurm_params, which Slurm 26.05 does not read"),
    "LogTimeFormat": ("iso8601_ms", ""),
    "MaxMemPerNode": ("UNLIMITED", ""),
    "PreemptType": ("preempt/partition_prio", ""),
    "PreemptMode": ("REQUEUE", ""),
    "PrologFlags": ("Alloc,Contain", ""),
    "PropagateResourceLimits": ("ALL", ""),
    "SchedulerParameters": (
        "defer,max_rpc_cnt=64,bf_continue,bf_max_job_test=1500,bf_window=4320,bf_resolution=180,bf_max_job_user=128,"
        "bf_interval=90,bf_ignore_newly_avail_nodes,bf_max_time=600,max_sched_time=1,partition_job_depth=100",
        "without bf_ignore_newly_avail_nodes, which Slurm 26.05 does not read",
    ),
    "SelectTypeParameters": ("CR_CPU", "CR_CPU_Memory in place of CR_CPU"),
    "SlurmctldParameters": ("preempt_send_user_signal", ""),
    "SlurmctldPort": ("6810-6817", "Services and network policies depend on it"),
    "TaskPlugin": ("task/cgroup,task/affinity", ""),
    "TreeWidth": ("50", "it comes from the fixed names of the objects"),
    "UnkillableStepTimeout": ("180", ""),
}
"""A cluster of Meta's: `scontrol show config` of Slurm 23.02, in facebookresearch/gcm's tests."""


@pytest.mark.parametrize("site", [TARA, INCD, FAIR], ids=["tara", "incd", "meta"])
def test_each_line_is_taken_or_refused_for_one_reason(site: dict[str, tuple[str, str]]) -> None:
    raw = changed("slurm.options", {key: value for key, (value, _) in site.items()}, SMALL)
    with pytest.raises(ConfigurationError) as refused:
        parse(raw)
    told = {str(problem.path[-1]): str(problem) for problem in refused.value.problems}
    assert told.keys() == {key for key, (_, words) in site.items() if words}
    assert len(told) == len(refused.value.problems)
    assert {key: told[key] for key, (_, words) in site.items() if words and words not in told[key]} == {}
