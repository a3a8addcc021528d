"""Wrong values of partitions."""

from __future__ import annotations

from typing import Any

PARTITION = {"name": "main", "nodeSets": ["cpu"]}

WRONG_PARTITIONS: list[tuple[str, Any, str]] = [
    ("partitions", [{"name": "a", "nodeSets": ["cpu"], "maxTime": "7 days"}], "want a Slurm time such as 7-00:00:00"),
    (
        "partitions",
        [{"name": "main", "nodeSets": ["cpu", "h100"]}],
        "pulumi-slurm:partitions[0].nodeSets[1]: got 'h100'; want the name of a node set; there are: cpu",
    ),
    ("partitions", [{"name": "a", "nodeSets": ["cpu", "cpu"]}], "want each node set once"),
    ("partitions", [{"name": "a", "nodeSets": ["cpu"]}] * 2, "want another name: partitions[0] has this one"),
    (
        "partitions",
        [{"name": name, "nodeSets": ["cpu"], "default": True} for name in ("a", "b")],
        "want one default partition at most",
    ),
    ("partitions", [{"name": "ALL", "nodeSets": ["cpu"]}], "pulumi-slurm:partitions[0].name: got 'ALL'; want letters"),
    ("partitions", [{"name": "a b", "nodeSets": ["cpu"]}], "want letters, digits"),
    ("partitions", [{"name": "a\nSlurmUser=root", "nodeSets": ["cpu"]}], "want letters, digits"),
    *(
        ("partitions", [{**PARTITION, **keys}], f"pulumi-slurm:partitions[0].{expected}")
        for keys, expected in (
            # Values that are wrong by themselves.
            ({"state": "up"}, "state: got 'up'; want one of 'UP'"),
            ({"defaultTime": "soon"}, "defaultTime: got 'soon'; want a Slurm time"),
            ({"priorityTier": 65534}, "priorityTier: got 65534; want 65533 or less"),
            ({"maxNodes": 0}, "maxNodes: got 0; want 1 or more"),
            ({"qos": "Long"}, "qos: got 'Long'; want a QOS as sacctmgr shows it, in lower case"),
            ({"allowAccounts": ["a,b"]}, "allowAccounts[0]: got 'a,b'; want an account as sacctmgr shows it"),
            ({"allowQos": "normal"}, "allowQos: got 'normal'; want a list"),
            ({"overSubscribe": False}, 'overSubscribe: got false; want text in quotes, such as "YES" or "NO"'),
            ({"overSubscribe": "YES:1"}, "overSubscribe: got 'YES:1'; want NO, YES, YES:4"),
            ({"overSubscribe": "EXCLUSIVE"}, "overSubscribe: got 'EXCLUSIVE'; want NO"),
            ({"exclusive": False}, "exclusive: got false; want text in quotes"),
            ({"preemptMode": "GANG"}, "preemptMode: got 'GANG'; want one of 'OFF'"),
            ({"maxMemPerNode": 1024}, "maxMemPerNode: got 1024; want a Kubernetes quantity such as 64Gi"),
            ({"hangs": {"after": "5m"}}, "hangs.after: got '5m'; want 10m or more: many a job waits for something"),
            ({"hangs": {"after": "1h", "then": "kill"}}, "hangs.then: got 'kill'; want one of 'tell' or 'requeue'"),
            (
                {"qos": "lang"},
                "qos: got 'lang'; want normal, or the name of a QOS of accounting.qos; there are: normal",
            ),
            ({"allowQos": ["normal", "x"]}, "allowQos[1]: got 'x'; want normal, or the name of a QOS"),
            ({"denyQos": ["x"]}, "denyQos[0]: got 'x'; want normal, or the name of a QOS of accounting.qos"),
            # Keys that its options do not set.
            (
                {"options": {"LNN": "YES"}},
                "options.LNN: got 'LNN'; want a key of a partition that Slurm 26.05 knows; did",
            ),
            ({"options": {"lln": "YES"}}, "options.lln: got 'lln'; want LLN, as Slurm writes it"),
            ({"options": {"LLN": True}}, "options.LLN: got true; want text in quotes"),
            ({"options": {"LLN": "YES\nSlurmUser=root"}}, "options.LLN: got 'YES\\nSlurmUser=root'; want one value"),
            ({"options": {"LLN": "YES#"}}, "options.LLN: got 'YES#'; want one value without spaces, quotes, `#`"),
            ({"options": {"maxtime": "1"}}, "options.maxtime: got 'maxtime'; want partitions[].maxTime in its place"),
            ({"options": {"Nodes": "ALL"}}, "options.Nodes: got 'Nodes'; want partitions[].nodeSets in its place"),
            (
                {"options": {"DisableRootJobs": "NO"}},
                "options.DisableRootJobs: got 'DisableRootJobs'; want another key: Disable",
            ),
            (
                {"options": {"SuspendTime": "60"}},
                "options.SuspendTime: got 'SuspendTime'; want another key: SuspendTime is set",
            ),
            (
                {"options": {"AllowGroups": "a"}},
                "options.AllowGroups: got 'AllowGroups'; want no AllowGroups: slurmctld knows no",
            ),
            (
                {"options": {"ExclusiveUser": "YES"}},
                "options.ExclusiveUser: got 'ExclusiveUser'; want no ExclusiveUser: Slurm",
            ),
            ({"options": {"Alternate": "b"}}, "options.Alternate: got 'b'; want the name of another partition"),
            (
                {"options": {"TRESBillingWeights": "CPU=1.0,GRES/gpu=2"}},
                "options.TRESBillingWeights: got 'CPU=1.0,GRES/gpu=2'; want resources that Slurm counts (cpu, mem,",
            ),
            (
                {"options": {"TRESBillingWeights": "CPU=1.0,Mem"}},
                "options.TRESBillingWeights: got 'CPU=1.0,Mem'; want weights such as CPU=1.0,Mem=0.25G in place of Mem",
            ),
            ({"options": {"LLN": "maybe"}}, "options.LLN: got 'maybe'; want YES or NO"),
            ({"options": {"CpuBind": "rank"}}, "options.CpuBind: got 'rank'; want none, socket, ldom, core, thread"),
            ({"options": {"MaxCPUsPerNode": "-1"}}, "options.MaxCPUsPerNode: got '-1'; want a whole number, or UNLIM"),
            ({"options": {"OverTimeLimit": "5m"}}, "options.OverTimeLimit: got '5m'; want a number of minutes, or UNL"),
            # Numbers and times that Slurm reads as others.
            ({"maxTime": "24856-0"}, "maxTime: got '24856-0'; want at most 24855 days, which Slurm can count, or UNL"),
            ({"maxTime": 35_791_394}, "maxTime: got 35791394; want at most 24855 days"),
            ({"maxTime": "\u0663"}, "maxTime: got '\u0663'; want a Slurm time such as 7-00:00:00"),
            ({"maxTime": 0}, "maxTime: got 0; want more than 0, or UNLIMITED: no job could run"),
            ({"defaultTime": "0:00:00"}, "defaultTime: got '0:00:00'; want more than 0, or UNLIMITED"),
            ({"minNodes": "1-5"}, "minNodes: got '1-5'; want a whole number"),
            ({"minNodes": "0-0"}, "minNodes: got '0-0'; want a whole number"),
            ({"maxNodes": 65_537}, "maxNodes: got 65537; want 65536 or less"),
            ({"defCpuPerGpu": 2**40}, "defCpuPerGpu: got 1099511627776; want 65533 or less"),
            ({"maxMemPerNode": "512Ki"}, "maxMemPerNode: got '512Ki'; want a Kubernetes quantity such as 64Gi, of 1Mi"),
            ({"maxMemPerNode": "8192Pi"}, "maxMemPerNode: got '8192Pi'; want a Kubernetes quantity such as 64Gi"),
            ({"allowQos": ["a" * 256]}, f"allowQos[0]: got '{'a' * 79}…; want a QOS as sacctmgr shows it"),
            (
                {"options": {"Topology": "t"}},
                "options.Topology: got 't'; want nothing, or slurm.topologies or slurm.files.topology.yaml, which",
            ),
            # Keys that contradict each other.
            ({"allowAccounts": ["a"], "denyAccounts": ["b"]}, 'denyAccounts: got ["b"]; want nothing beside allowAcc'),
            ({"allowQos": ["a"], "denyQos": ["b"]}, 'denyQos: got ["b"]; want nothing beside allowQos'),
            ({"allowAccounts": ["a"]}, 'allowAccounts: got ["a"]; want nothing, or accounting.enforce: [associations]'),
            (
                {"qos": "normal"},
                "qos: got 'normal'; want nothing, or limits or safe in accounting.enforce: Slurm keeps",
            ),
            ({"denyAccounts": ["a"]}, 'denyAccounts: got ["a"]; want nothing, or accounting.enforce: [associations]'),
            (
                {"defaultTime": "UNLIMITED", "maxTime": "1-0"},
                "defaultTime: got 'UNLIMITED'; want a time of at most max",
            ),
            (
                {"defaultTime": "2:00:00", "maxTime": 90},
                "defaultTime: got '2:00:00'; want a time of at most maxTime (90)",
            ),
            ({"minNodes": 3, "maxNodes": 2}, "minNodes: got 3; want at most maxNodes (2)"),
            (
                {"defMemPerCpu": "1Gi", "defMemPerNode": "1Gi"},
                "defMemPerNode: got '1Gi'; want nothing beside defMemPer",
            ),
            (
                {"maxMemPerCpu": "1Gi", "maxMemPerNode": "1Gi"},
                "maxMemPerNode: got '1Gi'; want nothing beside maxMemPer",
            ),
            (
                {"defMemPerCpu": "2Gi", "maxMemPerCpu": "1Gi"},
                "defMemPerCpu: got '2Gi'; want at most maxMemPerCpu (1Gi)",
            ),
            ({"defMemPerNode": "2Gi", "maxMemPerNode": "1Gi"}, "defMemPerNode: got '2Gi'; want at most maxMemPerNode"),
            ({"overSubscribe": "YES", "exclusive": "NODE"}, "overSubscribe: got 'YES'; want nothing, or NO, beside"),
            # Keys that need something in another section.
            ({"defCpuPerGpu": 8}, "defCpuPerGpu: got 8; want nothing, or a node set with GPUs"),
            (
                {"graceTime": 60},
                "graceTime: got 60; want nothing, or slurm.options.PreemptType: preempt/partition_prio",
            ),
            ({"preemptMode": "OFF"}, "preemptMode: got 'OFF'; want nothing, or slurm.options.PreemptType"),
        )
    ),
]
