"""Plugins that keys of slurm.conf may name: those that the image has, and that pods can run."""

from typing import Final

_ONE_OF: Final = {
    "AcctGatherEnergyType": ("acct_gather_energy/none", "acct_gather_energy/gpu"),
    "CliFilterPlugins": ("syslog", "user_defaults"),
    "JobCompType": ("jobcomp/none",),
    "JobSubmitPlugins": ("all_partitions", "defaults", "logging", "partition", "pbs", "require_timelimit", "throttle"),
    "MCSPlugin": ("mcs/none", "mcs/account", "mcs/label", "mcs/user"),
    "MpiDefault": ("none",),
    # slurmstepd makes device files for the other; a pod may not (MKNOD).
    "SwitchType": ("switch/none",),
    "TaskPlugin": ("task/none", "task/affinity", "task/cgroup"),
}
CHOICES: Final = {key.lower(): frozenset(words) for key, words in _ONE_OF.items()}
"""Key in lower case → its allowed words."""

_KINDS: Final = {
    "acctgatherenergytype": "acct_gather_energy/",
    "clifilterplugins": "cli_filter/",
    "jobsubmitplugins": "job_submit/",
    "taskplugin": "task/",
}
"""Key in lower case → the kind of its plugins. Slurm takes their names with it and without."""

_NOT_IN_PODS: Final = "others need programs or files that pods do not have"
_BUT_LUA: Final = "Slurm has no others but lua, which its script in slurm.files brings"
_OTHERS: Final = {
    "clifilterplugins": _BUT_LUA,
    "jobsubmitplugins": _BUT_LUA,
    "jobcomptype": "everybody on the cluster can read slurm.conf, and so jobcomp/mysql's password, and others need "
    "programs or files that pods do not have; slurm.files takes jobcomp.lua, and accounting keeps jobs in a database",
    # mcs_g_init in controller.c comes after the line by which the config dry run knows that slurmctld is up.
    "mcsplugin": "slurmctld would end with another one, and knows no groups",
    "mpidefault": "each step would load another one; srun --mpi names one of slurm.mpiPlugins",
    # slurmctld loads no task plugin, so the config dry run can't tell.
    "taskplugin": "Slurm has no others, and no slurmd would start",
}
"""Key in lower case → why it takes no other words than those of CHOICES, where pods could have these."""


def slurms_value(name: str, value: str) -> str:
    """Return a value with plugins named as CHOICES names them; others are as they were."""
    key = name.lower()
    if not (kind := _KINDS.get(key)):
        return value
    prefix = kind if any(word.startswith(kind) for word in CHOICES[key]) else ""
    return ",".join(f"{prefix}{word.removeprefix(kind)}" if word else "" for word in value.split(","))


def refusal(name: str, value: str) -> str:
    """Return which plugins a key takes, and why no others; empty if it takes these, or is no such key."""
    key = name.lower()
    # Slurm looks for `none` in any case, and for a plugin's file by the name as it stands.
    words = [word.lower() if word.lower().endswith("none") else word for word in value.split(",")]
    known = CHOICES.get(key)
    if known is None or known.issuperset(words):
        return ""
    miswritten = known.issuperset(word.lower() for word in words)
    reason = "the case of a plugin's name counts" if miswritten else _OTHERS.get(key, _NOT_IN_PODS)
    return f"{' or '.join(sorted(known))}: {reason}"
