"""Words of the lists of slurm.conf: those that Slurm reads, those that do nothing here, and numbers in their range.

Slurm looks for its own words in such a list, and passes over the others: a misspelt one has no effect.
"""

import difflib
import re
from collections.abc import Mapping
from typing import Final

_CONNECTIONS: Final = (
    *("conmgr_connect_timeout", "conmgr_max_connections", "conmgr_quiesce_timeout", "conmgr_read_timeout"),
    *("conmgr_threads", "conmgr_use_poll", "conmgr_wait_write_delay", "conmgr_write_timeout"),
)
_READ: Final = {
    "AccountingStorageParameters": ("max_step_records",),
    "AccountingStoreFlags": ("job_comment", "job_env", "job_extra", "job_script", "no_stdio"),
    "CommunicationParameters": (
        *("block_null_hash", "block_zero_hash", "DisableIPv4", "disable_http", "EnableIPv6"),
        *("getnameinfo_cache_timeout", "host_unreach_retry_count", "keepaliveinterval", "keepaliveprobes"),
        *("keepalivetime", "NoCtldInAddrAny", "NoInAddrAny"),
    ),
    "DependencyParameters": ("disable_remote_singleton", "kill_invalid_depend", "max_depend_depth"),
    "JobAcctGatherParams": ("DisableGPUAcct", "NoShared", "no_file_cache", "OverMemoryKill", "UsePss"),
    "LaunchParameters": (
        *("batch_step_set_cpu_freq", "disable_send_gids", "enable_nss_slurm", "interactive_step_set_cpu_freq"),
        *("mpir_use_nodeaddr", "slurmstepd_memlock", "slurmstepd_memlock_all", "srun_exclusive_allocation"),
        *("test_exec", "ulimit_pam_adopt", "use_interactive_step"),
    ),
    "LicenseParameters": ("RemoteFuzzyMatch",),
    "PreemptParameters": (
        *("min_exempt_priority", "reclaim_licenses", "reorder_count", "send_user_signal", "strict_order"),
        *("suspend_grace_time", "youngest_first"),
    ),
    "PriorityFlags": (
        *("ACCRUE_ALWAYS", "CALCULATE_RUNNING", "DEPTH_OBLIVIOUS", "INCR_ONLY", "MAX_TRES", "MAX_TRES_GRES"),
        *("NO_FAIR_TREE", "NO_NORMAL_ALL", "NO_NORMAL_ASSOC", "NO_NORMAL_PART", "NO_NORMAL_QOS", "NO_NORMAL_TRES"),
        "SMALL_RELATIVE_TO_TIME",
    ),
    "SchedulerParameters": (
        *("allow_zero_lic", "assoc_limit_stop", "batch_sched_delay", "bb_array_stage_cnt", "bf_allow_magnetic_slot"),
        *("bf_busy_nodes", "bf_continue", "bf_hetjob_immediate", "bf_hetjob_prio", "bf_interval"),
        *("bf_job_part_count_reserve", "bf_licenses", "bf_max_job_array_resv", "bf_max_job_assoc", "bf_max_job_part"),
        *("bf_max_job_start", "bf_max_job_test", "bf_max_job_user", "bf_max_job_user_part", "bf_max_time"),
        *("bf_min_age_reserve", "bf_min_prio_reserve", "bf_node_space_size", "bf_one_resv_per_job", "bf_resolution"),
        *("bf_running_job_reserve", "bf_topopt_enable", "bf_topopt_iterations", "bf_window", "bf_window_linear"),
        *("bf_yield_interval", "bf_yield_rpc_cnt", "bf_yield_rpc_count", "bf_yield_sleep", "build_queue_timeout"),
        *("correspond_after_task_cnt", "default_queue_depth", "defer", "defer_batch", "delay_boot"),
        *("disable_hetero_steps", "disable_hetjob_steps", "disable_job_shrink", "enable_user_top"),
        *("extra_constraints", "Ignore_NUMA", "ignore_constraint_validation", "ignore_prefer_validation"),
        *("jobs_per_user_per_hour", "max_array_tasks", "max_job_bf", "max_rpc_cnt", "max_rpc_count", "max_sched_time"),
        *("max_script_size", "max_submit_line_size", "max_switch_wait", "no_backup_scheduling"),
        *("nohold_on_prolog_fail", "pack_serial_at_end", "partition_job_depth", "permit_job_expansion"),
        *("preempt_reorder_count", "preempt_strict_order", "preempt_youngest_first", "reduce_completing_frag"),
        *("requeue_delay", "requeue_on_resume_failure", "salloc_wait_nodes", "sbatch_wait_nodes", "sched_interval"),
        *("sched_max_job_start", "sched_min_interval", "spec_cores_first", "step_retry_count", "step_retry_time"),
        *("time_min_as_soft_limit", "whole_hetjob", "whole_pack"),
    ),
    "ScronParameters": ("enable", "explicit_scancel"),
    "SlurmctldParameters": (
        *_CONNECTIONS,
        *("allow_user_triggers", "cloud_dns", "disable_triggers", "enable_async_reply", "enable_configless"),
        *("enable_expedited_requeue", "enable_rpc_queue", "enable_stepmgr", "health_check_report"),
        *("idle_on_node_suspend", "max_dbd_msg_action", "max_powered_nodes", "no_quick_restart"),
        *("node_reg_mem_percent", "power_save_interval", "power_save_min_interval", "preempt_send_user_signal"),
        *("reboot_from_controller", "reconfig_on_restart", "rl_bucket_size", "rl_enable", "rl_log_freq"),
        *("rl_refill_period", "rl_refill_rate", "rl_table_size", "user_resv_delete", "validate_nodeaddr_threads"),
    ),
    "SlurmdParameters": (
        *_CONNECTIONS,
        *("allow_ecores", "config_overrides", "contain_spank", "l3cache_as_socket", "numa_node_as_socket"),
        "shutdown_on_reboot",
    ),
    "TaskPluginParam": (
        *("autobind", "Cores", "None", "OOMKillStep", "Sockets", "SlurmdOffSpec", "SlurmdSpecOverride", "Threads"),
        "Verbose",
    ),
}
_WORDS: Final = {key.lower(): words for key, words in _READ.items()}
"""Key in lower case → the words that Slurm 26.05.5 looks for in its source. It ignores their case."""

_POWER: Final = "it is for nodes that Slurm itself powers down; here an autoscaler of Kubernetes removes them"
_REBOOT: Final = "the operator makes a new pod for a reboot, whatever runs elsewhere"
_FREQUENCY: Final = "/sys is read-only in a pod, so Slurm sets no frequency of CPUs"
_FEDERATION: Final = "it is for federations, and a cluster here is in none"
_NO_EFFECT: Final = {
    "communicationparameters": {"noaddrcache": "Slurm 26.05 does not have it any more"},
    "dependencyparameters": {"disable_remote_singleton": _FEDERATION},
    "jobacctgatherparams": {"noovermemorykill": "Slurm does so unless OverMemoryKill is set"},
    "launchparameters": {"batch_step_set_cpu_freq": _FREQUENCY, "interactive_step_set_cpu_freq": _FREQUENCY},
    "priorityflags": {"fair_tree": "Slurm does so unless NO_FAIR_TREE is set"},
    "reconfigflags": {"keeppowersavesettings": _POWER},
    "schedulerparameters": {
        "bb_array_stage_cnt": "it is for burst buffers, and there are none",
        "no_backup_scheduling": "it is for a backup slurmctld, and there is none",
        "requeue_on_resume_failure": _POWER,
    },
    "slurmctldparameters": {
        "cloud_dns": _POWER,
        "idle_on_node_suspend": _POWER,
        "max_powered_nodes": _POWER,
        "no_quick_restart": "a pod has one slurmctld, and starts none beside it",
        "reboot_from_controller": _REBOOT,
    },
    "slurmdparameters": {"shutdown_on_reboot": _REBOOT},
}
"""Key in lower case → words that do nothing here, and why."""

LONGEST_WINDOW_MINUTES: Final = 43_200
_NUMBER: Final = re.compile("[0-9]{1,10}")
_RANGES: Final = {
    "bf_interval": (1, 10_800),
    "bf_job_part_count_reserve": (0, 100_000),
    "bf_max_job_array_resv": (0, 1_000),
    "bf_max_job_start": (0, 10_000),
    "bf_max_job_test": (1, 1_000_000),
    "bf_max_time": (1, 3_600),
    "bf_min_age_reserve": (0, 2_592_000),
    "bf_min_prio_reserve": (1, 4_294_967_295),
    "bf_node_space_size": (2, 2_000_000),
    "bf_resolution": (1, 3_600),
    "bf_window": (1, LONGEST_WINDOW_MINUTES),
    "bf_yield_interval": (1, 10_000_000),
    "bf_yield_rpc_cnt": (0, 200),
    "bf_yield_rpc_count": (0, 200),
    "bf_yield_sleep": (1, 10_000_000),
    "max_rpc_cnt": (0, 1_000),
    "max_rpc_count": (0, 1_000),
}
"""Word → its least and most number (_load_config of backfill.c). The config dry run ends before backfill reads them."""
_OFF: Final = ("bf_interval", "-1")


def refusals(name: str, value: str) -> list[str]:
    """Return what the words of a list have to be; empty if Slurm reads each of them, and it does something here."""
    key, known = name.lower(), _WORDS.get(name.lower(), ())
    given = [item.partition("=")[0].removeprefix("-") for item in value.split(",")]
    idle = _NO_EFFECT.get(key, {})
    useless = {word: idle[word.lower()] for word in given if word.lower() in idle}
    wanted = [f"{name} without {word}, which does nothing: {reason}" for word, reason in useless.items()]
    lower = {word.lower(): word for word in known}
    for word in given if known else ():
        if word and word.lower() not in lower.keys() | idle.keys():
            wanted.append(f"{name} without {word}, which Slurm 26.05 does not read{_hint(word.lower(), lower)}")
    return [*wanted, _numbers(value)] if key == "schedulerparameters" else wanted


def _hint(word: str, known: Mapping[str, str]) -> str:
    """Say which list reads a word that this one does not, or which word of this one is alike; empty if none is."""
    if lists := [other for other, words in _READ.items() if word in map(str.lower, words)]:
        return f" there; {' and '.join(lists)} {'has' if len(lists) == 1 else 'have'} it"
    close = difflib.get_close_matches(word, known, n=1)
    return f"; did you mean {known[close[0]]}?" if close else ""


def _numbers(value: str) -> str:
    """Return what numbers of SchedulerParameters that are out of range have to be; empty if none is."""
    wanted = []
    for item in value.split(","):
        word, _, number = item.partition("=")
        least, most = _RANGES.get(word.lower(), (None, None))
        if least is None or most is None or (word.lower(), number) == _OFF:
            continue
        if not (_NUMBER.fullmatch(number) and least <= int(number) <= most):
            wanted.append(f"{word} from {least} to {most} without a unit: Slurm would read another number")
    return "; ".join(wanted)
