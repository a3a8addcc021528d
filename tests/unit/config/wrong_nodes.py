"""Wrong values of node sets, and of what brings their GPUs."""

from __future__ import annotations

from typing import Any

from tests.unit.samples import GPU_SET, OTHER_IMAGE

SET = {"name": "gpu", "replicas": 1, "resources": {"cpu": 1, "memory": "1Gi"}}

WRONG_NODES: list[tuple[str, Any, str]] = [
    ("nodeSets.0.gpu", {}, "pulumi-slurm:nodeSets[0].gpu: got {}; want no such key (did you mean gpus?"),
    ("nodeSets.0.resources.mem", "1Gi", "pulumi-slurm:nodeSets[0].resources.mem: got '1Gi'; want no such key"),
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
    ("nodeSets", {}, "pulumi-slurm:nodeSets: got {}; want a list"),
    ("nodeSets", [], "pulumi-slurm:nodeSets: got []; want at least 1 of them"),
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
    # Numbers of nodes, and names.
    ("nodeSets.0.replicas", -1, "pulumi-slurm:nodeSets[0].replicas: got -1; want 0 or more"),
    ("nodeSets.0.replicas", "two", "pulumi-slurm:nodeSets[0].replicas: got 'two'; want a whole number"),
    ("nodeSets.0.replicas", True, "got true; want a whole number"),
    ("nodeSets", [SET, SET], "pulumi-slurm:nodeSets[1].name: got 'gpu'; want another name: nodeSets[0] has this one"),
    ("nodeSets.0.name", "slurm-login", "want a name that does not start with slurm-"),
    ("nodeSets.0.name", "Gpu_A", "pulumi-slurm:nodeSets[0].name: got 'Gpu_A'; want a DNS label"),
    ("nodeSets.0.name", "a" * 41, "want a DNS label: at most 40"),
    ("nodeSets.0.name", "8gpu", "want a DNS label: at most 40"),
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
    # Reactions, removal and updates.
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
    ("nodeSets.0.jailImage", "debian:latest", "nodeSets[0].jailImage: got 'debian:latest'; want an image that cannot"),
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
]
