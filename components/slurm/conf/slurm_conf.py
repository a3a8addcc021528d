"""Slurm's configuration files, as text made from the configuration alone."""

import hashlib
import math
import re
from collections.abc import Mapping
from typing import Final

from components.config.accounting import PRIORITY_KEYS
from components.config.addons.monitoring import MonitoringMode
from components.config.nodes.gres import tracked
from components.config.nodes.health import HEALTH_SECONDS, PROLOG_SECONDS
from components.config.program import Config
from components.config.slurm import CgroupPlugin
from components.config.slurm_keys import defaults, select_parameters
from components.config.slurm_keys.slurm_options import LIST_KEYS, written
from components.config.values import slurm_files
from components.config.values.quantities import slurm_seconds
from components.slurm import site_scripts
from components.slurm.conf import gres_conf
from components.slurm.conf.partition_line import partition_line
from components.slurm.conf.topology_yaml import topology_yaml
from contract import names, paths
from contract.slurm_conf import slurm_node_set

_SMALLEST_NODE_TABLE: Final = 1024
_LARGEST_NODE_TABLE: Final = 65536  # slurm.conf(5), MaxNodeCount.
_LONGEST_END_SECONDS: Final = 604_800
"""A week: more than twice the longest KillWait, and what follows it, take a job to end."""


def max_node_count(wanted: int) -> int:
    """Return MaxNodeCount: the room for nodes in slurmctld's table.

    It is twice the configured nodes, as a power of two. A change takes a restart of slurmctld, so it stays while node
    sets are scaled.
    """
    count = _SMALLEST_NODE_TABLE
    while count < min(2 * wanted, _LARGEST_NODE_TABLE):
        count *= 2
    return count


def _facts(config: Config) -> defaults.Facts:
    """Return what the chosen values depend on."""
    total = sum(node_set.replicas or 0 for node_set in config.node_sets)
    limits = (slurm_seconds(partition.max_time) for partition in config.effective_partitions)
    longest = max((limit for limit in limits if math.isfinite(limit)), default=0)
    return defaults.Facts(max_node_count(total), math.ceil(longest / 60))


def _list(config: Config, key: str, *needed: str) -> str:
    """Return a list's items: those that are needed, then those that are chosen."""
    return ",".join([*needed, *defaults.items(key, _facts(config))])


def _daemons(config: Config) -> dict[str, str]:
    """Return where Slurm's daemons are, whom they believe, and how they take a configuration."""
    return {
        "ClusterName": config.cluster.name,
        # The pod's host name, with the Service as its address: the pod's own address changes.
        "SlurmctldHost": f"{names.CONTROLLER}-0({names.CONTROLLER})",
        "SlurmctldPort": str(names.SLURMCTLD_PORT),
        "SlurmdPort": str(names.SLURMD_PORT),
        "SrunPortRange": f"{names.SRUN_PORT_FIRST}-{names.SRUN_PORT_LAST}",
        "SlurmUser": "slurm",
        "AuthType": "auth/slurm",
        "CredType": "auth/slurm",
        # Users exist in the jail alone: the client says who they are, and slurmctld need not resolve them.
        "AuthInfo": "use_client_ids",
        # A token is valid only for the message that it was made for.
        "CommunicationParameters": "block_null_hash,block_zero_hash",
        "AuthAltTypes": "auth/jwt",
        "AuthAltParameters": f"jwt_key={paths.CONTROLLER_RUN}/{names.JWT_KEY}",
        "PluginDir": ":".join(
            [paths.PLUGIN_DIR, *(paths.MPI_PLUGIN_DIRS[plugin] for plugin in config.slurm.mpi_plugins)]
        ),
        "StateSaveLocation": paths.STATE_DIR,
        "SlurmdSpoolDir": paths.SPOOL_DIR,
        "SlurmctldPidFile": f"{paths.CONTROLLER_RUN}/slurmctld.pid",
        "SlurmdPidFile": "/run/slurmd.pid",
        # After a restart of slurmctld, its nodes fetch the configuration again (configless_slurm.html).
        "SlurmctldParameters": _list(config, "SlurmctldParameters", "enable_configless", "reconfig_on_restart"),
        "MaxNodeCount": str(_facts(config).max_node_count),
        # slurmd takes a new configuration by starting anew, once no RPC is in work. A job that ends is one, until its
        # last process is gone. After this time slurmd serves no tokens, which the job needs to end (26.05).
        "SlurmdParameters": f"conmgr_quiesce_timeout={_LONGEST_END_SECONDS}",
        # Dynamic nodes do not know each other's addresses, so slurmctld talks to each of them (slurm.conf(5)).
        "TreeWidth": str(names.TREE_WIDTH),
    }


def _nodes_and_jobs(config: Config) -> dict[str, str]:
    """Return what holds for nodes and jobs of every cluster."""
    limits = config.slurm.cgroup_plugin is not CgroupPlugin.DISABLED
    return {
        # A pod that returns is usable again, whatever the reason for its absence.
        "ReturnToService": "2",
        # Without one Slurm refuses `scontrol reboot`. A node can't start its own pod anew: the operator does.
        "RebootProgram": "/bin/true",
        # For so long Slurm waits for a node that it has rebooted; its pod, and a large jail, take a while.
        "ResumeTimeout": "600",
        "SelectType": "select/cons_tres",
        "SelectTypeParameters": select_parameters.CONSUMED[0],
        "ProctrackType": "proctrack/cgroup" if limits else "proctrack/linuxproc",
        "TaskPlugin": "task/cgroup" if limits else "task/none",
        "JobAcctGatherType": "jobacct_gather/linux",
        "PrologFlags": "Contain",
        # slurmstepd opens a job's files as the job's user. For root's jobs that would be with root's rights.
        "DisableRootJobs": "YES",
        # Refuses what the jail cannot give a job (native/plugins/job_submit_jail.c).
        "JobSubmitPlugins": "jail",
        # A failed prolog drains the node. The job moves to another node and is not held.
        "SchedulerParameters": _list(config, "SchedulerParameters", "nohold_on_prolog_fail"),
        "HealthCheckProgram": paths.HEALTH_PROGRAM,
        "HealthCheckInterval": str(config.health.interval_seconds),
        "HealthCheckTimeout": str(HEALTH_SECONDS),
        "HealthCheckNodeState": ",".join(config.health.node_states),
        "Prolog": paths.HEALTH_PROLOG,
        "PrologTimeout": str(PROLOG_SECONDS),
        "Epilog": paths.HEALTH_EPILOG,
        # slurmctld keeps no identity for heterogeneous allocations (26.05): their nodes look their users up themselves.
        "LaunchParameters": "use_interactive_step,disable_send_gids",
        # A default of pmi2 would cost every step of every job.
        "MpiDefault": "none",
        "MailProg": "/bin/true",
        "SlurmctldSyslogDebug": "quiet",
        "SlurmdSyslogDebug": "quiet",
        # How long Slurm caches a user's groups. A new member of a group can use it soon.
        "GroupUpdateTime": "1",
        # Set without GPUs too: slurmctld would take a GPU node that registers before it knows the type for one without.
        "GresTypes": ",".join(gres_conf.names_of(config)),
    }


def _settings(config: Config) -> dict[str, str]:
    settings = _daemons(config) | _nodes_and_jobs(config) | defaults.single(defaults.SLURM_CONF, _facts(config))
    if config.monitoring.mode is not MonitoringMode.OFF:
        settings["MetricsType"] = "metrics/openmetrics"
        # Without it Slurm asks Prometheus for a token if any data is private. Network policies decide who scrapes.
        settings["MetricsParameters"] = "ignore_private_data"
    if config.slurm.private_data:
        settings["PrivateData"] = ",".join(config.slurm.private_data)
    if "PropagateResourceLimits" not in config.slurm.slurm_conf_options:  # Slurm accepts one of the two keys.
        # Limits of a login node without cgroups (slurm_node/accounts/login_limits.py) must not become limits of jobs.
        # RDMA pins memory, so jobs get the worker's limit, which is unlimited, in place of the login node's.
        pins = any(node_set.network.rdma for node_set in config.node_sets)
        settings["PropagateResourceLimitsExcept"] = "AS,NPROC,MEMLOCK" if pins else "AS,NPROC"
    # Lua first: our plugin, and those of slurm.options, see the job as a script left it.
    for key, word in slurm_files.loaded(config.slurm.files).items():
        settings[key] = f"{word},{settings[key]}" if key in settings else word
    return settings | site_scripts.settings(config) | _accounting(config)


def _accounting(config: Config) -> dict[str, str]:
    """Return the settings of accounting and of the queue's priorities."""
    accounting = config.accounting
    if not accounting.is_on:
        return {}
    priority = accounting.priority.model_dump(by_alias=True)
    # Added to those that Slurm always tracks (cpu, mem, node, billing …).
    counted = tracked(kind for node_set in config.node_sets for kind in node_set.gres_kinds)
    return {
        "AccountingStorageType": "accounting_storage/slurmdbd",
        "AccountingStorageHost": names.ACCOUNTING,
        "AccountingStoragePort": str(names.SLURMDBD_PORT),
        **({"AccountingStorageTRES": ",".join(counted)} if counted else {}),
        **({"AccountingStorageEnforce": ",".join(accounting.enforce)} if accounting.enforce else {}),
        "PriorityType": "priority/multifactor",
        **{key: str(priority[name]) for key, name in PRIORITY_KEYS.items()},
    }


def _with_options(settings: Mapping[str, str], options: Mapping[str, str]) -> dict[str, str]:
    """Return the settings, replaced by a user's options. Items of lists are added."""
    merged = dict(settings)
    for key, value in options.items():
        if key == "SelectTypeParameters":
            merged[key] = select_parameters.merged(value)
        elif key.lower() in LIST_KEYS and key in merged:
            # task/none is the absence of plugins, so it can't stand beside one.
            ours = "" if merged[key] == "task/none" else merged[key]
            merged[key] = defaults.merged(key, ours, value)
        else:
            merged[key] = value
    return merged


def slurm_conf(config: Config) -> str:
    """Return slurm.conf. Nodes are dynamic: each slurmd registers itself, and its feature puts it into its node set."""
    settings = _with_options(_settings(config), config.slurm.slurm_conf_options)
    lines = [f"{key}={written(value)}" for key, value in settings.items()]
    lines += [f"NodeSet={slurm_node_set(node_set.name)} Feature={node_set.name}" for node_set in config.node_sets]
    lines += [partition_line(config, partition) for partition in config.effective_partitions]
    return "\n".join(lines) + "\n"


def cgroup_conf(config: Config) -> str:
    """Return cgroup.conf: a job gets no more memory than it asked for, and no device but its own."""
    plugin = config.slurm.cgroup_plugin
    lines = [f"CgroupPlugin={plugin}"]
    if plugin is not CgroupPlugin.DISABLED:
        # There is no systemd in a pod; on cgroup v2 slurmd prepares its part of the tree by itself.
        lines += ["IgnoreSystemd=yes", "EnableControllers=yes", "ConstrainRAMSpace=yes"]
        # Version 2 alone: jail.so limits each job's processes (native/job/job_limits.h).
        lines += ["EnableExtraControllers=pids"]
        chosen = defaults.single(defaults.CGROUP_CONF, _facts(config))
        lines += [f"{key}={value}" for key, value in (chosen | config.slurm.cgroup_options).items()]
        if config.slurm.constrain_cores:
            lines += ["ConstrainCores=yes"]
        if any(node_set.has_devices for node_set in config.node_sets):
            # Version 1: slurmstepd writes a job's devices.deny. Version 2: it attaches an eBPF program of the kind
            # cgroup_device to the job's group. SYS_ADMIN allows it bpf(2).
            lines += ["ConstrainDevices=yes"]
    return "\n".join(lines) + "\n"


def plugstack_conf(config: Config) -> str:
    """Return plugstack.conf: first the jail plugin, required and by an absolute path. Others then run in the jail.

    With `optional`, or a path that is not found, Slurm silently runs jobs outside the jail.
    """
    lines = [f"required {paths.SPANK_PLUGIN} jail={paths.JAIL_TREE}"]
    for plugin in config.slurm.spank_plugins:
        kind = "required" if plugin.required else "optional"
        lines.append(" ".join([kind, f"{paths.PLUGIN_DIR}/{plugin.file}", *plugin.arguments]))
    return "\n".join(lines) + "\n"


def oci_conf() -> str:
    """Return oci.conf: a program of ours starts steps with `--container`, as the user and in the jail.

    By itself slurmstepd would look for bundles outside of the jail. It would run the jail's container runtime as root
    to query container states.
    """
    return (
        f"ContainerPath={paths.CONTAINER_FOLDERS}%U\n"
        "CreateEnvFile=null\n"
        "IgnoreFileConfigJson=true\n"
        f"RunTimeRun=\"exec {paths.CONTAINER_STEP} '%b' '%e' '%Z' %n-%j-%s-%t %@\"\n"
    )


def files(config: Config) -> dict[str, str]:
    """Return all files by name. slurm.conf carries their hash, so a running slurmctld shows which files it read."""
    made = {
        names.SLURM_CONF: slurm_conf(config),
        names.CGROUP_CONF: cgroup_conf(config),
        names.GRES_CONF: gres_conf.text(config),
        names.PLUGSTACK_CONF: plugstack_conf(config),
        names.OCI_CONF: oci_conf(),
        **({names.TOPOLOGY_YAML: topology} if (topology := topology_yaml(config)) else {}),
    }
    given = (f"{name}\n{text}" for name, text in sorted(config.slurm.files.items()))
    content = hashlib.sha256("\0".join([*(made[name] for name in sorted(made)), *given]).encode()).hexdigest()
    # slurmctld only looks for the words that it knows, and shows the whole list.
    marked = f"\\1,{names.CONFIG_MARK}={content[:16]}"
    slurm_conf_text = re.sub("(?m)^(SlurmctldParameters=.*)", marked, made[names.SLURM_CONF])
    return {**made, **config.slurm.files, names.SLURM_CONF: slurm_conf_text}
