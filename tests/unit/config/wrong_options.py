"""Wrong values of `slurm` in the configuration, such as keys and words of slurm.conf that do not work here."""

from __future__ import annotations

from typing import Any

WRONG_OPTIONS: list[tuple[str, Any, str]] = [
    # Injection into Slurm's files.
    (
        "slurm",
        {"cgroupPlugin": "disabled", "constrainCores": True},
        "pulumi-slurm:slurm.constrainCores: got true; want false with slurm.cgroupPlugin: disabled",
    ),
    ("slurm.options", {"DebugFlags": "a\nSlurmUser=root"}, "pulumi-slurm:slurm.options.DebugFlags: got 'a\\nSlurmUser"),
    ("slurm.options", {"DebugFlags": "a # b"}, "want one value without spaces, quotes, `#`, backslashes or newlines"),
    ("slurm.options", {"DebugFlags": "a#b"}, "want one value without"),
    ("slurm.options", {"DebugFlags": "a SlurmUser=root"}, "want one value without spaces"),
    ("slurm.options", {"DebugFlags": "a\\"}, "want one value without"),
    ("slurm.options", {"DebugFlags": ""}, "want one value without"),
    *(
        ("slurm.spankPlugins", [{"file": file}], f"slurm.spankPlugins[0].file: got {file!r}; want a file's name such")
        for file in ("/lib/spank_pyxis.so", "../x.so", "spank_pyxis", "a b.so", "spank_jail.so", "x.so\nrequired y.so")
    ),
    *(
        (
            "slurm.spankPlugins",
            [{"file": "a.so", "arguments": [word]}],
            "pulumi-slurm:slurm.spankPlugins[0].arguments[0]: got",
        )
        for word in ("a b", "a#b", 'a"b', "a\nrequired b.so", "", 1, True)
    ),
    ("slurm.spankPlugins", [{"file": "a.so", "arguments": "a=b"}], "arguments: got 'a=b'; want a list"),
    ("slurm.spankPlugins", [{"file": "a.so", "required": "maybe"}], "required: got 'maybe'; want true or false"),
    ("slurm.spankPlugins", [{"file": "a.so"}] * 2, "want another name: spankPlugins[0] has this one"),
    (
        "slurm.spankPlugins",
        [{"file": "spank_pyxis.so", "arguments": ["runtime_path=/run/user", "container_scope=job"]}],
        "slurm.spankPlugins[0].arguments[1]: got 'container_scope=job'; want container_scope=global",
    ),
    ("slurm.options", {"UsePAM": True}, 'want text in quotes, such as "YES"'),
    ("slurm.options", {"Debug\nFlags": "a"}, "want a key of slurm.conf"),
    ("slurm.options", {"DebugFlag": "a"}, "want a key of slurm.conf that Slurm 26.05 knows; did you mean DebugFlags?"),
    ("slurm.options", {"KillWait": "1", "killwait": "2"}, "Slurm reads one key"),
    *(
        ("slurm.options", {key: "x"}, f"want no {key}: {reason}")
        for key, reason in (
            ("UsePAM", "slurmstepd would load PAM modules of the users' root with all its rights"),
            ("usepam", "slurmstepd would load PAM"),
            ("PrEpPlugins", "it would take the place of the prolog that keeps jobs from a node without its jail"),
            ("NodeFeaturesPlugins", "it runs programs on nodes, outside of the jail, and reboots nodes"),
            ("BurstBufferType", "it runs programs in the pod of slurmctld"),
            ("AcctGatherProfileType", "slurmstepd would write as root where users write"),
            ("JobCompPass", "everybody on the cluster can read slurm.conf"),
            ("TLSType", "Debian's Slurm is built without tls/s2n"),
            ("JobCompPassScript", "slurmctld would run it in its own pod"),
            ("DownNodes", "nodes register themselves, so slurm.conf names none"),
            ("HttpParserType", "Slurm finds the one that the image has"),
        )
    ),
    (
        "slurm.options",
        {"MailProg": "/usr/bin/mail"},
        "MailProg is set by this program, the image of the controller has no",
    ),
    ("slurm.options", {"launchParameters": "enable_nss_slurm"}, "without enable_nss_slurm"),
    (
        "slurm.options",
        {"LaunchParameters": "mem_sort,ULIMIT_PAM_ADOPT"},
        "want LaunchParameters without ulimit_pam_adopt",
    ),
    (
        "slurm.options",
        {"TaskPluginParam": "SlurmdSpecOverride"},
        "want TaskPluginParam without slurmdspecoverride: slurmd",
    ),
    (
        "slurm.options",
        {"PreemptType": "preempt/partition_prio"},
        "PreemptMode: got nothing; want CANCEL, REQUEUE or SUSPEND,GANG beside PreemptType: preempt/partition_prio",
    ),
    ("slurm.options", {"PreemptType": "preempt/qos", "PreemptMode": "GANG"}, "want CANCEL, REQUEUE or SUSPEND,GANG"),
    (
        "slurm.options",
        {"PreemptMode": "requeue"},
        "want nothing, or PreemptType: preempt/partition_prio or preempt/qos",
    ),
    (
        "slurm.options",
        {"PreemptType": "preempt/partition_prio", "PreemptMode": "SUSPEND"},
        "want SUSPEND,GANG: slurmctld would not start without GANG",
    ),
    ("slurm.options", {"PrologFlags": "X11"}, "want PrologFlags without x11: slurmstepd would run the users' xauth"),
    ("slurm.options", {"PrologFlags": "Alloc,RunInJob"}, "want PrologFlags without runinjob"),
    ("slurm.options", {"SlurmctldParameters": "allow_user_triggers"}, "slurmctld would run users' programs"),
    ("slurm.options", {"SlurmctldParameters": "Enable_Stepmgr"}, "slurmstepd would hold slurm.key on the job's node"),
    ("slurm.options", {"SlurmdParameters": "no_contain_spank=yes"}, "want SlurmdParameters without contain_spank"),
    (
        "slurm.options",
        {"SlurmctldParameters": "-enable_expedited_requeue,-enable_configless"},
        "want SlurmctldParameters with no item to take out but -conmgr_max_connections or -enable_expedited_requeue",
    ),
    (
        "slurm.options",
        {"LaunchParameters": "-use_interactive_step"},
        "want LaunchParameters without `-` before an item",
    ),
    (
        "slurm.options",
        {"CommunicationParameters": "disable_http"},
        "CommunicationParameters without disable_http: Kubernetes asks slurmctld by HTTP",
    ),
    ("slurm.cgroupOptions", {"ConstrainSwapSpaces": "yes"}, "that Slurm 26.05 knows; did you mean ConstrainSwapSpace?"),
    ("slurm.cgroupOptions", {"constrainSwapSpace": "yes"}, "want ConstrainSwapSpace, as Slurm writes it"),
    *(
        ("slurm.cgroupOptions", {key: "yes"}, f"want no {key}: Slurm 26.05 does not have it any more; {successor}")
        for key, successor in (
            ("CgroupAutomount", "nothing is in its place"),
            ("taskAffinity", "slurm.options.TaskPlugin: task/affinity does what it did"),
        )
    ),
    ("slurm.cgroupOptions", {"ConstrainCores": "yes"}, "want slurm.constrainCores in its place"),
    (
        "slurm.cgroupOptions",
        {"IgnoreSystemd": "no"},
        "IgnoreSystemd is set by this program, there is no systemd in a pod",
    ),
    ("slurm.cgroupOptions", {"AllowedRAMSpace": "200"}, "want no AllowedRAMSpace: jobs would get more or less memory"),
    ("slurm.cgroupOptions", {"ConstrainSwapSpace": True}, 'want text in quotes, such as "YES"'),
    ("slurm.cgroupOptions", {"ConstrainSwapSpace": "yes\nCgroupPlugin=disabled"}, "want yes or no, in quotes"),
    ("slurm.cgroupOptions", {"AllowedSwapSpace": "half"}, "want a percentage such as 50 or 50.5"),
    ("slurm.cgroupOptions", {"MemorySwappiness": 101}, "want a whole number from 0 to 100"),
    ("slurm.cgroupOptions", {"MinRAMSpace": "0"}, "want a whole number of MiB"),
    (
        "slurm",
        {"cgroupPlugin": "disabled", "cgroupOptions": {"MinRAMSpace": "64"}},
        "slurm.cgroupOptions.MinRAMSpace: got '64'; want nothing with slurm.cgroupPlugin: disabled",
    ),
    (
        "slurm",
        {"cgroupPlugin": "disabled", "options": {"TaskPlugin": "task/affinity,task/cgroup"}},
        "options.TaskPlugin: got 'task/affinity,task/cgroup'; want task/affinity, or another slurm.cgroupPlugin than",
    ),
    ("slurm.options", {"JobAcctGatherParams": "OverMemoryKill"}, "want other words, or slurm.cgroupPlugin: disabled"),
    ("slurm.options", {"SlurmdParameters": "contain_spank"}, "want SlurmdParameters without contain_spank"),
    (
        "slurm.options",
        {"SlurmdParameters": "config_overrides,Conmgr_Quiesce_Timeout=20"},
        "want SlurmdParameters without conmgr_quiesce_timeout: a slurmd that takes a new configuration",
    ),
    (
        "slurm.options",
        {"JobSubmitPlugins": "throttle,partitions"},
        "or pbs or require_timelimit or throttle: Slurm has no others but lua, which its script in slurm.files brings",
    ),
    (
        "slurm.options",
        {"CliFilterPlugins": "../../srv/x"},
        "want syslog or user_defaults: Slurm has no others but lua",
    ),
    *(
        ("slurm.options", {"JobCompType": f"jobcomp/{plugin}"}, "want jobcomp/none: everybody on the cluster can read")
        for plugin in ("mysql", "script", "filetxt", "elasticsearch", "kafka")
    ),
    *(
        ("slurm.options", {key: value}, f"slurm.options.{key}: got '{value}'; want {want}")
        for key, value, want in (
            ("TaskPlugin", "afinity", "task/affinity or task/cgroup or task/none: Slurm has no others"),
            ("TaskPlugin", "task/Affinity", "task/affinity or task/cgroup or task/none: the case of a plugin's name"),
            ("TaskPlugin", "none", "task/affinity, or slurm.cgroupPlugin: disabled: jobs have no limit of memory"),
            ("CliFilterPlugins", "Syslog", "syslog or user_defaults: the case of a plugin's name counts"),
            ("CliFilterPlugins", "Lua", "lua in place of Lua: the case of a plugin's name counts"),
            ("CliFilterPlugins", "cli_filter/lua", "slurm.files with cli_filter.lua too, which cli_filter/lua runs"),
            ("JobSubmitPlugins", "job_submit/lua", "slurm.files with job_submit.lua too, which job_submit/lua runs"),
            ("MCSPlugin", "MCS/user", "mcs/account or mcs/label or mcs/none or mcs/user: the case of a plugin's name"),
        )
    ),
    ("slurm.options", {"MpiDefault": "pmi2"}, "want none: each step would load another one; srun --mpi names one of"),
    *(
        ("slurm.options", {"MCSPlugin": plugin}, "want mcs/account or mcs/label or mcs/none or mcs/user: slurmctld")
        for plugin in ("mcs/group", "mcs/lable", "user")
    ),
    (
        "slurm.options",
        {"TaskPlugin": "task/none"},
        "TaskPlugin: got 'task/none'; want task/affinity, or slurm.cgroupPlugin: disabled: jobs have no limit of mem",
    ),
    ("slurm.options", {"taskplugin": "task/affinity,task/none"}, "want task/affinity, or slurm.cgroupPlugin: disabled"),
    (
        "slurm",
        {"cgroupPlugin": "disabled", "options": {"JobAcctGatherType": "jobacct_gather/cgroup"}},
        "JobAcctGatherType: got 'jobacct_gather/cgroup'; want jobacct_gather/linux beside slurm.cgroupPlugin: disabled",
    ),
    (
        "slurm.options",
        {"ReconfigFlags": "KeepPartInfo"},
        "want ReconfigFlags without keeppartinfo: slurmctld would take no edit of partitions",
    ),
    ("slurm.options", {"PrologFlags": "NoHold"}, "want PrologFlags without nohold: this program sets Contain, beside"),
    *(
        (
            "slurm.options",
            {"TopologyParam": word},
            f"want TopologyParam without {word.rpartition(',')[2].lower()}: slurmd passes",
        )
        for word in ("TopoOptional,RouteTree", "RoutePart")
    ),
    *(
        ("slurm.options", {"TopologyPlugin": plugin}, "want nothing, or slurm.files.topology.conf beside it: slurmctld")
        for plugin in ("topology/tree", "topology/block")
    ),
    ("slurm.options", {"AcctGatherEnergyType": "acct_gather_energy/ipmi"}, "want acct_gather_energy/gpu or"),
    ("slurm.options", {"DebugFlags": "a b"}, "want one value without spaces, quotes, `#`, backslashes or newlines"),
    *(
        ("slurm.options", {"InteractiveStepOptions": value}, "newlines; InteractiveStepOptions may have single spaces")
        for value in ("--pty  bash", " --pty", "--pty bash # x", '--pty "bash"', "--pty bash\nSlurmUser=root", "a\tb c")
    ),
    *(
        ("slurm.options", {key: value}, f"slurm.options.{key}: got {value!r}; want {want}")
        for key, value, want in (
            ("PropagateResourceLimitsExcept", "ALL", "limits such as MEMLOCK (known: AS, CORE"),
            ("PropagateResourceLimitsExcept", "memlock", "limits such as MEMLOCK (known: AS, CORE"),
            ("PropagateResourceLimits", "ALL,STACK", "ALL, NONE, or limits such as NOFILE,STACK (known: AS"),
        )
    ),
    *(
        ("slurm.options", {first: value, second: value}, f"slurm.options.{second}: got {value!r}; want nothing beside")
        for first, second, value in (
            ("DefMemPerCPU", "DefMemPerNode", "1"),
            ("MaxMemPerCPU", "MaxMemPerNode", "1"),
            ("PropagateResourceLimits", "PropagateResourceLimitsExcept", "STACK"),
        )
    ),
    *(
        ("slurm.options", {key: "x"}, f"got '{key}'; want no {key}: Slurm 26.05 does not have it any more; {why}")
        for key, why in (
            ("ControlMachine", "SlurmctldHost is in its place"),
            ("cryptotype", "keys come from credentials"),
            ("FastSchedule", "SlurmdParameters: config_overrides does what its 2 did"),
            ("CacheGroups", "nothing is in its place"),
        )
    ),
    *(
        ("slurm.options", {"AccountingStorageTRES": value}, f"fs/lustre, in place of {one}")
        for value, one in (("gpu", "gpu"), ("gres/gpu,gres/", "gres/"), ("gres:gpu", "gres:gpu"))
    ),
    *(
        (
            "slurm.options",
            {"SchedulerParameters": f"defer,{word}={number}"},
            f"want {word} from {least} to {most} without a unit",
        )
        for word, number, least, most in (
            ("bf_window", 43_201, 1, 43_200),
            ("bf_resolution", "60s", 1, 3_600),
            ("BF_max_job_test", 0, 1, 1_000_000),
            ("bf_window", "9" * 5000, 1, 43_200),  # Python makes no number of so many digits.
            ("bf_interval", -2, 1, 10_800),
            ("bf_min_prio_reserve", 0, 1, 4_294_967_295),
            ("max_rpc_cnt", 5_000, 0, 1_000),
        )
    ),
    (
        "slurm.options",
        {"SchedulerParameters": "defer,max_job_bf=50"},
        "want SchedulerParameters without max_job_bf: bf_max_job_test is its name since",
    ),
    (
        "slurm.options",
        {"priorityWeightTRES": "cpu=1,gres/fpga=2"},
        "slurm.options.priorityWeightTRES: got 'cpu=1,gres/fpga=2'; want resources that Slurm counts (cpu, mem, node",
    ),
    ("slurm.options", {"PriorityDecayHalfLife": 0}, "slurm.options.PriorityDecayHalfLife: got 0; want more than 0"),
    ("slurm.options", {"SwitchType": "switch/nvidia_imex"}, "want switch/none: others need programs or files that"),
    *(
        ("slurm.options", {key: "x"}, f"want another key: {key} is set by this program")
        for key in (
            "PlugStackConfig",
            "plugstackconfig",
            "PluginDir",
            "AuthType",
            "SlurmctldHost",
            "ClusterName",
            "Include",
            "NodeName",
            "Prolog",
            "SrunPortRange",
            "SlurmSchedLogLevel",
            "MetricsAuthUsers",
            "SlurmctldHttpAuthParameters",
            "SlurmdHttpAuthParameters",
            "SlurmdSyslogDebug",
        )
    ),
    # Keys and words that Slurm takes, and that do nothing here.
    *(
        (
            "slurm.options",
            {key: "1"},
            f"slurm.options.{key}: got '{key}'; want no {key}: it does nothing here: {reason}",
        )
        for key, reason in (
            ("SuspendExcParts", "it is for nodes that Slurm itself powers down"),
            ("ResumeRate", "it is for nodes that Slurm itself powers down"),
            ("GroupUpdateForce", "partitions and reservations admit no Unix groups"),
            ("FederationParameters", "a cluster is in no federation"),
            ("CpuFreqDef", "/sys is read-only in a pod"),
            ("BcastParameters", "srun --bcast is refused"),
            ("SwitchParameters", "SwitchType has no other word"),
            ("JobCompParams", "it is for plugins of JobCompType"),
            ("JobCompHost", "it is for plugins of JobCompType that are refused"),
        )
    ),
    *(
        ("slurm.options", {key: f"{word}"}, f"want {key} without {word}, which {reason}")
        for key, word, reason in (
            ("SlurmctldParameters", "idle_on_node_suspend", "does nothing: it is for nodes that Slurm itself powers"),
            ("SlurmctldParameters", "Reboot_From_Controller", "does nothing: the operator makes a new pod for"),
            ("SlurmdParameters", "shutdown_on_reboot", "does nothing: the operator makes a new pod for"),
            ("SchedulerParameters", "no_backup_scheduling", "does nothing: it is for a backup slurmctld"),
            ("DependencyParameters", "disable_remote_singleton", "does nothing: it is for federations"),
            ("ReconfigFlags", "KeepPowerSaveSettings", "does nothing: it is for nodes that Slurm itself powers"),
            ("SchedulerParameters", "bf_contine", "Slurm 26.05 does not read; did you mean bf_continue?"),
            ("LaunchParameters", "lustre_no_flush", "Slurm 26.05 does not read"),
            (
                "SchedulerParameters",
                "kill_invalid_depend",
                "Slurm 26.05 does not read there; DependencyParameters has it",
            ),
            ("LaunchParameters", "batch_step_set_cpu_freq", "does nothing: /sys is read-only in a pod"),
            ("AccountingStoreFlags", "job_comments", "Slurm 26.05 does not read; did you mean job_comment?"),
            ("CommunicationParameters", "NoAddrCache", "does nothing: Slurm 26.05 does not have it any more"),
            ("PriorityFlags", "FAIR_TREE", "does nothing: Slurm does so unless NO_FAIR_TREE is set"),
            ("JobAcctGatherParams", "NoOverMemoryKill", "does nothing: Slurm does so unless OverMemoryKill is set"),
            ("TaskPluginParam", "Sched", "Slurm 26.05 does not read"),
        )
    ),
    *(
        ("slurm.options", {key: "a", **more}, f"slurm.options.{key}: got 'a'; want nothing, or {beside} beside it")
        for key, more, beside in (
            ("MCSParameters", {"MCSPlugin": "mcs/none"}, "MCSPlugin: mcs/…"),
            ("PreemptParameters", {}, "PreemptType: preempt/…"),
            ("preemptExemptTime", {"PreemptType": "preempt/none"}, "PreemptType: preempt/…"),
        )
    ),
    ("slurm.cgroupOptions", {"AllowedSwapSpace": "50"}, 'want nothing, or ConstrainSwapSpace: "yes" beside it'),
    (
        "slurm.privateData",
        ["job"],
        "pulumi-slurm:slurm.privateData[0]: got 'job'; want one of 'accounts', 'events', 'jobs'",
    ),
    ("slurm.options", {"HealthCheckInterval": 5}, "HealthCheckInterval is set by this program, it comes from health"),
    (
        "slurm.options",
        {"PrivateData": "jobs"},
        "PrivateData is set by this program, it comes from slurm.privateData",
    ),
    *(
        ("slurm.options", {key: "x"}, f"want another key: {key} is set by this program, it comes from accounting")
        for key in ("AccountingStorageType", "AccountingStorageHost", "AccountingStorageEnforce")
    ),
]
