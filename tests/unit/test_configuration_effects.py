"""Each field of the configuration has an effect on what is declared, and here it is."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pydantic import BaseModel

from components import slurm_cluster
from components.addons import gpu_operator
from components.config import Config, parse
from components.config.model import model_of
from components.control import ledger
from components.jail import jail_population
from components.slurm import slurm_conf, slurmdbd_conf
from tests.unit import network_effects, submount_effects
from tests.unit.samples import DIGEST, GPU_SET, SSH_KEY, changed, run_program

OTHER_IMAGE = "registry.example/other@" + DIGEST.replace("ab", "cd")
CPU_SET = {"name": "cpu", "replicas": 1, "resources": {"cpu": 1, "memory": "1Gi"}}
CONNECTION = "mysql://slurm:secret@db.example/slurm_acct_db"
PARTITION = {"name": "main", "nodeSets": ["cpu"]}


def body(config: Config, kind: str, name: str) -> Any:
    """The declared object of this kind and name."""
    everything = [*slurm_cluster.manifests(config), *ledger.manifests(config)]
    found = [manifest.body for manifest in everything if (manifest.kind, manifest.name) == (kind, name)]
    return found[0] if found else None


def pod(config: Config, kind: str, name: str) -> Any:
    """The pod spec of a workload."""
    return body(config, kind, name)["spec"]["template"]["spec"]


def annotations(config: Config, kind: str, name: str) -> Any:
    """The annotations of a workload's pods."""
    return body(config, kind, name)["spec"]["template"]["metadata"].get("annotations", {})


def container(config: Config, kind: str, name: str) -> Any:
    """The first container of a workload."""
    return pod(config, kind, name)["containers"][0]


def variable(config: Config, kind: str, name: str, key: str) -> Any:
    """A JSON variable of a workload's container."""
    found = {each["name"]: each["value"] for each in container(config, kind, name)["env"]}
    return json.loads(found[key])


def job(config: Config) -> str:
    """Name of the populate Job."""
    return jail_population.job_name(config.jail.revision)


def worker(key: str) -> Callable[[Config], Any]:
    """Reads one value of SLURM_NODE of the workers."""
    return lambda config: variable(config, "StatefulSet", "cpu", "SLURM_NODE")[key]


def reactions(key: str) -> Callable[[Config], Any]:
    """Reads one value of what the first node set's NodeSet says about unfit nodes."""
    return lambda config: slurm_cluster.node_set_resource(config, config.node_sets[0])["spec"]["reactions"][key]


def update(key: str) -> Callable[[Config], Any]:
    """Reads one value of the first node set's policy for updates."""
    return lambda config: slurm_cluster.node_set_resource(config, config.node_sets[0])["spec"]["update"].get(key)


def window(key: str) -> Callable[[Config], Any]:
    """Reads one value of the first node set's window for updates."""
    return lambda config: update("window")(config)[key]


def removal(key: str) -> Callable[[Config], Any]:
    """Reads one value of the first node set's policy for nodes that go."""
    return lambda config: slurm_cluster.node_set_resource(config, config.node_sets[0])["spec"]["removal"].get(key)


def service(config: Config) -> Any:
    """The spec of the login Service."""
    return body(config, "Service", "slurm-login")["spec"]


def login(key: str) -> Callable[[Config], Any]:
    """Reads one value of SLURM_LOGIN of the login nodes."""
    return lambda config: variable(config, "StatefulSet", "slurm-login", "SLURM_LOGIN").get(key)


def followed(key: str) -> Callable[[Config], Any]:
    """A value that the pod which follows the directory is told."""
    return lambda config: variable(config, "Deployment", "slurm-directory", "SLURM_DIRECTORY")[key]


def directory_secret(config: Config, file: str) -> Any:
    """The Secret from which the directory's pod has a file."""
    sources = next(
        each for each in pod(config, "Deployment", "slurm-directory")["volumes"] if each["name"] == "secrets"
    )
    secrets = [each["secret"] for each in sources["projected"]["sources"]]
    return next(each for each in secrets if each["items"][0]["path"] == file)


def claim(name: str) -> Callable[[Config], Any]:
    """Reads the spec of a claim."""
    return lambda config: body(config, "PersistentVolumeClaim", name)["spec"]


def volume(config: Config) -> Any:
    """The spec of the volume that the program declares for the jail."""
    return body(config, "PersistentVolume", "slurm-slurm-jail")["spec"]


def manifest(config: Config, kind: str, name: str) -> Any:
    """The declared object with its options."""
    return next(each for each in slurm_cluster.manifests(config) if (each.kind, each.name) == (kind, name))


def issuer(key: str) -> Callable[[Config], Any]:
    """Reads who signs the certificate of slurmrestd."""
    return lambda config: body(config, "Certificate", "slurm-rest")["spec"]["issuerRef"][key]


def authority(config: Config) -> Any:
    """The Secret with the CA that slurmdbd mounts."""
    volumes = pod(config, "StatefulSet", "slurm-accounting")["volumes"]
    return next(each["secret"] for each in volumes if each["name"] == "database-authority")


def conf(config: Config) -> list[str]:
    """Lines of slurm.conf."""
    return slurm_conf.slurm_conf(config).splitlines()


def has(line: str) -> Callable[[Config], bool]:
    """Whether slurm.conf has this line."""
    return lambda config: line in conf(config)


def partition(pair: str) -> Callable[[Config], bool]:
    """Whether the first partition's line of slurm.conf has this pair of key and value."""
    return lambda config: pair in next(line for line in conf(config) if line.startswith("PartitionName=")).split()


def dbd(config: Config) -> dict[str, str]:
    """Settings of slurmdbd.conf by key, and those that say where the database is under all their keys."""
    pairs = (line.partition("=") for line in slurmdbd_conf.slurmdbd_conf(config).splitlines())
    found = {key: value for key, _, value in pairs}
    where = ("StorageHost", "StoragePort", "StorageUser", "StorageLoc")
    return {**found, " ".join(where): " ".join(found[key] for key in where)}


def password(config: Config) -> tuple[Any, bool]:
    """From where slurmdbd gets its password, and whether the database has it from there too."""
    volumes = [
        next(each["secret"] for each in pod(config, "StatefulSet", name)["volumes"] if each["name"] == "password")
        for name in ("slurm-accounting", "slurm-database")
        if body(config, "StatefulSet", name)
    ]
    return volumes[0], volumes[0] == volumes[-1]


def requests(kind: str, name: str, key: str) -> Callable[[Config], Any]:
    """Reads a request of a workload's container."""
    return lambda config: container(config, kind, name)["resources"]["requests"].get(key)


def runtime_class(config: Config) -> Any:
    """The RuntimeClass of the workers."""
    return pod(config, "StatefulSet", "cpu").get("runtimeClassName")


def chart_value(part: str, key: str) -> Callable[[Config], Any]:
    """Reads a value of the GPU operator's chart."""
    return lambda config: gpu_operator.values(config)[part][key]


EFFECTS: list[tuple[str, Any, Callable[[Config], Any], Any]] = [
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
    ("jail.storage.className", "fast", lambda c: claim("slurm-jail")(c)["storageClassName"], "fast"),
    ("jail.storage.size", "2Ti", lambda c: claim("slurm-jail")(c)["resources"]["requests"]["storage"], "2Ti"),
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
    ("jail.storage.nfs.version", 4.1, lambda c: "nfsvers=4.1" in volume(c)["mountOptions"], True),
    ("jail.storage.nfs.lookupCache", "none", lambda c: "lookupcache=none" in volume(c)["mountOptions"], True),
    ("jail.storage.nfs.attributeCacheSeconds", 1, lambda c: "actimeo=1" in volume(c)["mountOptions"], True),
    ("jail.storage.nfs.connections", 8, lambda c: "nconnect=8" in volume(c)["mountOptions"], True),
    ("jail.storage.nfs.mountOptions", ["rsize=65536"], lambda c: volume(c)["mountOptions"][-1], "rsize=65536"),
    ("jail.storage.retain", False, lambda c: manifest(c, "PersistentVolumeClaim", "slurm-jail").retain, False),
    ("jail.storage.protect", True, lambda c: manifest(c, "PersistentVolumeClaim", "slurm-jail").protect, True),
    (
        "controller.stateStorage.className",
        "fast",
        lambda c: claim("slurm-controller-state")(c)["storageClassName"],
        "fast",
    ),
    (
        "controller.stateStorage.size",
        "9Gi",
        lambda c: claim("slurm-controller-state")(c)["resources"]["requests"]["storage"],
        "9Gi",
    ),
    (
        "controller.stateStorage.retain",
        False,
        lambda c: manifest(c, "PersistentVolumeClaim", "slurm-controller-state").retain,
        False,
    ),
    (
        "controller.stateStorage.protect",
        True,
        lambda c: manifest(c, "PersistentVolumeClaim", "slurm-controller-state").protect,
        True,
    ),
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
        "nvidia.com/mig-1g.10gb",
        requests("StatefulSet", "cpu", "nvidia.com/mig-1g.10gb"),
        "2",
    ),
    ("nodeSets.0.gpus.runtimeClass", "nvidia-cdi", runtime_class, "nvidia-cdi"),
    ("nodeSets.0.gpus.runtimeClass", "none", runtime_class, None),
    (
        "nodeSets.0.gpus.devices",
        "/dev/nvidia[0-1]",
        slurm_conf.gres_conf,
        "NodeName=cpu-[0-9999] AutoDetect=off Name=gpu Type=h100 File=/dev/nvidia[0-1]\nAutoDetect=off\n",
    ),
    ("gpuOperator.mode", "install", gpu_operator.is_installed, True),
    ("gpuOperator.driver", "preinstalled", chart_value("driver", "enabled"), False),
    ("gpuOperator.toolkit", "preinstalled", chart_value("toolkit", "enabled"), False),
    ("gpuOperator.cdi", False, chart_value("cdi", "enabled"), False),
    ("gpuOperator.migStrategy", "mixed", chart_value("mig", "strategy"), "mixed"),
    ("gpuOperator.gdrcopy", True, chart_value("gdrcopy", "enabled"), True),
    ("gpuOperator.dcgmExporter", False, chart_value("dcgmExporter", "enabled"), False),
    (
        "gpuOperator.serviceMonitor",
        True,
        lambda c: gpu_operator.values(c)["dcgmExporter"]["serviceMonitor"]["enabled"],
        True,
    ),
    ("gpuOperator.nodeFeatureDiscovery", False, chart_value("nfd", "enabled"), False),
    ("nodeSets.0.weight", 7, worker("weight"), 7),
    ("nodeSets.0.weightBucket", 32, worker("weightBucket"), 32),
    ("jail.keepRoots", 9, lambda c: variable(c, "StatefulSet", "slurm-login", "SLURM_JAIL")["keepRoots"], 9),
    ("login.grace", "2m", lambda c: variable(c, "StatefulSet", "slurm-login", "SLURM_NODE")["graceSeconds"], 120),
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
    ("partitions.0.state", "DRAIN", partition("State=DRAIN"), True),
    ("partitions.0.hidden", True, partition("Hidden=YES"), True),
    ("partitions.0.hidden", False, partition("Hidden=NO"), True),
    ("partitions.0.defaultTime", "1:00:00", partition("DefaultTime=1:00:00"), True),
    ("partitions.0.minNodes", 2, partition("MinNodes=2"), True),
    ("partitions.0.maxNodes", 4, partition("MaxNodes=4"), True),
    ("partitions.0.priorityTier", 0, partition("PriorityTier=0"), True),
    ("partitions.0.priorityJobFactor", 10, partition("PriorityJobFactor=10"), True),
    ("partitions.0.qos", "short", partition("QOS=short"), True),
    ("partitions.0.allowAccounts", ["physics", "bio"], partition("AllowAccounts=physics,bio"), True),
    ("partitions.0.denyAccounts", ["guests"], partition("DenyAccounts=guests"), True),
    ("partitions.0.allowQos", ["normal", "short"], partition("AllowQos=normal,short"), True),
    ("partitions.0.denyQos", ["long"], partition("DenyQos=long"), True),
    ("partitions.0.overSubscribe", "FORCE:4", partition("OverSubscribe=FORCE:4"), True),
    ("partitions.0.exclusive", "NODE", partition("Exclusive=NODE"), True),
    ("partitions.0.preemptMode", "REQUEUE", partition("PreemptMode=REQUEUE"), True),
    ("partitions.0.graceTime", 90, partition("GraceTime=90"), True),
    ("partitions.0.defMemPerCpu", "512Mi", partition("DefMemPerCPU=512"), True),
    ("partitions.0.defMemPerGpu", "1Gi", partition("DefMemPerGPU=1024"), True),
    ("partitions.0.defMemPerGpu", "1Gi", partition("DefMemPerCPU=768"), False),
    ("partitions.0.defMemPerNode", "1Gi", partition("DefMemPerNode=1024"), True),
    ("partitions.0.maxMemPerCpu", "1Gi", partition("MaxMemPerCPU=1024"), True),
    # Ours gives way, so that Slurm does not give each job more CPUs for its memory.
    ("partitions.0.maxMemPerCpu", "256Mi", partition("DefMemPerCPU=256"), True),
    ("partitions.0.maxMemPerNode", "1Gi", partition("MaxMemPerNode=1024"), True),
    ("partitions.0.defCpuPerGpu", 8, partition("DefCPUPerGPU=8"), True),
    ("partitions.0.resumeTimeout", 900, partition("ResumeTimeout=900"), True),
    ("partitions.0.options", {"LLN": "YES", "ReqResv": "YES"}, partition("LLN=YES"), True),
    ("login.replicas", 3, lambda c: body(c, "StatefulSet", "slurm-login")["spec"]["replicas"], 3),
    ("login.service.type", "NodePort", lambda c: service(c)["type"], "NodePort"),
    ("login.service.nodePort", 30022, lambda c: service(c)["ports"][0]["nodePort"], 30022),
    (
        "login.service.loadBalancerSourceRanges",
        ["192.0.2.0/24"],
        lambda c: (
            service(c)["loadBalancerSourceRanges"],
            body(c, "NetworkPolicy", "slurm-login")["spec"]["ingress"][0]["from"],
        ),
        (["192.0.2.0/24"], [{"ipBlock": {"cidr": "192.0.2.0/24"}}]),
    ),
    (
        "login.service.annotations",
        {"cloud.example/a": "b"},
        lambda c: body(c, "Service", "slurm-login")["metadata"]["annotations"]["cloud.example/a"],
        "b",
    ),
    ("login.users.name", "bob", lambda c: variable(c, "Job", job(c), "SLURM_USERS")[0]["name"], "bob"),
    (
        "login.users.sshPublicKeys",
        [SSH_KEY, f"{SSH_KEY}2"],
        lambda c: variable(c, "Job", job(c), "SLURM_USERS")[0]["sshPublicKeys"],
        [SSH_KEY, f"{SSH_KEY}2"],
    ),
    ("login.users.sudo", True, lambda c: variable(c, "Job", job(c), "SLURM_USERS")[0]["sudo"], True),
    (
        "login.users.admin",
        True,
        lambda c: slurm_cluster.cluster_resource(c)["spec"].get("administrators"),
        {"alice": "Administrator"},
    ),
    (
        "login.users.operator",
        True,
        lambda c: slurm_cluster.cluster_resource(c)["spec"].get("administrators"),
        {"alice": "Operator"},
    ),
    ("login.limits.memoryPerUser", "1Gi", login("memoryMib"), 1024),
    ("login.limits.cpuPerUser", "1500m", login("cpuMillis"), 1500),
    ("login.limits.processesPerUser", 99, login("processes"), 99),
    ("login.passwords", True, login("passwords"), True),
    ("directory.uri", "ldap://a.example:10389", followed("uri"), "ldap://a.example:10389"),
    ("directory.base", "dc=other", followed("base"), "dc=other"),
    ("directory.bindDn", "cn=reader,dc=example", followed("bind"), "cn=reader,dc=example"),
    ("directory.bindPasswordSecret.name", "theirs", lambda c: directory_secret(c, "password")["name"], "theirs"),
    (
        "directory.bindPasswordSecret.key",
        "reader",
        lambda c: directory_secret(c, "password")["items"],
        [{"key": "reader", "path": "password"}],
    ),
    ("directory.caSecret.name", "corp", lambda c: directory_secret(c, "ca.crt")["name"], "corp"),
    (
        "directory.caSecret.key",
        "root.pem",
        lambda c: directory_secret(c, "ca.crt")["items"],
        [{"key": "root.pem", "path": "ca.crt"}],
    ),
    ("directory.userFilter", "(uid=a*)", followed("userFilter"), "(uid=a*)"),
    ("directory.groupFilter", "(cn=a*)", followed("groupFilter"), "(cn=a*)"),
    ("directory.interval", "2m", followed("seconds"), 120),
    ("directory.resources.cpu", "3", requests("Deployment", "slurm-directory", "cpu"), "3"),
    ("directory.resources.memory", "3Gi", requests("Deployment", "slurm-directory", "memory"), "3Gi"),
    ("login.resources.cpu", "3", requests("StatefulSet", "slurm-login", "cpu"), "3"),
    ("login.resources.memory", "3Gi", requests("StatefulSet", "slurm-login", "memory"), "3Gi"),
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
    ("slurm.cgroupPlugin", "disabled", lambda c: slurm_conf.cgroup_conf(c), "CgroupPlugin=disabled\n"),
    ("slurm.constrainCores", True, lambda c: slurm_conf.cgroup_conf(c).splitlines()[-1], "ConstrainCores=yes"),
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
    ("images.database", OTHER_IMAGE, lambda c: container(c, "StatefulSet", "slurm-database")["image"], OTHER_IMAGE),
    (
        "credentials.existingDatabaseSecret",
        "mine",
        lambda c: (body(c, "Secret", "slurm-database-credentials"), password(c)[0]["secretName"], password(c)[1]),
        (None, "mine", True),
    ),
    ("accounting.mode", "off", lambda c: body(c, "StatefulSet", "slurm-accounting"), None),
    ("accounting.mode", "off", has("AccountingStorageType=accounting_storage/slurmdbd"), False),
    ("accounting.mode", "off", lambda c: "accounting" in slurm_cluster.cluster_resource(c)["spec"], False),
    ("accounting.resources.cpu", "3", requests("StatefulSet", "slurm-accounting", "cpu"), "3"),
    ("accounting.resources.memory", "3Gi", requests("StatefulSet", "slurm-accounting", "memory"), "3Gi"),
    ("accounting.databaseResources.cpu", "3", requests("StatefulSet", "slurm-database", "cpu"), "3"),
    ("accounting.databaseResources.memory", "3Gi", requests("StatefulSet", "slurm-database", "memory"), "3Gi"),
    (
        "accounting.databaseResources.memory",
        "256Mi",
        lambda c: container(c, "StatefulSet", "slurm-database")["args"],
        [f"--innodb-buffer-pool-size={96 * 2**20}"],
    ),
    ("accounting.storage.className", "fast", lambda c: claim("slurm-database")(c)["storageClassName"], "fast"),
    (
        "accounting.storage.size",
        "9Gi",
        lambda c: claim("slurm-database")(c)["resources"]["requests"]["storage"],
        "9Gi",
    ),
    (
        "accounting.storage.retain",
        False,
        lambda c: manifest(c, "PersistentVolumeClaim", "slurm-database").retain,
        False,
    ),
    (
        "accounting.storage.protect",
        True,
        lambda c: manifest(c, "PersistentVolumeClaim", "slurm-database").protect,
        True,
    ),
    (
        "accounting.external.connection",
        "mariadb://ann:p%40ss@db.example:3307/books",
        lambda c: dbd(c)["StorageHost StoragePort StorageUser StorageLoc"],
        "db.example 3307 ann books",
    ),
    ("accounting.external.host", "db2.example", lambda c: dbd(c)["StorageHost"], "db2.example"),
    ("accounting.external.port", 3307, lambda c: dbd(c)["StoragePort"], "3307"),
    ("accounting.external.user", "ann", lambda c: dbd(c)["StorageUser"], "ann"),
    ("accounting.external.database", "books", lambda c: dbd(c)["StorageLoc"], "books"),
    ("accounting.external.passwordSecret.name", "theirs", lambda c: password(c)[0]["secretName"], "theirs"),
    (
        "accounting.external.passwordSecret.key",
        "pw",
        lambda c: password(c)[0]["items"],
        [{"key": "pw", "path": "password"}],
    ),
    ("accounting.enforce", ["limits", "qos"], has("AccountingStorageEnforce=limits,qos"), True),
    ("accounting.retention.jobs", "12months", lambda c: dbd(c)["PurgeJobAfter"], "12months"),
    ("accounting.retention.steps", "6months", lambda c: dbd(c)["PurgeStepAfter"], "6months"),
    ("accounting.retention.events", "30days", lambda c: dbd(c)["PurgeEventAfter"], "30days"),
    ("accounting.retention.reservations", "30days", lambda c: dbd(c)["PurgeResvAfter"], "30days"),
    ("accounting.retention.suspensions", "30days", lambda c: dbd(c)["PurgeSuspendAfter"], "30days"),
    ("accounting.retention.transactions", "30days", lambda c: dbd(c)["PurgeTXNAfter"], "30days"),
    ("accounting.retention.usage", "24hours", lambda c: dbd(c)["PurgeUsageAfter"], "24hours"),
    ("accounting.priority.weightAge", 7, has("PriorityWeightAge=7"), True),
    ("accounting.priority.weightFairshare", 7, has("PriorityWeightFairshare=7"), True),
    ("accounting.priority.weightJobSize", 7, has("PriorityWeightJobSize=7"), True),
    ("accounting.priority.weightPartition", 7, has("PriorityWeightPartition=7"), True),
    ("accounting.priority.weightQos", 7, has("PriorityWeightQOS=7"), True),
    ("accounting.priority.maxAge", "3-0", has("PriorityMaxAge=3-0"), True),
    ("accounting.priority.decayHalfLife", "14-0", has("PriorityDecayHalfLife=14-0"), True),
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
    ("accounting.external.caSecret.name", "corp", lambda c: authority(c)["secretName"], "corp"),
    ("accounting.external.caSecret.key", "root.pem", lambda c: authority(c)["items"][0]["key"], "root.pem"),
    ("rest.tls", False, lambda c: len(pod(c, "Deployment", "slurm-rest")["containers"]), 1),
    (
        "certificates.mode",
        "existing",
        lambda c: body(c, "Issuer", "slurm-ca")["spec"],
        {"ca": {"secretName": "slurm-ca"}},
    ),
    ("certificates.mode", "existing", lambda c: len(pod(c, "Deployment", "slurm-rest")["containers"]), 2),
    ("certificates.issuer.name", "corp", issuer("name"), "corp"),
    ("certificates.issuer.kind", "ClusterIssuer", issuer("kind"), "ClusterIssuer"),
    (
        "certificates.duration",
        "1000h",
        lambda c: body(c, "Certificate", "slurm-rest")["spec"]["duration"],
        "1000h",
    ),
    (
        "certificates.renewBefore",
        "10h",
        lambda c: body(c, "Certificate", "slurm-rest")["spec"]["renewBefore"],
        "10h",
    ),
    ("monitoring.mode", "off", has("MetricsType=metrics/openmetrics"), False),
    ("monitoring.mode", "off", lambda c: body(c, "Service", "slurm-metrics-jobs"), None),
    ("monitoring.mode", "prometheusOperator", lambda c: body(c, "PodMonitor", "slurm-operator")["kind"], "PodMonitor"),
    (
        "monitoring.interval",
        "15s",
        lambda c: body(c, "PodMonitor", "slurm-controller")["spec"]["podMetricsEndpoints"][0]["interval"],
        "15s",
    ),
    (
        "monitoring.labels",
        {"release": "prometheus"},
        lambda c: body(c, "PodMonitor", "slurm-controller")["metadata"]["labels"]["release"],
        "prometheus",
    ),
    (
        "monitoring.users",
        True,
        lambda c: body(c, "PodMonitor", "slurm-controller")["spec"]["podMetricsEndpoints"][-1]["path"],
        "/metrics/jobs-users-accts",
    ),
    (
        "monitoring.namespaces",
        ["watch"],
        lambda c: body(c, "NetworkPolicy", "slurm-operator")["spec"]["ingress"][0]["from"],
        [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "watch"}}}],
    ),
    (
        "monitoring.cidrs",
        ["192.0.2.1/32"],
        lambda c: body(c, "NetworkPolicy", "slurm-controller")["spec"]["ingress"][0]["from"][-1],
        {"ipBlock": {"cidr": "192.0.2.1/32"}},
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
    # tests/provider/test_ownership.py: it changes no manifest.
    "cluster.adopt",
    "timeouts.available",
    "timeouts.nodes",
    "nodeSets.0.waitForNodes",
    # tests/unit/test_certificates.py: they are not in a manifest of ours.
    "certificates.version",
    "certificates.namespace",
}
"""Fields whose effect is not on a manifest, each with a test of its own below."""

_BASES: dict[str, tuple[str, Any]] = {
    "jail.storage.nfs.": ("jail.storage.nfs", {"server": "a.example", "path": "/x"}),
    "nodeSets.0.gpus.": ("nodeSets.0.gpus", {"type": "h100", "perNode": 2}),
    "partitions.0.": ("partitions", [PARTITION]),
    "nodeSets.0.tolerations.": ("nodeSets.0.tolerations", [{"key": "x"}]),
    "certificates.issuer.": ("certificates", {"mode": "existing", "issuer": {"name": "other"}}),
    "certificates.duration": ("certificates.mode", "existing"),
    "certificates.renewBefore": ("certificates.mode", "existing"),
    "rest.tls": ("certificates.mode", "existing"),
    "monitoring.interval": ("monitoring.mode", "prometheusOperator"),
    "monitoring.labels": ("monitoring.mode", "prometheusOperator"),
    "monitoring.users": ("monitoring.mode", "prometheusOperator"),
    "accounting.external.connection": ("accounting", {"mode": "external", "external": {"connection": CONNECTION}}),
    "accounting.external.caSecret.": (
        "accounting",
        {
            "mode": "external",
            "external": {"host": "db.example", "passwordSecret": {"name": "db"}, "caSecret": {"name": "ca"}},
        },
    ),
    "accounting.external.": (
        "accounting",
        {"mode": "external", "external": {"host": "db.example", "passwordSecret": {"name": "db"}}},
    ),
    "nodeSets.0.removal.deadline": ("nodeSets.0.removal", {"jobs": "deadline", "deadline": "1h"}),
    "nodeSets.0.update.window.": ("nodeSets.0.update", {"window": {"start": "Sun 03:00", "duration": "2h"}}),
    "directory.": (
        "directory",
        {
            "uri": "ldaps://ldap.example",
            "base": "dc=example",
            "bindDn": "cn=slurm",
            "bindPasswordSecret": {"name": "ldap"},
            "caSecret": {"name": "ca"},
        },
    ),
    "slurm.spankPlugins.": ("slurm.spankPlugins", [{"file": "a.so"}]),
    "login.users.": ("login.users", [{"name": "alice", "sshPublicKeys": [SSH_KEY]}]),
}


_BY_TIER = ("slurm.options", {"PreemptType": "preempt/partition_prio"})
_GPUS = ("nodeSets.0.gpus", {"type": "h100", "perNode": 2})
_BESIDES: dict[str, tuple[str, Any]] = {
    "partitions.0.preemptMode": _BY_TIER,
    "partitions.0.graceTime": _BY_TIER,
    "partitions.0.defMemPerGpu": _GPUS,
    "partitions.0.defCpuPerGpu": _GPUS,
}
"""Field → what it needs in another section."""


def configured(path: str, value: Any) -> tuple[Config, Config]:
    """The configuration without and with a value."""
    base = changed("cluster.namespace", "slurm")
    for prefix, (parent, default) in _BASES.items():
        if path.startswith(prefix):
            base = changed(parent, default, base)
            break
    for prefix, (parent, default) in _BESIDES.items():
        if path.startswith(prefix):
            base = changed(parent, default, base)
    path = path.replace("tolerations.", "tolerations.0.").replace("users.", "users.0.")
    path = path.replace("spankPlugins.", "spankPlugins.0.")
    return parse(base), parse(changed(path, value, base))


@pytest.mark.parametrize(
    ("path", "value", "probe", "expected"), EFFECTS, ids=[f"{path}-{n}" for n, (path, *_) in enumerate(EFFECTS)]
)
def test_the_field_does_what_it_says(path: str, value: Any, probe: Callable[[Config], Any], expected: Any) -> None:
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
    shown |= {_without_rows(path) for path in (*network_effects.PATHS, *submount_effects.PATHS)}
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
