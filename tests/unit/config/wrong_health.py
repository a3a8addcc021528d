"""Wrong values of health checks and of monitoring."""

from __future__ import annotations

from typing import Any

CHECK = {"name": "a", "partition": "main", "builtin": "memory-bandwidth", "least": 1}
NO_PROGRAM = {"name": "a", "partition": "main"}

WRONG_HEALTH: list[tuple[str, Any, str]] = [
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
        [{"name": "a", "partition": "main", "builtin": "gpu-burn", "timeLimit": "1m"}],
        "longChecks[0].timeLimit: got '1m'; want 2m or more: gpu_burn takes 30 s to end, after half of this time",
    ),
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
    (
        "health.longChecks",
        [{**CHECK, "schedule": "each night"}],
        "longChecks[0].schedule: got 'each night'; want a cron line of five fields (minute, hour, day, month, weekday) "
        "in UTC, such as 0 3 * * * for each day at 03:00",
    ),
    *(
        (
            "health.longChecks",
            [{**CHECK, "schedule": wrong}],
            f"longChecks[0].schedule: got '{wrong}'; want a cron line of five fields",
        )
        for wrong in (
            "",
            "@daily",
            "24h",
            "0 3 * *",
            "0 3 * * * *",
            "60 3 * * *",
            "0 24 * * *",
            "0 3 0 * *",
            "0 3 32 * *",
            "0 3 * 13 *",
            "0 3 * * 8",
            "0 3 * * MOND",
            "0 3 * * 1-",
            "0 3 * * ,",
            "0 3 */0 * *",
            "0 3 L * *",
            "0 3 * * 1#2",
            "0 3 30 2 *",
            "0 3 5-2 * *",
            "0 3 * * FRI-MON",
            "0  3 * * *",
            "CRON_TZ=UTC 0 3 * * *",
        )
    ),
    (
        "health.longChecks",
        [{**CHECK, "schedule": "0 24 * * *"}],
        "for each day at 03:00; this one has a bad hour",
    ),
    (
        "health.longChecks",
        [{**CHECK, "schedule": 3}],
        "longChecks[0].schedule: got 3; want a cron line of five fields",
    ),
    (
        "health.longChecks",
        [{**CHECK, "schedule": "0 3 * * *", "every": "24h"}],
        "longChecks[0].schedule: got '0 3 * * *'; want nothing beside every (24h): one of the two",
    ),
    *(
        (
            "health.longChecks",
            [{**CHECK, "schedule": often}],
            f"longChecks[0].schedule: got '{often}'; want times that are 10m or more apart: nodes are there for other",
        )
        for often in ("* * * * *", "*/7 3 * * *", "0,5 3 1 1 *", "55,0 23,0 * * *")
    ),
    (
        "health.longChecks",
        [{**CHECK, "schedule": "0 3,4 * * *", "timeLimit": "1h"}],
        "longChecks[0].schedule: got '0 3,4 * * *'; want times further apart than timeLimit (1h)",
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
]
