"""Wrong values of the configuration: where each stands, and what is said of it. Those of `slurm` are beside."""

from __future__ import annotations

from typing import Any

from tests.unit.samples import GPU_SET, OTHER_IMAGE, SSH_KEY

SET = {"name": "gpu", "replicas": 1, "resources": {"cpu": 1, "memory": "1Gi"}}
DIRECTORY = {"uri": "ldaps://ldap.example", "base": "dc=example,dc=org"}
PARTITION = {"name": "main", "nodeSets": ["cpu"]}
USER = {"name": "alice", "sshPublicKeys": [SSH_KEY]}
CHECK = {"name": "a", "partition": "main", "builtin": "memory-bandwidth", "least": 1}
NO_PROGRAM = {"name": "a", "partition": "main"}

WRONG_VALUES: list[tuple[str, Any, str]] = [
    # Unknown keys at any depth.
    ("bogus", 1, "pulumi-slurm:bogus: got 1; want no such key (known here: cluster, kubernetes, images"),
    ("cluster.nmae", "x", "pulumi-slurm:cluster.nmae: got 'x'; want no such key (did you mean name?"),
    ("nodeSets.0.gpu", {}, "pulumi-slurm:nodeSets[0].gpu: got {}; want no such key (did you mean gpus?"),
    ("nodeSets.0.resources.mem", "1Gi", "pulumi-slurm:nodeSets[0].resources.mem: got '1Gi'; want no such key"),
    (
        "jail.storage.nfs",
        {"server": "a", "path": "/b", "port": 1},
        "pulumi-slurm:jail.storage.nfs.port: got 1; want no",
    ),
    *(
        (
            "jail.storage.nfs",
            {"server": "a", "path": "/b", "mountOptions": ["sec=krb5p", option]},
            f"pulumi-slurm:jail.storage.nfs.mountOptions[1]: got '{option}'; want one mount option such as rsize=",
        )
        for option in ("nolock", "soft", "vers=3", "v4.1", "lookupcache=all", "actimeo=60", "acdirmax=9", "ro", "a,b")
    ),
    ("jail.storage.nfs", {"server": "a", "path": "//"}, "nfs.path: got '//'; want an absolute path such as /data"),
    ("jail.storage.nfs", {"server": "a", "path": "/b", "version": "2"}, "nfs.version: got '2'; want one of '3', '4'"),
    ("jail.storage.nfs", {"server": "a", "path": "/b", "version": 5}, "nfs.version: got '5'; want one of '3', '4'"),
    (
        "jail.storage.nfs",
        {"server": "a", "path": "/b", "lookupCache": "off"},
        "want one of 'positive', 'none' or 'all'",
    ),
    (
        "jail.storage.nfs",
        {"server": "a", "path": "/b", "attributeCacheSeconds": 0},
        "pulumi-slurm:jail.storage.nfs.attributeCacheSeconds: got 0; want 1 or more",
    ),
    (
        "jail.storage.nfs",
        {"server": "a", "path": "/b", "connections": 17},
        "pulumi-slurm:jail.storage.nfs.connections: got 17; want 16 or less",
    ),
    (
        "login.sets",
        [{"name": "a", "submounts": {"path": "/x"}}],
        'login.sets[0].submounts: got {"path": "/x"}; want a l',
    ),
    ("login.users", [{**USER, "shell": "zsh"}], "pulumi-slurm:login.users[0].shell: got 'zsh'; want no such key"),
    (
        "login.users",
        [{**USER, "admin": True, "operator": True}],
        "pulumi-slurm:login.users[0].operator: got true; want one of admin and operator",
    ),
    # Wrong units and types.
    (
        "nodeSets.0.resources.memory",
        "64GG",
        "pulumi-slurm:nodeSets[0].resources.memory: got '64GG'; want a Kubernetes quantity such as 64Gi",
    ),
    ("nodeSets.0.resources.memory", "64", "want a Kubernetes quantity such as 64Gi"),
    ("nodeSets.0.resources.memory", "0Gi", "want a Kubernetes quantity such as 64Gi"),
    ("nodeSets.0.resources.memory", "\u0661Gi", "want a Kubernetes quantity such as 64Gi"),
    ("nodeSets.0.resources.memory", "8192Pi", "want a Kubernetes quantity such as 64Gi"),
    ("nodeSets.0.resources.processes", 2**22 + 1, "processes: got 4194305; want 4194304 or less"),
    ("nodeSets.0.weightBucket", 10_001, "weightBucket: got 10001; want 10000 or less"),
    ("nodeSets.0.resources.memory", True, "got true; want a Kubernetes quantity"),
    ("nodeSets.0.resources.memory", "200Mi", "nothing would be left for jobs"),
    ("nodeSets.0.resources.cpu", 0, "pulumi-slurm:nodeSets[0].resources.cpu: got 0; want 1 or more"),
    ("nodeSets.0.resources.cpu", 1.5, "got 1.5; want a whole number"),
    ("nodeSets.0.resources.cpuRequest", "0.5m", "want a Kubernetes CPU quantity such as 2 or 500m"),
    ("login.resources.cpu", "many", "pulumi-slurm:login.resources.cpu: got 'many'; want a Kubernetes CPU quantity"),
    ("partitions", [{"name": "a", "nodeSets": ["cpu"], "maxTime": "7 days"}], "want a Slurm time such as 7-00:00:00"),
    ("timeouts.available", "30", "pulumi-slurm:timeouts.available: got '30'; want a duration such as 90s, 30m or 2h"),
    ("cluster", "dev", "pulumi-slurm:cluster: got 'dev'; want a map of keys to values"),
    ("nodeSets", {}, "pulumi-slurm:nodeSets: got {}; want a list"),
    ("nodeSets", [], "pulumi-slurm:nodeSets: got []; want at least 1 of them"),
    ("login.service.type", "ClusterIP", "want one of 'LoadBalancer' or 'NodePort'"),
    ("networkPolicies.enabled", "maybe", "want true or false"),
    ("images.pullPolicy", "Sometimes", "want one of 'Always', 'IfNotPresent' or 'Never'"),
    ("login.service.loadBalancerSourceRanges", ["10.0.0.1/8"], "want an address range such as 192.0.2.0/24"),
    # Nodes' lines of slurm.conf.
    *(
        (f"nodeSets.0.{key}", value, f"pulumi-slurm:nodeSets[0].{expected}")
        for key, value, expected in (
            ("features", ["a,b"], "features[0]: got 'a,b'; want a feature of Slurm: letters, digits"),
            ("features", ["a b"], "features[0]: got 'a b'; want a feature of Slurm"),
            ("features", ["a&b"], "features[0]: got 'a&b'; want a feature of Slurm"),
            ("features", ["a", "a"], "features[1]: got 'a'; want each of them once"),
            ("features", ["cpu"], "features[0]: got 'cpu'; want further ones: each node has the name of its set"),
            ("resources.hugepages", {"3Mi": "6Mi"}, "resources.hugepages.3Mi: got '3Mi'; want the size of a huge page"),
            ("resources.hugepages", {"2Mi": "3Mi"}, "resources.hugepages.2Mi: got '3Mi'; want a multiple of 2Mi"),
            ("featureLabels", ["a/b/c"], "featureLabels[0]: got 'a/b/c'; want a Kubernetes label key"),
            ("options", {"Comment": 1}, "options.Comment: got 'Comment'; want a key of a node that Slurm 26.05 knows"),
            (
                "options",
                {"TmpDsk": 1},
                "options.TmpDsk: got 'TmpDsk'; want a key of a node that Slurm 26.05 knows; did",
            ),
            ("options", {"tmpdisk": 1}, "options.tmpdisk: got 'tmpdisk'; want TmpDisk, as Slurm writes it"),
            ("options", {"RealMemory": 1}, "options.RealMemory: got 'RealMemory'; want nodeSets[].resources.memory in"),
            ("options", {"Features": 1}, "options.Features: got 'Features'; want nodeSets[].features in its place"),
            ("options", {"State": 1}, "options.State: got 'State'; want another key: State is set by this program"),
            ("options", {"CPUSpecList": 1}, "options.CPUSpecList: got 'CPUSpecList'; want no CPUSpecList: a pod may"),
            ("options", {"MemSpecLimit": "1\nState=UP"}, "options.MemSpecLimit: got '1\\nState=UP'; want a whole"),
            ("options", {"MemSpecLimit": 0}, "options.MemSpecLimit: got 0; want 1 or more"),
            (
                "options",
                {"MemSpecLimit": 768},
                "options.MemSpecLimit: got 768; want less than RealMemory (768, in MiB)",
            ),
            ("options", {"CoreSpecCount": 1}, "options.CoreSpecCount: got 1; want less than the cores of a node (1)"),
            ("options", {"CoreSpecCount": 1}, "options.CoreSpecCount: got 1; want nothing, or slurm.constrainCores"),
            ("options", {"Sockets": 2}, "options.Sockets: got 2; want Sockets x CoresPerSocket x ThreadsPerCore, or"),
            ("options", {"ThreadsPerCore": 2}, "options.ThreadsPerCore: got 2; want Sockets x CoresPerSocket x"),
            ("options", {"RestrictedCoresPerGPU": 1}, "options.RestrictedCoresPerGPU: got 1; want nothing, or gpus"),
            ("options", {"TmpDisk": 99}, "options.TmpDisk: got 99; want nothing, or slurm.options.SlurmdParameters"),
        )
    ),
    (
        "nodeSets",
        [{**SET, "features": ["fast"]}, {**SET, "name": "fast"}],
        "pulumi-slurm:nodeSets[0].features[0]: got 'fast'; want another word: the nodes would also join the partitions",
    ),
    (
        "nodeSets",
        [{**GPU_SET, "options": {"RestrictedCoresPerGPU": 16}}],
        "options.RestrictedCoresPerGPU: got 16; want at most the cores for each GPU (15)",
    ),
    # What a site adds to pods: all that would open the jail is refused, with the reason.
    *(
        (f"{part}.pod", value, f"pulumi-slurm:{at}.pod.{expected}")
        for part, at in (("login", "login"), ("nodeSets.0", "nodeSets[0]"))
        for value, expected in (
            ({"hostPID": True}, "hostPID: got true; want nothing: the jail depends on the pod's rights"),
            ({"securityContext": {}}, "securityContext: got {}; want nothing: the jail depends on the pod's rights"),
            ({"initContainers": []}, "initContainers: got []; want nothing: sidecars names containers of yours"),
            ({"lables": {}}, "lables: got {}; want no such key (did you mean labels?"),
            ({"labels": {"app.kubernetes.io/name": "x"}}, "labels.app.kubernetes.io/name: got 'x'; want another key:"),
            ({"annotations": {"pulumi-slurm.dev/x": ""}}, "annotations.pulumi-slurm.dev/x: got ''; want no annotation"),
            ({"env": {"SLURM_NODE": "x"}}, "env.SLURM_NODE: got 'x'; want a variable that does not begin with SLURM"),
            ({"env": {"LD_PRELOAD": "x"}}, "env.LD_PRELOAD: got 'x'; want a variable that does not begin with LD_"),
            ({"volumes": [{"name": "a"}]}, "volumes[0]: got nothing; want exactly one of configMap, secret"),
            ({"volumes": [{"name": "a", "secret": "slurm-keys"}]}, "volumes[0].secret: got 'slurm-keys'; want one of"),
            ({"volumes": [{"name": "a", "claim": "slurm-jail"}]}, "volumes[0].claim: got 'slurm-jail'; want one of"),
            (
                {"volumes": [{"name": "a", "hostPath": "/etc"}]},
                "volumes[0].hostPath: got '/etc'; want a path at or below one of jail.allowedHostPaths; there are: no",
            ),
            (
                {"volumeMounts": [{"name": "jail", "mountPath": "/x"}]},
                "volumeMounts[0].name: got 'jail'; want the name of a volume of the pod's own volumes; there are: none",
            ),
            (
                {
                    "volumes": [{"name": "a", "emptyDir": "1Gi"}],
                    "volumeMounts": [{"name": "a", "mountPath": "/mnt/jail/x"}],
                },
                "volumeMounts[0].mountPath: got '/mnt/jail/x'; want a path outside of /mnt/jail",
            ),
            (
                {"volumeMounts": [{"name": "a", "mountPath": "/x", "mountPropagation": "Bidirectional"}]},
                "volumeMounts[0].mountPropagation: got 'Bidirectional'; want nothing: a mount of the container",
            ),
            *(
                ({"sidecars": [{"name": "a", "image": OTHER_IMAGE, **more}]}, f"sidecars[0].{expected}")
                for more, expected in (
                    ({"privileged": True}, "privileged: got true; want nothing: the jail depends on the pod's rights"),
                    ({"runAsUser": 0}, "runAsUser: got 0; want 1 or more"),
                    ({"image": "busybox:latest"}, "image: got 'busybox:latest'; want"),
                    ({"name": "worker"}, "name: got 'worker'; want another name: it is that of a container of Slurm's"),
                    (
                        {"volumeMounts": [{"name": "jail", "mountPath": "/x"}]},
                        "volumeMounts[0].name: got 'jail'; want the name of a volume of the pod's own volumes",
                    ),
                )
            ),
            (
                {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{}]}}},
                "affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].topologyKey: got nothing; want",
            ),
        )
    ),
    ("nodeSets.0.pod", {"tolerations": []}, "pod.tolerations: got []; want nothing: nodeSets[].tolerations says it"),
    # Node sets and partitions.
    ("nodeSets.0.replicas", -1, "pulumi-slurm:nodeSets[0].replicas: got -1; want 0 or more"),
    ("nodeSets.0.replicas", "two", "pulumi-slurm:nodeSets[0].replicas: got 'two'; want a whole number"),
    ("nodeSets.0.replicas", True, "got true; want a whole number"),
    ("nodeSets", [SET, SET], "pulumi-slurm:nodeSets[1].name: got 'gpu'; want another name: nodeSets[0] has this one"),
    ("nodeSets.0.name", "slurm-login", "want a name that does not start with slurm-"),
    ("nodeSets.0.name", "Gpu_A", "pulumi-slurm:nodeSets[0].name: got 'Gpu_A'; want a DNS label"),
    ("nodeSets.0.name", "a" * 41, "want a DNS label: at most 40"),
    ("nodeSets.0.name", "8gpu", "want a DNS label: at most 40"),
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
    # Names.
    ("cluster.name", "Research!", "pulumi-slurm:cluster.name: got 'Research!'; want a DNS label"),
    ("cluster.namespace", "a.b", "pulumi-slurm:cluster.namespace: got 'a.b'; want a DNS label"),
    ("nodeSets.0.gpus", {"type": "h100 Gres=x", "perNode": 1}, "want a GPU type such as h100"),
    # GPUs.
    (
        "gpuOperator.mode",
        "off",
        'pulumi-slurm:nodeSets[0].gpus: got {"type": "h100", "perNode": 2}; want gpuOperator.mode: install, or '
        "existing where the nodes offer GPUs already (it is off, so nothing brings them); or nodeSets[0].gpus.devices",
    ),
    ("gpuOperator.mode", "on", "pulumi-slurm:gpuOperator.mode: got 'on'; want one of 'install', 'existing' or 'off'"),
    ("gpuOperator.driver", True, "want one of 'operator' or 'preinstalled'"),
    ("gpuOperator.migStrategy", "all", "want one of 'none', 'single' or 'mixed'"),
    ("gpuOperator.version", "26.x", "pulumi-slurm:gpuOperator.version: got '26.x'; want one version of a chart"),
    ("gpuOperator.values", {}, "pulumi-slurm:gpuOperator.values: got {}; want no such key"),
    ("gpuOperator", {"mode": "install", "gdrcopy": True, "driver": "preinstalled"}, "want driver: operator beside it"),
    ("gpuOperator", {"mode": "install", "serviceMonitor": True, "dcgmExporter": False}, "want dcgmExporter: true"),
    ("nodeSets.0.gpus", {"type": "H100", "perNode": 1}, "want a GPU type such as h100"),
    ("nodeSets.0.gpus.perNode", 0, "pulumi-slurm:nodeSets[0].gpus.perNode: got 0; want 1 or more"),
    ("nodeSets.0.gpus.count", 1, "pulumi-slurm:nodeSets[0].gpus.count: got 1; want no such key"),
    ("nodeSets.0.gpus.resource", "amd.com/gpu", "want gpus.devices beside it, the device files: Slurm finds only"),
    ("nodeSets.0.gpus.runtimeClass", "Nvidia", "want the name of a Kubernetes object"),
    (
        "nodeSets.0.gpus.devices",
        "/dev/nvidia[0-7]",
        "nodeSets[0].gpus.devices: got '/dev/nvidia[0-7]'; want as many files as gpus.perNode says: 2, not 8",
    ),
    *(
        ("nodeSets.0.gpus.devices", bad, "want device files below /dev, such as /dev/nvidia[0-7]")
        for bad in (
            "/dev/nvidia[3-0]",
            "/dev/nvidia*",
            "/dev/../etc/x",
            "nvidia0",
            "/dev/nvidia[0-1] Count=9",
            "/dev/a\nb",
        )
    ),
    ("checks.cluster", "sometimes", "pulumi-slurm:checks.cluster: got 'sometimes'; want true or false"),
    ("checks.nodes", True, "pulumi-slurm:checks.nodes: got true; want no such key"),
    # Images that can change.
    ("images.slurm", "slurm", "pulumi-slurm:images.slurm: got 'slurm'; want an image that cannot change"),
    ("images.slurm", "slurm:latest", "want an image that cannot change"),
    ("images.slurm", "slurm:v1.2", "want an image that cannot change"),
    ("jail.image", "registry.example:5000/jail", "pulumi-slurm:jail.image: got 'registry.example:5000/jail'; want an"),
    ("jail.image", "jail@sha256:abc", "want an image reference"),
    ("jail.image", "ja il:0123abcd", "want an image reference"),
    ("images.operator", None, "pulumi-slurm:images.operator: got nothing; want the operator's image, or operator.mode"),
    # Storage.
    ("jail.storage", {"hostPath": "/a", "className": "b"}, 'got ["hostPath", "className"]; want one of them'),
    ("jail.storage.hostPath", "a/../b", "want an absolute path"),
    ("jail.persistent", ["/home", "/home/a"], "pulumi-slurm:jail.persistent[1]: got '/home/a'; want no path inside"),
    ("jail.persistent", ["/home", "/home"], "want each path once"),
    ("jail.persistent", ["/opt/slurm"], "got '/opt/slurm'; want a path outside of /opt/slurm, which is Slurm's own"),
    ("jail.persistent", ["/var/spool/slurmd/x"], "want a path outside of /var/spool/slurmd, which is Slurm's own"),
    ("jail.persistent", ["/home/../etc"], "want an absolute path such as /data"),
    ("jail.persistent", ["home"], "want an absolute path such as /data"),
    ("jail.persistent", ["/a/b", "/a"], "want no path inside another one: /a holds it already"),
    ("jail.tmpSize", "10", "pulumi-slurm:jail.tmpSize: got '10'; want a Kubernetes quantity such as 64Gi"),
    ("jail.persistent", ["/usr/local"], "outside of /usr: the system's own come from the image"),
    ("jail.persistent", ["/var"], "pulumi-slurm:jail.persistent[0]: got '/var'; want a folder of people's files, such"),
    *(
        ("jail.persistent", [f"/{name}"], f"got '/{name}'; want a path of people's files, outside of /{name}: the sys")
        for name in (
            "boot",
            "lib32",
            "libx32",
            "bin",
            "dev",
            "etc",
            "lib",
            "lib64",
            "proc",
            "run",
            "sbin",
            "sys",
            "tmp",
        )
    ),
    # Certificates.
    (
        "accounting",
        {"mode": "external", "external": {"host": "a", "passwordSecret": {"name": "b"}, "caSecret": {"key": "c"}}},
        "pulumi-slurm:accounting.external.caSecret.name: got nothing; want",
    ),
    ("certificates.mode", "on", "want one of 'install', 'existing' or 'off'"),
    (
        "rest.tls",
        True,
        "pulumi-slurm:rest.tls: got true; want nothing, or certificates.mode: install or existing",
    ),
    ("rest.tls", "maybe", "pulumi-slurm:rest.tls: got 'maybe'; want true or false"),
    ("certificates", {"issuer": {"name": "corp"}}, "want nothing while certificates.mode is off"),
    ("certificates", {"mode": "existing", "version": "v1.2.3"}, "want nothing with certificates.mode existing"),
    ("certificates", {"mode": "existing", "issuer": {}}, "pulumi-slurm:certificates.issuer.name: got nothing; want"),
    ("certificates", {"mode": "existing", "issuer": {"name": "a", "kind": "Vault"}}, "want one of 'Issuer' or 'Clu"),
    ("certificates", {"mode": "existing", "duration": "90d"}, "certificates.duration: got '90d'; want a duration such"),
    ("certificates", {"mode": "existing", "duration": "30m", "renewBefore": "1m"}, "want 1h or more: cert-manager"),
    (
        "certificates",
        {"mode": "existing", "duration": "24h"},
        "pulumi-slurm:certificates.renewBefore: got '720h'; want less than certificates.duration (24h)",
    ),
    ("certificates", {"mode": "install", "version": "the newest"}, "want a version such as"),
    # Monitoring.
    ("nodeSets.0.reactions.atOnce", 0, "pulumi-slurm:nodeSets[0].reactions.atOnce: got 0; want 1 or more"),
    (
        "nodeSets.0.reactions.atOnce",
        5,
        "pulumi-slurm:nodeSets[0].reactions.atOnce: got 5; want at most reactions.perHour (4): more are never repaired",
    ),
    ("nodeSets.0.reactions.perHour", 0, "pulumi-slurm:nodeSets[0].reactions.perHour: got 0; want 1 or more"),
    ("nodeSets.0.reactions.perHour", 100, "want 20 or less"),
    ("nodeSets.0.reactions.attempts", 0, "want 1 or more"),
    ("nodeSets.0.reactions.breakerPercent", 101, "want 100 or less"),
    ("nodeSets.0.reactions.after", "soon", "want a duration such as 90s, 30m or 2h"),
    (
        "nodeSets.0.reactions.after",
        "87601h",
        "reactions.after: got '87601h'; want at most 87600h, which is ten",
    ),
    ("nodeSets.0.grace", "long", "pulumi-slurm:nodeSets[0].grace: got 'long'; want a duration such as 90s, 30m or 2h"),
    ("operator.watchNodes", "perhaps", "pulumi-slurm:operator.watchNodes: got 'perhaps'; want true or false"),
    (
        "nodeSets.0.reactions.replace",
        "perhaps",
        "pulumi-slurm:nodeSets[0].reactions.replace: got 'perhaps'; want true or false",
    ),
    (
        "nodeSets.0.reactions",
        {"replace": True, "atOnce": 0},
        "pulumi-slurm:nodeSets[0].reactions.atOnce: got 0; want 1",
    ),
    ("health.interval", "0s", "pulumi-slurm:health.interval: got '0s'; want a duration such as 90s, 30m or 2h"),
    ("health.interval", "10s", "pulumi-slurm:health.interval: got '10s'; want more than 12s"),
    ("health.interval", 30, "pulumi-slurm:health.interval: got 30; want"),
    ("health.nodeStates", ["NONDRAINED_IDLE"], "want one of 'ANY', 'IDLE', 'MIXED', 'ALLOC' or 'CYCLE'"),
    ("health.nodeStates", [], "pulumi-slurm:health.nodeStates: got []; want at least 1 of them"),
    ("health.checks.disabled", ["dance"], "pulumi-slurm:health.checks.disabled[0]: got 'dance'; want one of 'jail', "),
    (
        "health.checks.disabled",
        ["clock", "jail"],
        "pulumi-slurm:health.checks.disabled[1]: got 'jail'; want another check: without the jail no job runs",
    ),
    ("health.checks.disabled", ["clock", "clock"], "health.checks.disabled[1]: got 'clock'; want each check once"),
    ("health.checks.unknown", "pass", "pulumi-slurm:health.checks.unknown: got 'pass'; want one of 'note' or 'drain'"),
    (
        "health.thresholds",
        [{"product": "Matrox G400", "numbers": {"gpu.smClock": 1}}],
        "pulumi-slurm:health.thresholds[0].product: got 'Matrox G400'; want any, or a product as the driver says it, "
        "NVIDIA … or Tesla …",
    ),
    (
        "health.thresholds",
        [{"product": "NVIDIA A10", "numbers": {"gpu.clock": 1}}],
        "health.thresholds[0].numbers.gpu.clock: got 1; want a number for one of gpu.pcieGeneration, gpu.pcieWidth",
    ),
    (
        "health.thresholds",
        [{"product": "any", "numbers": {"gpu.smClock": 1}}],
        "health.thresholds[0].numbers.gpu.smClock: got 1; want a number for one of clock.error, ",
    ),
    (
        "health.thresholds",
        [{"product": "NVIDIA A10", "numbers": {"nvbandwidth.host": 20}}],
        "health.thresholds[0].numbers.nvbandwidth.host: got 20; want nothing: health.longChecks[].least says that",
    ),
    (
        "health.thresholds",
        [{"product": "NVIDIA A10", "numbers": {"gpu.smClock": -1}}],
        "health.thresholds[0].numbers.gpu.smClock: got -1; want 0 or more",
    ),
    (
        "health.thresholds",
        [{"product": "NVIDIA A10", "numbers": {"gpu.smClock": "fast"}}],
        "health.thresholds[0].numbers.gpu.smClock: got 'fast'; want a whole number",
    ),
    ("health.thresholds", [{"product": "any", "numbers": {}}], "health.thresholds[0].numbers: got {}; want at least 1"),
    (
        "health.thresholds",
        [{"product": "any", "numbers": {"cpu.steal": 5}}] * 2,
        "health.thresholds[1].product: got 'any'; want another name: thresholds[0] has this one",
    ),
    ("health.leastFreePercent", 80, "pulumi-slurm:health.leastFreePercent: got 80; want 50 or less"),
    ("health.nodeConditions", [{}], "pulumi-slurm:health.nodeConditions[0].type: "),
    ("health.nodeConditions", [{"type": "a b"}], "nodeConditions[0].type: got 'a b'; want the type of a Kubernetes"),
    ("health.nodeConditions", [{"type": "Ready"}], "nodeConditions[0].type: got 'Ready'; want another condition"),
    (
        "health.nodeConditions",
        [{"type": "KernelDeadlock"}, {"type": "KernelDeadlock"}],
        "pulumi-slurm:health.nodeConditions[1].type: got 'KernelDeadlock'; want each type once",
    ),
    (
        "health.nodeConditions",
        [{"type": "KernelDeadlock", "failsWhen": "perhaps"}],
        "pulumi-slurm:health.nodeConditions[0].failsWhen: got 'perhaps'; want true or false",
    ),
    (
        "health.longChecks",
        [{**CHECK, "name": "A b"}],
        "health.longChecks[0].name: got 'A b'; want at most 32 lower-case",
    ),
    ("health.longChecks", [CHECK, CHECK], "health.longChecks[1].name: got 'a'; want another name: longChecks[0] has"),
    (
        "health.longChecks",
        [{**CHECK, "partition": "side"}],
        "health.longChecks[0].partition: got 'side'; want the name of a partition; there are: main",
    ),
    (
        "health.longChecks",
        [{**CHECK, "builtin": "dance"}],
        "longChecks[0].builtin: got 'dance'; want one of 'memory-ba",
    ),
    (
        "health.longChecks",
        [{**CHECK, "script": "/opt/a"}],
        'longChecks[0]: got ["builtin", "script"]; want exactly one of builtin and script',
    ),
    ("health.longChecks", [{**NO_PROGRAM}], "longChecks[0]: got nothing; want exactly one of builtin and script"),
    (
        "health.longChecks",
        [{**NO_PROGRAM, "script": "check.sh"}],
        "longChecks[0].script: got 'check.sh'; want an absolute",
    ),
    (
        "health.longChecks",
        [{**NO_PROGRAM, "script": "/opt/a", "least": 3}],
        "longChecks[0].least: got 3; want nothing: it is for the builtins memory-bandwidth, disk, ",
    ),
    (
        "health.longChecks",
        [{**NO_PROGRAM, "builtin": "memory-bandwidth"}],
        "longChecks[0].least: got nothing; want the GB/s that memory-bandwidth must reach",
    ),
    (
        "health.longChecks",
        [{**NO_PROGRAM, "builtin": "network", "nodes": 2}],
        "longChecks[0].least: got nothing; want the MB/s that network must reach",
    ),
    (
        "health.longChecks",
        [{**NO_PROGRAM, "builtin": "all-reduce", "nodes": 2}],
        "longChecks[0].least: got nothing; want the GB/s that all-reduce must reach",
    ),
    (
        "health.longChecks",
        [{**NO_PROGRAM, "builtin": "ib-write-bw", "nodes": 2}],
        "longChecks[0].least: got nothing; want the Gb/s that ib-write-bw must reach",
    ),
    (
        "health.longChecks",
        [{**NO_PROGRAM, "builtin": "ib-write-bw", "nodes": 2, "least": 360}],
        "longChecks[0].partition: got 'main'; want a partition whose nodes all have network.rdma, as it needs: cpu",
    ),
    (
        "health.longChecks",
        [{**NO_PROGRAM, "builtin": "gpu-burn", "least": 1}],
        "longChecks[0].least: got 1; want nothing: it is for the builtins memory-bandwidth, disk, ",
    ),
    (
        "health.longChecks",
        [{**NO_PROGRAM, "builtin": "gpu-burn"}],
        "longChecks[0].partition: got 'main'; want a partition whose nodes all have GPUs, as gpu-burn needs: cpu",
    ),
    (
        "health.longChecks",
        [{**NO_PROGRAM, "builtin": "network", "least": 900}],
        "longChecks[0].nodes: got 1; want 2, as network needs",
    ),
    ("health.longChecks", [{**CHECK, "nodes": 2}], "longChecks[0].nodes: got 2; want 1, as memory-bandwidth needs"),
    (
        "health.longChecks",
        [{**NO_PROGRAM, "script": "/opt/a", "nodes": 2, "beforeJobs": True}],
        "longChecks[0].beforeJobs: got true; want false, or nodes: 1: the nodes of a new cluster have no good partner",
    ),
    (
        "health.longChecks",
        [{**CHECK, "reaction": "note", "beforeJobs": True}],
        "longChecks[0].beforeJobs: got true; want false, or reaction: drain: a node that fails would take jobs",
    ),
    (
        "health.longChecks",
        [{**CHECK, "directory": "/scratch"}],
        "longChecks[0].directory: got '/scratch'; want nothing: it is for the builtin disk",
    ),
    (
        "health.longChecks",
        [{**NO_PROGRAM, "builtin": "disk", "least": 1}],
        "longChecks[0].directory: got nothing; want a folder on the disk to test; /tmp, /run and /dev/shm are memory",
    ),
    (
        "health.longChecks",
        [{**NO_PROGRAM, "builtin": "disk", "least": 1, "directory": "/tmp"}],
        "longChecks[0].directory: got '/tmp'; want a folder on the disk to test",
    ),
    ("health.longChecks", [{**CHECK, "nodes": 65}], "longChecks[0].nodes: got 65; want 64 or less"),
    (
        "health.longChecks",
        [{**CHECK, "returnAfterPasses": 11}],
        "longChecks[0].returnAfterPasses: got 11; want 10 or less",
    ),
    (
        "health.longChecks",
        [{**CHECK, "every": "0 3 * * *"}],
        "longChecks[0].every: got '0 3 * * *'; want a duration such",
    ),
    ("health.longChecks", [{**CHECK, "every": "5m"}], "longChecks[0].every: got '5m'; want 10m or more"),
    (
        "health.longChecks",
        [{**CHECK, "every": "1h", "timeLimit": "2h"}],
        "longChecks[0].every: got '1h'; want more than timeLimit (2h)",
    ),
    (
        "health.longChecks",
        [{**CHECK, "timeLimit": "long"}],
        "longChecks[0].timeLimit: got 'long'; want a duration such",
    ),
    ("health.longChecks", [{**CHECK, "timeLimit": "90s"}], "longChecks[0].timeLimit: got '90s'; want whole minutes"),
    ("health.longChecks", [{**CHECK, "sharePercent": 0}], "longChecks[0].sharePercent: got 0; want 1 or more"),
    (
        "health.longChecks",
        [{**NO_PROGRAM, "builtin": "dcgm-diag-2"}],
        "longChecks[0].partition: got 'main'; want a partition whose nodes all have GPUs, as dcgm-diag-2 needs: cpu",
    ),
    (
        "health.nodeConditions",
        [{"type": "KernelDeadlock", "nodeSets": ["gpu"]}],
        "pulumi-slurm:health.nodeConditions[0].nodeSets[0]: got 'gpu'; want the name of a node set; there are: cpu",
    ),
    ("monitoring.mode", "on", "want one of 'annotations', 'prometheusOperator' or 'off'"),
    (
        "monitoring.interval",
        "15s",
        "pulumi-slurm:monitoring.interval: got '15s'; want nothing: with annotations Prometheus's own interval counts",
    ),
    ("monitoring", {"mode": "prometheusOperator", "interval": "often"}, "want a duration such as 90s, 30m or 2h"),
    ("monitoring", {"mode": "off", "cidrs": []}, "monitoring.cidrs: got []; want nothing while monitoring.mode is off"),
    ("monitoring.namespaces", ["Monitoring"], "pulumi-slurm:monitoring.namespaces[0]: got 'Monitoring'; want a DNS"),
    ("monitoring.cidrs", ["192.0.2.1/8"], "want an address range such as 192.0.2.0/24"),
    ("monitoring.labels", {"a b": "c"}, "want a Kubernetes label key"),
    # Accounting.
    ("accounting.mode", "mysql", "want one of 'mariadb', 'external' or 'off'"),
    ("images.database", None, "pulumi-slurm:images.database: got nothing; want MariaDB's image, or another accounting"),
    ("accounting", {"mode": "external"}, "accounting.external: got nothing; want connection, or host with password"),
    (
        "accounting",
        {"mode": "external", "external": {}},
        "pulumi-slurm:accounting.external.host: got nothing; want the server's name, or connection",
    ),
    (
        "accounting",
        {"mode": "external", "external": {"host": "a"}},
        "pulumi-slurm:accounting.external.passwordSecret: got nothing; want a Secret",
    ),
    (
        "accounting",
        {"mode": "external", "external": {"connection": "mysql://a:b@c/d", "port": 3307}},
        "pulumi-slurm:accounting.external.port: got 3307; want nothing: connection says it already",
    ),
    *(
        (
            "accounting",
            {"mode": "external", "external": {"connection": text}},
            "pulumi-slurm:accounting.external.connection: got '[secret]'; want mysql://user:password@host:port/database",
        )
        for text in (
            "postgres://a:b@c/d",
            "mysql://a:b@c:port/d",
            "mysql://a@c/d",
            "mysql://a:b@c",
            "mysql://a:b@/d",
            "mysql://a:b@c/d?ssl=1",
            "mysql://a:b@c/d%20e",
            "mysql://a b:c@d/e",
            "a:b@c",
        )
    ),
    (
        "accounting",
        {"mode": "external", "external": {"connection": "mysql://a:@c/d"}},
        "want a password: slurmdbd takes an empty one for none",
    ),
    (
        "accounting",
        {"mode": "external", "external": {"connection": "mysql://a:%20%22@c/d"}},
        "got '[secret]'; want a password that begins and ends with no space",
    ),
    (
        "accounting",
        {"mode": "off", "enforce": ["limits"]},
        'pulumi-slurm:accounting.enforce: got ["limits"]; want nothing: accounting.mode is off',
    ),
    (
        "accounting",
        {"mode": "mariadb", "external": {"connection": "mysql://a:hunter2@c/d"}},
        "accounting.external: got '[secret]'; want nothing: accounting.mode is mariadb, and this is for ext",
    ),
    (
        "accounting",
        {"mode": "external", "storage": {}, "external": {"connection": "mysql://a:b@c/d"}},
        "pulumi-slurm:accounting.storage: got {}; want nothing: accounting.mode is external, and this is for mariadb",
    ),
    (
        "accounting.retention",
        {"jobs": "1 year"},
        "want a number of hours, days or months as Slurm writes it",
    ),
    ("nodeSets.0.jailImage", "debian:latest", "nodeSets[0].jailImage: got 'debian:latest'; want an image that cannot"),
    ("jail.keepRoots", 0, "jail.keepRoots: got 0; want 1 or more"),
    ("login.grace", "soon", "login.grace: got 'soon'; want a duration such as"),
    (
        *("nodeSets.0", {**SET, "replicas": None, "waitForNodes": True}),
        "nodeSets[0].waitForNodes: got true; want a number of nodes in replicas beside it, or false",
    ),
    ("nodeSets.0.removal", {"jobs": "kill"}, "nodeSets[0].removal.jobs: got 'kill'; want one of 'wait'"),
    ("nodeSets.0.removal", {"jobs": "deadline"}, "nodeSets[0].removal.deadline: got nothing; want a duration such as"),
    (
        "nodeSets.0.removal",
        {"deadline": "1h"},
        "nodeSets[0].removal.deadline: got '1h'; want a duration such as 24h wi",
    ),
    *(
        (
            "nodeSets.0.update",
            {"maxUnavailable": got},
            f"nodeSets[0].update.maxUnavailable: got {got!r}; want 1 or more nodes, 10000 at most, or a percentage",
        )
        for got in (0, -1, 10001, "0%", "150%", "-5%", "x", "3", "2.5%", 1.5)
    ),
    ("nodeSets.0.update", {"maxUnavailable": True}, "nodeSets[0].update.maxUnavailable: got true; want 1 or more"),
    ("nodeSets.0.update", {"deadline": "a day"}, "nodeSets[0].update.deadline: got 'a day'; want a duration such as"),
    *(
        (
            "nodeSets.0.update",
            {"window": {"start": start, "duration": "4h"}},
            f"nodeSets[0].update.window.start: got {start!r}; want a weekday (Mon, Tue, Wed, Thu, Fri, Sat, Sun) and a "
            "time of UTC, such as Sun 03:00, or one date, such as 2026-12-05T03:00Z",
        )
        for start in ("Sunn 03:00", "sun 03:00", "Sun 24:00", "Sun 3:00", "Sun", "2026-12-05", "2026-12-05T03:00+01:00")
    ),
    (
        "nodeSets.0.update",
        {"window": {"start": "2026-02-30T03:00Z", "duration": "4h"}},
        "nodeSets[0].update.window.start: got '2026-02-30T03:00Z'; want a date of the calendar",
    ),
    (
        "nodeSets.0.update",
        {"window": {"start": "Sun 03:00", "duration": "599s"}},
        "nodeSets[0].update.window.duration: got '599s'; want 10m or more",
    ),
    (
        "nodeSets.0.update",
        {"window": {"start": "Sun 03:00", "duration": "169h"}},
        "nodeSets[0].update.window.duration: got '169h'; want 168h or less",
    ),
    ("nodeSets.0.update", {"window": {"start": "Sun 03:00"}}, "nodeSets[0].update.window.duration: got nothing; want"),
    ("accounting.retention", {"jobs": "0days"}, "want a number of hours, days or months"),
    *(
        ("accounting.options", {key: value}, f"pulumi-slurm:accounting.options.{key}: got {got}; want {want}")
        for key, value, got, want in (
            ("TrackWcKeys", "yes", "'TrackWcKeys'", "a key of slurmdbd.conf that Slurm 26.05 knows; did you mean Tr"),
            ("trackwckey", "yes", "'trackwckey'", "another key: TrackWCKey is set by this program, it is that of slur"),
            ("PurgeJobAfter", "1month", "'PurgeJobAfter'", "accounting.retention.jobs in its place, which sets Purge"),
            ("ArchiveScript", "/x", "'ArchiveScript'", "no ArchiveScript: slurmdbd would run it in its own pod"),
            ("commitdelay", 1, "'commitdelay'", "CommitDelay, as Slurm writes it"),
            ("CommitDelay", 65_534, "65534", "a whole number of seconds, from 1 to 65533"),
            ("TCPTimeout", "0", "'0'", "a whole number of seconds, from 1 to 65533"),
            ("MaxPurgeLimit", "all", "'all'", "a whole number of rows, such as 50000"),
            ("MaxQueryTimeRange", "60 days", "'60 days'", "a Slurm time such as 60-0, or UNLIMITED"),
            ("DebugLevel", "quiet", "'quiet'", "info, verbose, debug, or debug2 to debug5"),
            ("DebugFlags", "DB_JOBS", "'DB_JOBS'", "flags of slurmdbd.conf(5), such as DB_JOB,DB_STEP"),
            ("DisableRollups", True, "true", 'text in quotes, such as "YES" or "NO"'),
            ("DisableRollups", "yes\nStoragePass=x", "'yes\\nStoragePass=x'", "yes or no, in quotes"),
        )
    ),
    ("accounting.enforce", ["everything"], "pulumi-slurm:accounting.enforce[0]: got 'everything'; want one of 'assoc"),
    ("accounting.priority", {"weightAge": -1}, "pulumi-slurm:accounting.priority.weightAge: got -1; want 0 or more"),
    ("accounting.priority.decayHalfLife", "0", "decayHalfLife: got '0'; want more than 0, or slurm.options.Priori"),
    ("accounting.priority", {"decayHalfLife": "a week"}, "want a Slurm time such as 7-00:00:00"),
    *(
        ("accounting.retention.jobs", age, f"got '{age}'; want at most 65535, or a longer unit: slurmdbd would purge")
        for age in ("87600hours", "65536days")
    ),
    (
        "accounting",
        {"mode": "external", "external": {"host": "a", "user": "a b", "passwordSecret": {"name": "s"}}},
        "pulumi-slurm:accounting.external.user: got 'a b'; want a database user",
    ),
    (
        "accounting",
        {"mode": "external", "external": {"host": "a", "database": "a;b", "passwordSecret": {"name": "s"}}},
        "pulumi-slurm:accounting.external.database: got 'a;b'; want a database name",
    ),
    (
        "accounting",
        {"mode": "external", "external": {"host": "a", "passwordSecret": {"name": "s", "key": "a/b"}}},
        "want a key of a Secret",
    ),
    # Login.
    ("login.users", [{**USER, "name": "root"}], "pulumi-slurm:login.users[0].name: got 'root'; want a login name"),
    ("login.users", [USER, USER], "want another name: users[0] has this one"),
    ("login.users", [{**USER, "sshPublicKeys": ["ssh-ed25519 AAAA"]}], "want one line of an OpenSSH public key file"),
    ("login.users", [{**USER, "sshPublicKeys": [f"{SSH_KEY}\nevil"]}], "want one line of an OpenSSH public key file"),
    ("login.users", [{**USER, "sshPublicKeys": []}], "want at least 1 of them"),
    ("login.limits", {"memoryPerUser": "64Gi"}, "want at most login.resources.memory (4Gi)"),
    ("login.limits", {"memoryPerUser": "64"}, "want a Kubernetes quantity such as 64Gi"),
    ("login.limits", {"cpuPerUser": "many"}, "want a Kubernetes CPU quantity"),
    ("login.limits", {"processesPerUser": 3}, "pulumi-slurm:login.limits.processesPerUser: got 3; want 16 or more"),
    ("login.passwords", "maybe", "want true or false"),
    ("login.allowUsers", [], "pulumi-slurm:login.allowUsers: got []; want at least 1 of them"),
    ("login.allowUsers", ["al*"], "pulumi-slurm:login.allowUsers[0]: got 'al*'; want a login name of an ordinary user"),
    ("login.allowUsers", ["root"], "pulumi-slurm:login.allowUsers[0]: got 'root'; want a login name"),
    ("login.allowGroups", ["a b"], "pulumi-slurm:login.allowGroups[0]: got 'a b'; want the name of a Unix group"),
    (
        "login",
        {"allowUsers": ["a"], "allowGroups": ["b"]},
        'allowGroups: got ["b"]; want nothing beside allowUsers: sshd',
    ),
    *(
        ("login.sets", [{"name": "data", **keys}], f"pulumi-slurm:login.sets[0].{expected}")
        for keys, expected in (
            ({"name": "Data"}, "name: got 'Data'; want a DNS label"),
            ({"replicas": 101}, "replicas: got 101; want 100 or less"),
            ({"users": []}, "users: got []; want no such key"),
            ({"sets": []}, "sets: got []; want no such key"),
            ({"allowGroups": []}, "allowGroups: got []; want at least 1 of them"),
            ({"allowGroups": ["root"]}, "allowGroups[0]: got 'root'; want the name of a Unix group"),
            ({"existingSshSecret": "A"}, "existingSshSecret: got 'A'; want the name of a Kubernetes object"),
            ({"pod": {"hostNetwork": True}}, "pod.hostNetwork: got true; want nothing: the jail depends"),
            ({"limits": {"memoryPerUser": "64Gi"}}, "limits.memoryPerUser: got '64Gi'; want at most the memory of its"),
            (
                {"service": {"type": "NodePort", "loadBalancerSourceRanges": ["192.0.2.0/24"]}},
                'service.loadBalancerSourceRanges: got ["192.0.2.0/24"]; want nothing: a NodePort Service hides',
            ),
            (
                {"submounts": [{"path": "/mnt/memory", "memory": "8Gi"}]},
                'submounts: got ["[0].memory: 8192Mi"]; want memory sizes that are together less than 4096Mi',
            ),
        )
    ),
    (
        "login.sets",
        [{"name": name, "service": {"type": "NodePort", "nodePort": 30122}} for name in ("a", "b")],
        "login.sets[1].service.nodePort: got 30122; want another port: login.sets[0].service.nodePort is this one",
    ),
    ("directory", {"base": "dc=example"}, "directory.uri: got nothing; want the directory's address"),
    ("directory", {"uri": "ldaps://ldap.example"}, "pulumi-slurm:directory.base: got nothing; want the entry below"),
    ("directory", {**DIRECTORY, "uri": "http://a.example"}, "want ldaps://HOST or ldap://HOST"),
    ("directory", {**DIRECTORY, "uri": "ldaps://a.example/dc=b??sub"}, "want ldaps://HOST or ldap://HOST"),
    ("directory", {**DIRECTORY, "uri": "-x"}, "want ldaps://HOST or ldap://HOST"),
    ("directory", {**DIRECTORY, "base": "example.org"}, "want a distinguished name such as ou=people,dc=example"),
    ("directory", {**DIRECTORY, "base": "dc=a\ndc=b"}, "want a distinguished name"),
    ("directory", {**DIRECTORY, "userFilter": "uid=*"}, "directory.userFilter: got 'uid=*'; want an LDAP filter in"),
    ("directory", {**DIRECTORY, "groupFilter": "-h"}, "directory.groupFilter: got '-h'; want an LDAP filter in"),
    ("directory", {**DIRECTORY, "interval": "5"}, "directory.interval: got '5'; want a duration such as"),
    ("directory", {**DIRECTORY, "bindDn": "cn=a"}, "directory.bindPasswordSecret: got nothing; want the Secret with"),
    ("directory", {**DIRECTORY, "bindPasswordSecret": {"name": "a"}}, "directory.bindDn: got nothing; want whose"),
    ("directory", {**DIRECTORY, "bindDn": "cn=a", "bindPasswordSecret": "secret"}, "want a map of keys to values"),
    ("directory", {**DIRECTORY, "caSecret": {"name": "A"}}, "directory.caSecret.name: got 'A'; want the name of a"),
    ("directory", {**DIRECTORY, "password": "x"}, "pulumi-slurm:directory.password: got 'x'; want no such key"),
    (
        "login.service",
        {"type": "NodePort", "loadBalancerSourceRanges": ["192.0.2.0/24"]},
        "every login would be refused",
    ),
]
