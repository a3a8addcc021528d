"""Each field of the configuration has an effect on what is declared, and here it is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import BaseModel

from components import slurm_cluster
from components.config import Config, parse
from components.config.model import model_of
from components.slurm.conf import gres_conf, slurm_conf, slurmdbd_conf
from contract import names
from tests.unit.effects import (
    accounting_effects,
    addon_effects,
    gres_effects,
    login_effects,
    login_set_effects,
    network_effects,
    node_effects,
    partition_effects,
    people_effects,
    pod_effects,
    script_effects,
    submount_effects,
)
from tests.unit.effects.declared import (
    Effect,
    Probe,
    annotations,
    body,
    claim,
    claim_effects,
    container,
    has,
    job,
    pod,
    requests,
    variable,
)
from tests.unit.samples import GPU_SET, OTHER_IMAGE, changed, run_program
from tests.unit.slurm import topology_samples

CPU_SET = {"name": "cpu", "replicas": 1, "resources": {"cpu": 1, "memory": "1Gi"}}
PARTITION = {"name": "main", "nodeSets": ["cpu"]}


def worker(key: str) -> Probe:
    """Reads one value of SLURM_NODE of the workers."""
    return lambda config: variable(config, "StatefulSet", "cpu", "SLURM_NODE")[key]


def reactions(key: str) -> Probe:
    """Reads one value of what the first node set's NodeSet says about unfit nodes."""
    return lambda config: slurm_cluster.node_set_resource(config, config.node_sets[0])["spec"]["reactions"][key]


def update(key: str) -> Probe:
    """Reads one value of the first node set's policy for updates."""
    return lambda config: slurm_cluster.node_set_resource(config, config.node_sets[0])["spec"]["update"].get(key)


def window(key: str) -> Probe:
    """Reads one value of the first node set's window for updates."""
    return lambda config: update("window")(config)[key]


def removal(key: str) -> Probe:
    """Reads one value of the first node set's policy for nodes that go."""
    return lambda config: slurm_cluster.node_set_resource(config, config.node_sets[0])["spec"]["removal"].get(key)


def volume(config: Config) -> Any:
    """The spec of the volume that the program declares for the jail."""
    return body(config, "PersistentVolume", "slurm-slurm-jail")["spec"]


def runtime_class(config: Config) -> Any:
    """The RuntimeClass of the workers."""
    return pod(config, "StatefulSet", "cpu").get("runtimeClassName")


EFFECTS: list[Effect] = [
    *accounting_effects.EFFECTS,
    *addon_effects.EFFECTS,
    *gres_effects.EFFECTS,
    *login_effects.EFFECTS,
    *login_set_effects.EFFECTS,
    *node_effects.EFFECTS,
    *partition_effects.EFFECTS,
    ("cluster.name", "research", has("ClusterName=research"), True),
    ("cluster.namespace", "hpc", lambda c: body(c, "Service", "slurm-rest")["metadata"]["namespace"], "hpc"),
    ("cluster.createNamespace", False, lambda c: body(c, "Namespace", "slurm"), None),
    (
        "cluster.clusterDomain",
        "k8s.example",
        lambda c: pod(c, "StatefulSet", "cpu")["dnsConfig"]["searches"],
        ["slurm-workers.slurm.svc.k8s.example"],
    ),
    (
        "images.registry",
        "ghcr.io/x",
        lambda c: container(c, "Deployment", "slurm-rest")["image"][:15],
        "ghcr.io/x/slurm",
    ),
    ("images.slurm", OTHER_IMAGE, lambda c: container(c, "StatefulSet", "cpu")["image"], OTHER_IMAGE),
    ("images.operator", OTHER_IMAGE, lambda c: container(c, "Deployment", "slurm-operator")["image"], OTHER_IMAGE),
    ("images.pullPolicy", "Never", lambda c: container(c, "StatefulSet", "cpu")["imagePullPolicy"], "Never"),
    ("images.pullSecrets", ["s"], lambda c: pod(c, "StatefulSet", "slurm-login")["imagePullSecrets"], [{"name": "s"}]),
    ("jail.image", OTHER_IMAGE, lambda c: pod(c, "Job", job(c))["initContainers"][1]["image"], OTHER_IMAGE),
    ("jail.image", OTHER_IMAGE, lambda c: variable(c, "StatefulSet", "cpu", "SLURM_JAIL")["revision"], "cd" * 8),
    ("jail.persistent", ["/data"], lambda c: variable(c, "StatefulSet", "cpu", "SLURM_JAIL")["persistent"], ["/data"]),
    ("jail.tmpSize", "2Gi", lambda c: variable(c, "StatefulSet", "cpu", "SLURM_JAIL")["tmpMib"], 2048),
    *claim_effects("jail.storage", "slurm-jail"),
    ("jail.storage.existingClaim", "mine", lambda c: body(c, "PersistentVolumeClaim", "slurm-jail"), None),
    (
        "jail.storage.existingClaim",
        "mine",
        lambda c: pod(c, "StatefulSet", "cpu")["volumes"][0]["persistentVolumeClaim"]["claimName"],
        "mine",
    ),
    ("jail.storage.hostPath", "/lustre", lambda c: volume(c)["hostPath"]["path"], "/lustre"),
    ("jail.storage.hostPath", "/lustre", lambda c: claim("slurm-jail")(c)["volumeName"], "slurm-slurm-jail"),
    ("jail.storage.nfs", {"server": "a.example", "path": "/x"}, lambda c: volume(c)["nfs"]["server"], "a.example"),
    ("jail.storage.nfs.server", "b.example", lambda c: volume(c)["nfs"]["server"], "b.example"),
    ("jail.storage.nfs.path", "/y", lambda c: volume(c)["nfs"]["path"], "/y"),
    ("jail.storage.nfs.path", "/", lambda c: volume(c)["nfs"]["path"], "/"),
    ("jail.storage.nfs.version", "4.2", lambda c: "nfsvers=4.2" in volume(c)["mountOptions"], True),
    ("jail.storage.nfs.version", 3, lambda c: "nfsvers=3" in volume(c)["mountOptions"], True),
    ("jail.storage.nfs.lookupCache", "none", lambda c: "lookupcache=none" in volume(c)["mountOptions"], True),
    ("jail.storage.nfs.attributeCacheSeconds", 1, lambda c: "actimeo=1" in volume(c)["mountOptions"], True),
    ("jail.storage.nfs.connections", 8, lambda c: "nconnect=8" in volume(c)["mountOptions"], True),
    ("jail.storage.nfs.mountOptions", ["rsize=65536"], lambda c: volume(c)["mountOptions"][-1], "rsize=65536"),
    *claim_effects("controller.stateStorage", "slurm-controller-state"),
    ("controller.resources.cpu", "3", requests("StatefulSet", "slurm-controller", "cpu"), "3"),
    ("controller.resources.memory", "3Gi", requests("StatefulSet", "slurm-controller", "memory"), "3Gi"),
    ("rest.resources.cpu", "3", requests("Deployment", "slurm-rest", "cpu"), "3"),
    ("rest.resources.memory", "3Gi", requests("Deployment", "slurm-rest", "memory"), "3Gi"),
    ("nodeSets.0.name", "big", has("NodeSet=ns_big Feature=big"), True),
    ("nodeSets.0.resources.cpu", 4, worker("cpus"), 4),
    ("nodeSets.0.resources.processes", 4096, worker("processes"), 4096),
    ("nodeSets.0.resources.memory", "4Gi", worker("memoryMib"), 4096 - 256),
    ("nodeSets.0.resources.reservedMemory", "512Mi", worker("memoryMib"), 512),
    ("nodeSets.0.resources.cpuRequest", "100m", requests("StatefulSet", "cpu", "cpu"), "100m"),
    ("nodeSets.0.gpus.type", "a100", worker("gres"), "gpu:a100:2"),
    ("nodeSets.0.gpus.perNode", 4, worker("gres"), "gpu:h100:4"),
    (
        "nodeSets.0.gpus.resource",
        "nvidia.com/gpu.shared",
        requests("StatefulSet", "cpu", "nvidia.com/gpu.shared"),
        "2",
    ),
    ("nodeSets.0.gpus.runtimeClass", "nvidia-cdi", runtime_class, "nvidia-cdi"),
    ("nodeSets.0.gpus.runtimeClass", "none", runtime_class, None),
    (
        "nodeSets.0.gpus.devices",
        "/dev/nvidia[0-1]",
        gres_conf.text,
        "NodeName=cpu-[0-9999] AutoDetect=off Name=gpu Type=h100 File=/dev/nvidia[0-1]\nAutoDetect=off\n",
    ),
    ("nodeSets.0.weight", 7, worker("weight"), 7),
    ("nodeSets.0.weightBucket", 32, worker("weightBucket"), 32),
    ("jail.keepRoots", 9, lambda c: variable(c, "StatefulSet", "slurm-login", "SLURM_JAIL")["keepRoots"], 9),
    (
        "nodeSets.0.jailImage",
        OTHER_IMAGE,
        lambda c: variable(c, "StatefulSet", "cpu", "SLURM_JAIL")["revision"],
        "cdcdcdcdcdcdcdcd",
    ),
    ("nodeSets.0.update.maxUnavailable", 3, update("maxUnavailable"), 3),
    ("nodeSets.0.update.maxUnavailable", "25%", update("maxUnavailable"), "25%"),
    ("nodeSets.0.update.deadline", "12h", update("deadlineSeconds"), 43200),
    ("nodeSets.0.update.paused", True, update("paused"), True),
    ("nodeSets.0.update.window.start", "Sat 22:00", window("start"), "Sat 22:00"),
    ("nodeSets.0.update.window.duration", "4h", window("durationSeconds"), 14400),
    ("nodeSets.0.removal.jobs", "force", removal("jobs"), "force"),
    ("nodeSets.0.removal.deadline", "2h", removal("deadlineSeconds"), 7200),
    ("nodeSets.0.reactions.restart", True, reactions("restart"), True),
    ("nodeSets.0.reactions.replace", True, reactions("replace"), True),
    ("nodeSets.0.reactions.after", "10m", reactions("afterSeconds"), 600),
    ("nodeSets.0.reactions.attempts", 3, reactions("attempts"), 3),
    ("nodeSets.0.reactions.atOnce", 2, reactions("atOnce"), 2),
    ("nodeSets.0.reactions.perHour", 9, reactions("perHour"), 9),
    ("nodeSets.0.reactions.breakerPercent", 20, reactions("breakerPercent"), 20),
    ("nodeSets.0.reactions.dryRun", True, reactions("dryRun"), True),
    ("nodeSets.0.reactions.approval", True, reactions("approval"), True),
    ("nodeSets.0.grace", "2m", lambda c: pod(c, "StatefulSet", "cpu")["terminationGracePeriodSeconds"], 180),
    ("nodeSets.0.nodeSelector", {"a": "b"}, lambda c: pod(c, "StatefulSet", "cpu")["nodeSelector"], {"a": "b"}),
    ("nodeSets.0.tolerations.key", "k", lambda c: pod(c, "StatefulSet", "cpu")["tolerations"][-1]["key"], "k"),
    (
        "nodeSets.0.tolerations.operator",
        "Exists",
        lambda c: pod(c, "StatefulSet", "cpu")["tolerations"][-1]["operator"],
        "Exists",
    ),
    ("nodeSets.0.tolerations.value", "v", lambda c: pod(c, "StatefulSet", "cpu")["tolerations"][-1]["value"], "v"),
    (
        "nodeSets.0.tolerations.effect",
        "NoSchedule",
        lambda c: pod(c, "StatefulSet", "cpu")["tolerations"][-1]["effect"],
        "NoSchedule",
    ),
    (
        "partitions.0.name",
        "short",
        has("PartitionName=short Nodes=ns_cpu Default=NO MaxTime=UNLIMITED DefMemPerCPU=768 State=UP"),
        True,
    ),
    (
        "partitions.0.nodeSets",
        ["cpu"],
        has("PartitionName=main Nodes=ns_cpu Default=NO MaxTime=UNLIMITED DefMemPerCPU=768 State=UP"),
        True,
    ),
    (
        "partitions.0.default",
        True,
        has("PartitionName=main Nodes=ns_cpu Default=YES MaxTime=UNLIMITED DefMemPerCPU=768 State=UP"),
        True,
    ),
    (
        "partitions.0.maxTime",
        "7-00:00:00",
        has("PartitionName=main Nodes=ns_cpu Default=NO MaxTime=7-00:00:00 DefMemPerCPU=768 State=UP"),
        True,
    ),
    (
        "slurm.spankPlugins.file",
        "b.so",
        lambda c: slurm_conf.plugstack_conf(c).splitlines()[1:],
        ["required /opt/slurm/lib/slurm-wlm/b.so"],
    ),
    (
        "slurm.spankPlugins.arguments",
        ["x=/y", "z"],
        lambda c: slurm_conf.plugstack_conf(c).splitlines()[1],
        "required /opt/slurm/lib/slurm-wlm/a.so x=/y z",
    ),
    (
        "slurm.spankPlugins.required",
        False,
        lambda c: slurm_conf.plugstack_conf(c).splitlines()[1],
        "optional /opt/slurm/lib/slurm-wlm/a.so",
    ),
    ("slurm.options", {"KillWait": 60}, has("KillWait=60"), True),
    (
        "slurm.options",
        {"communicationparameters": "block_null_hash,EnableIPv6", "SlurmdParameters": "numa_node_as_socket"},
        lambda c: annotations(c, "StatefulSet", "cpu").get("pulumi-slurm.dev/taken-at-start"),
        "enableipv6,numa_node_as_socket",
    ),
    ("health.interval", "2m", has("HealthCheckInterval=120"), True),
    ("health.nodeStates", ["IDLE"], has("HealthCheckNodeState=IDLE"), True),
    ("health.leastFreePercent", 7, worker("leastFreePercent"), 7),
    (
        "health.checks.disabled",
        ["nvme", "clock"],
        lambda c: body(c, "ConfigMap", names.NODE_SCRIPTS)["data"]["disabledChecks"],
        "nvme\nclock\n",
    ),
    ("health.checks.unknown", "drain", worker("unknownDrains"), True),
    ("slurm.cgroupPlugin", "disabled", lambda c: slurm_conf.cgroup_conf(c), "CgroupPlugin=disabled\n"),
    ("slurm.constrainCores", True, lambda c: slurm_conf.cgroup_conf(c).splitlines()[-1], "ConstrainCores=yes"),
    (
        "slurm.cgroupOptions",
        {"ConstrainSwapSpace": "yes", "AllowedSwapSpace": "50"},
        lambda c: slurm_conf.cgroup_conf(c).splitlines()[-2:],
        ["ConstrainSwapSpace=yes", "AllowedSwapSpace=50"],
    ),
    ("slurm.files", {"topology.yaml": "- x\n"}, lambda c: slurm_conf.files(c)["topology.yaml"], "- x\n"),
    ("slurm.mpiPlugins", ["pmi2"], has("PluginDir=/opt/slurm/lib/slurm-wlm:/opt/slurm/lib/slurm-pmi2"), True),
    ("slurm.privateData", [], has("PrivateData=jobs,usage"), False),
    ("slurm.privateData", ["jobs", "users"], has("PrivateData=jobs,users"), True),
    ("slurm.privateData", ["jobs", "users"], lambda c: "PrivateData=users\n" in slurmdbd_conf.slurmdbd_conf(c), True),
    ("credentials.existingSecret", "mine", lambda c: body(c, "Secret", "slurm-keys"), None),
    (
        "credentials.existingSecret",
        "mine",
        lambda c: pod(c, "StatefulSet", "slurm-controller")["volumes"][1]["secret"]["secretName"],
        "mine",
    ),
    (
        "credentials.existingSshSecret",
        "mine",
        lambda c: pod(c, "StatefulSet", "slurm-login")["volumes"][2]["secret"]["secretName"],
        "mine",
    ),
    ("operator.mode", "existing", lambda c: body(c, "Deployment", "slurm-operator"), None),
    (
        "nodeSets.0.reactions.replace",
        True,
        lambda c: body(c, "ClusterRole", "slurm-operator-slurm")["rules"][0]["verbs"],
        ["get", "list", "watch", "patch"],
    ),
    ("operator.replicas", 2, lambda c: body(c, "Deployment", "slurm-operator")["spec"]["replicas"], 2),
    ("operator.watchNodes", False, lambda c: body(c, "ClusterRole", "slurm-operator-slurm"), None),
    ("operator.resources.cpu", "3", requests("Deployment", "slurm-operator", "cpu"), "3"),
    ("operator.resources.memory", "3Gi", requests("Deployment", "slurm-operator", "memory"), "3Gi"),
    ("networkPolicies.enabled", False, lambda c: body(c, "NetworkPolicy", "slurm-rest"), None),
    (
        "networkPolicies.restClientCidrs",
        ["198.51.100.0/24"],
        lambda c: body(c, "NetworkPolicy", "slurm-rest")["spec"]["ingress"][0]["from"][-1],
        {"ipBlock": {"cidr": "198.51.100.0/24"}},
    ),
    ("timeouts.populate", "2h", lambda c: body(c, "Job", job(c))["spec"]["activeDeadlineSeconds"], 7260),
]
"""Path of the field (a list's first row without its number where the list is empty by default) → value → effect."""

IN_THE_PROGRAM = {
    "kubernetes.context",
    "kubernetes.kubeconfig",
    "kubernetes.clusterIdentifier",
    "nodeSets.0.replicas",
    "gpuOperator.version",
    "gpuOperator.namespace",
    "checks.cluster",
    # tests/unit/preflight/test_job_effects.py
    "checks.jobs",
    # tests/unit/preflight/test_account_changes.py
    "checks.accounts",
    # tests/provider/test_ownership.py: it changes no manifest.
    "cluster.adopt",
    "timeouts.available",
    "timeouts.nodes",
    "nodeSets.0.waitForNodes",
    # tests/unit/addons/test_certificates.py: they are not in a manifest of ours.
    "certificates.version",
    "certificates.namespace",
}
"""Fields whose effect is not on a manifest, each with a test of its own below."""

_BASES: dict[str, tuple[str, Any]] = {
    **accounting_effects.BASES,
    **addon_effects.BASES,
    **login_effects.BASES,
    **login_set_effects.BASES,
    "jail.storage.nfs.": ("jail.storage.nfs", {"server": "a.example", "path": "/x"}),
    "nodeSets.0.gpus.": ("nodeSets.0.gpus", {"type": "h100", "perNode": 2}),
    "partitions.0.hangs.": ("partitions", [{**PARTITION, "hangs": {"after": "1h"}}]),
    "partitions.0.": ("partitions", [PARTITION]),
    "nodeSets.0.tolerations.": ("nodeSets.0.tolerations", [{"key": "x"}]),
    "nodeSets.0.removal.deadline": ("nodeSets.0.removal", {"jobs": "deadline", "deadline": "1h"}),
    "nodeSets.0.update.window.": ("nodeSets.0.update", {"window": {"start": "Sun 03:00", "duration": "2h"}}),
    "slurm.spankPlugins.": ("slurm.spankPlugins", [{"file": "a.so"}]),
}


def configured(path: str, value: Any) -> tuple[Config, Config]:
    """The configuration without and with a value."""
    base = changed("cluster.namespace", "slurm")
    for prefix, (parent, default) in _BASES.items():
        if path.startswith(prefix):
            base = changed(parent, default, base)
            break
    if path in partition_effects.BESIDES:
        base = changed(*partition_effects.BESIDES[path], base)
    path = path.replace("tolerations.", "tolerations.0.").replace("users.", "users.0.")
    path = path.replace("spankPlugins.", "spankPlugins.0.")
    return parse(base), parse(changed(path, value, base))


@pytest.mark.parametrize(
    ("path", "value", "probe", "expected"), EFFECTS, ids=[f"{path}-{n}" for n, (path, *_) in enumerate(EFFECTS)]
)
def test_the_field_does_what_it_says(path: str, value: Any, probe: Probe, expected: Any) -> None:
    before, after = configured(path, value)
    assert probe(after) == expected
    if path != "partitions.0.nodeSets":  # Its only other value takes a second node set: see the golden files.
        try:
            unchanged = probe(before)
        except (KeyError, IndexError, TypeError):
            return
        assert unchanged != expected, f"{path} changes nothing"


def _leaves(model: type[BaseModel], prefix: str = "") -> Iterator[str]:
    for info in model.model_fields.values():
        path = f"{prefix}{info.alias}"
        inner = model_of(info.annotation)
        if inner is None:
            yield path
        else:
            yield from _leaves(inner, f"{path}.")


def _without_rows(path: str) -> str:
    return path.replace(".0", "")


def test_every_field_is_in_the_table() -> None:
    shown = {_without_rows(path) for path, *_ in EFFECTS} | {_without_rows(path) for path in IN_THE_PROGRAM}
    shown |= {_without_rows(path) for path in (*network_effects.PATHS, *submount_effects.PATHS, *pod_effects.PATHS)}
    shown |= script_effects.PATHS | node_effects.PATHS | gres_effects.PATHS | people_effects.PATHS
    shown |= topology_samples.PATHS
    assert set(_leaves(Config)) <= shown


def test_every_field_is_described() -> None:
    def undescribed(model: type[BaseModel], prefix: str = "") -> Iterator[str]:
        for info in model.model_fields.values():
            if not info.description:
                yield f"{prefix}{info.alias}"
            if inner := model_of(info.annotation):
                yield from undescribed(inner, f"{prefix}{info.alias}.")

    assert list(undescribed(Config)) == []


def test_replicas_change_the_node_set_resource_alone() -> None:
    before, _ = run_program(changed("nodeSets.0.replicas", 2))
    after, _ = run_program(changed("nodeSets.0.replicas", 9))
    assert after.one("NodeSet", "cpu-nodes").inputs["spec"]["replicas"] == 9
    old = {each.urn: each.inputs for each in before.registered}
    new = {each.urn: each.inputs for each in after.registered}
    assert old.keys() == new.keys()
    differing = [urn.rpartition("::")[2] for urn in old if old[urn] != new[urn]]
    assert differing == ["cpu-nodes"]


def test_without_replicas_the_program_says_nothing_of_the_number_of_nodes() -> None:
    raw = changed("nodeSets.0.replicas", 2)
    with_it = run_program(raw)[0].one("NodeSet", "cpu-nodes").inputs
    assert with_it["metadata"]["annotations"]["pulumi-slurm.dev/declared-replicas"] == "2"
    without = run_program(changed("nodeSets.0.replicas", None))[0].one("NodeSet", "cpu-nodes").inputs
    assert "replicas" not in without["spec"]
    assert "pulumi-slurm.dev/declared-replicas" not in without["metadata"]["annotations"]


@pytest.mark.parametrize(
    ("path", "value", "key"),
    [
        ("kubernetes.context", "prod", "context"),
        ("kubernetes.kubeconfig", "apiVersion: v1", "kubeconfig"),
        ("kubernetes.clusterIdentifier", "prod", "clusterIdentifier"),
    ],
)
def test_the_provider_takes_what_says_which_cluster(path: str, value: str, key: str) -> None:
    engine, _ = run_program(changed(path, value))
    provider = engine.one("kubernetes", "kubernetes")
    assert provider.inputs[key] == value
    assert provider.is_secret(key) == (key == "kubeconfig")


def test_the_wait_for_available_is_as_long_as_configured() -> None:
    engine, _ = run_program(changed("timeouts.available", "2h"))
    assert engine.one("Availability", "availability").inputs["seconds"] == 7200
    assert engine.one("SlurmCluster", "cluster").request.customTimeouts.delete == "7230s"


def test_nodes_are_waited_for_after_jobs_where_a_set_asks_for_it() -> None:
    engine, _ = run_program(changed("nodeSets.0.waitForNodes", True))
    waited_for = engine.one("NodesReady", "cpu-nodes-ready")
    expected = {"nodeSet": "cpu", "replicas": 2, "namespace": "slurm", "seconds": 1800}
    assert waited_for.inputs | expected == waited_for.inputs
    assert engine.one("Availability", "availability").urn in waited_for.dependencies
    by_default, _ = run_program(changed("nodeSets.0.waitForNodes", False))
    assert not [each for each in by_default.registered if "NodesReady" in each.type]


def test_the_wait_for_nodes_is_as_long_as_configured() -> None:
    engine, _ = run_program(changed("timeouts.nodes", "3h", changed("nodeSets.0.waitForNodes", True)))
    assert engine.one("NodesReady", "cpu-nodes-ready").inputs["seconds"] == 10800


def test_gpu_nodes_are_filled_after_cpu_nodes() -> None:
    cpu, gpu = parse(changed("nodeSets", [CPU_SET, GPU_SET])).node_sets
    assert cpu.base_weight + 15 < gpu.base_weight
