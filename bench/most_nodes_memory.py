"""The operator's memory with 5,000 nodes, where this process plays the API server and slurmrestd.

Objects are as large as real ones: pods with volumes and managed fields, Kubernetes nodes with images, Slurm nodes with
all fields of slurmrestd. `bench most-nodes` has the real daemons, and objects with little in them.
"""

from __future__ import annotations

import base64
import gzip
import json
import re
import tempfile
import time
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path

from bench.many_nodes import BOUNDS, MOST
from bench.measurement import Measurement
from bench.worlds.played_api_server import NAMESPACE, Object, PlayedApiServer
from contract import names
from devcluster.apiserver.control_plane import free_ports
from tests.operator.fakes import fake_slurmrestd
from tests.operator.fakes.fake_slurm import FakeSlurm
from tests.operator.worlds.world import CONF, KEY, WORKLOADS, RunningOperator, custom, operator, stateful_set

FIRST_PASSES, CHANGES = 3, 6
"""Each change costs a listing of all nodes."""


@dataclass
class Surroundings:
    """Stands for a World, of which an operator asks no more here. Nothing tries a configuration."""

    namespace: str = NAMESPACE
    dry_run_url: str = "http://127.0.0.1:9"
    operators: list[RunningOperator] = field(default_factory=list)


def number(value: int) -> dict[str, object]:
    """Return a number that is set, as slurmrestd writes it."""
    return {"set": True, "infinite": False, "number": value}


def measure(_: None) -> list[Measurement]:
    """Start the operator among so many nodes that work, and drain some, one in each pass."""
    with fake_slurmrestd.running(KEY) as slurm, tempfile.TemporaryDirectory() as name:
        folder, server = Path(name), PlayedApiServer()
        register(slurm.slurm, MOST)
        declare(server, MOST, slurm.url)
        world, port = Surroundings(), free_ports(1)[0]
        with operator(world, folder, _kubeconfig(server, folder), port, has_short_pauses=False) as process:
            _wait(port, FIRST_PASSES)
            for turn in range(CHANGES):
                slurm.slurm.drain(f"cpu-{turn}", "bad-fan", "alice")
                server.put(names.SLURM_CLUSTERS, {"metadata": {"name": "test", "annotations": {"turn": str(turn)}}})
                _wait(port, 1)
            resident, most = _memory(process.pid)
        server.shutdown()
    bound, unit = BOUNDS["memory"]
    return [Measurement(f"operator, {MOST} nodes of real size: memory", most, bound, unit, {"now": resident})]


def _kubeconfig(server: PlayedApiServer, folder: Path) -> Path:
    context = {"name": "c", "context": {"cluster": "c", "user": "u"}}
    users, clusters = {"name": "u", "user": {"token": "t"}}, {"name": "c", "cluster": {"server": server.url}}
    file = folder / "kubeconfig"
    content = {"current-context": "c", "contexts": [context], "clusters": [clusters], "users": [users]}
    file.write_text(json.dumps(content))
    return file


def _memory(pid: int | None) -> tuple[float, float]:
    """Present and largest resident memory, in MiB."""
    text = Path(f"/proc/{pid}/status").read_text()
    now, most = (int(re.findall(rf"{key}:\s+(\d+)", text)[0]) / 1024 for key in ("VmRSS", "VmHWM"))
    return now, most


def _wait(port: int, passes: int) -> None:
    wanted, deadline = _passes(port) + passes, time.monotonic() + 60
    while _passes(port) < wanted:
        if time.monotonic() > deadline:
            raise TimeoutError(f"the operator did not make {passes} passes")
        time.sleep(0.5)  # Each question costs the operator some of what is measured.


def _passes(port: int) -> float:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=20) as answer:
            page = answer.read().decode()
    except OSError:
        return 0
    rows = re.findall(r'pass_seconds_count\{outcome="done",subject="slurm"\} (\S+)', page)
    return sum(map(float, rows))


_SINCE = {"lastProbeTime": None, "lastTransitionTime": "2026-11-25T08:00:10Z", "observedGeneration": 1}
_DIGEST = f"sha256:{'a' * 64}"
_VOLUMES = [f"volume-{n}" for n in range(12)]


def _pod(name: str, labels: Object) -> Object:
    """A pod as Kubernetes and kubelet leave it: about 9 KB."""
    kinds = (
        "PodReadyToStartContainers",
        "Initialized",
        "Ready",
        "ContainersReady",
        "PodScheduled",
        names.POD_CONDITION,
    )
    words = {"status": "True", "reason": "Idle", "message": ""}
    of_both: Object = {
        "name": "slurmd",
        "image": f"registry.example.org/pulumi-slurm/slurm@{_DIGEST}",
        "resources": {"limits": {"cpu": "8", "memory": "1000Mi"}, "requests": {"cpu": "8", "memory": "1000Mi"}},
        "volumeMounts": [{"name": volume, "mountPath": f"/mnt/{name}/{volume}"} for volume in _VOLUMES],
    }
    status = {
        "imageID": of_both["image"],
        "containerID": f"containerd://{name:0>64}",
        "state": {"running": {"startedAt": "2026-11-25T08:00:05Z"}},
        "ready": True,
        "started": True,
        "restartCount": 0,
        "lastState": {},
    }
    merged: Object = {f'k:{{"name":"{volume}"}}': {".": {}, "f:name": {}} for volume in _VOLUMES}
    fields = {f"f:{key}": merged for key in of_both}
    taints = ("not-ready", "unreachable")
    times = {"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
    return {
        "metadata": {
            "name": name,
            "labels": labels | {names.LABEL_REVISION: f"{name.rpartition('-')[0]}-0123456789"},
            "managedFields": [{"manager": who, "fieldsV1": fields} for who in ("kube-controller-manager", "kubelet")],
        },
        "spec": {
            "nodeName": f"machine-{name}",
            "containers": [{**of_both, "env": [{"name": f"SLURM_{n}", "value": name} for n in range(12)]}],
            "volumes": [{"name": volume, "emptyDir": {"sizeLimit": "16Mi"}} for volume in _VOLUMES],
            "tolerations": [{"key": f"node.kubernetes.io/{what}", **times} for what in taints],
        },
        "status": {
            "phase": "Running",
            "conditions": [{"type": kind, **_SINCE, **words} for kind in (*kinds, names.POD_CONDITION)],
            "containerStatuses": [{**of_both, **status}],
        },
    }


def _machine(name: str) -> Object:
    """A Kubernetes node with fifty images, and labels of node-feature-discovery: about 14 KB."""
    kinds = ("MemoryPressure", "DiskPressure", "PIDPressure", "Ready")
    images = [{"names": [f"registry.example.org/{n}@{_DIGEST}", f"registry.example.org/{n}:v1"]} for n in range(50)]
    labels = {f"feature.node.kubernetes.io/cpu-cpuid.{n}": "true" for n in range(100)}
    conditions = [{"type": kind, "status": str(kind == "Ready"), **_SINCE} for kind in kinds]
    return {
        "metadata": {"name": name, "labels": labels},
        "spec": {"providerID": f"cloud:///{name}"},
        "status": {"conditions": conditions, "images": images},
    }


def declare(server: PlayedApiServer, size: int, rest_url: str) -> None:
    """A cluster with one set of so many nodes that all work."""
    for name, component in WORKLOADS:
        replicas = size if component == "worker" else 1
        body = stateful_set(name, component)
        for pod in [f"{name}-{n}" for n in range(replicas)]:
            server.put("pods", _pod(pod, body["metadata"]["labels"]))
            server.put("nodes", _machine(f"machine-{pod}"))
        _put_ready(server, "statefulsets", body, replicas)
    _put_ready(server, "deployments", stateful_set("slurm-rest", "rest"), 1)
    for config in ("slurm-config-wanted", "slurm-config"):
        server.put("configmaps", {"metadata": {"name": config}, "data": {"slurm.conf": CONF, "cgroup.conf": ""}})
    content = {names.LEDGER_REVISION: b"r1", names.LEDGER_DATA: gzip.compress(b'{"format": 1, "objects": []}')}
    ledger = {key: base64.b64encode(value).decode() for key, value in content.items()}
    for secret, data in ((names.LEDGER_PAYLOADS, {}), (names.LEDGER, ledger)):
        server.put("secrets", {"metadata": {"name": secret}, "data": data})
    node_set = {"cluster": "test", "statefulSet": "cpu", "replicas": size}
    server.put(names.NODE_SETS, custom("NodeSet", "cpu", node_set))
    # The real API server fills in these.
    objects = {"wantedConfig": "slurm-config-wanted", "activeConfig": "slurm-config", "restDeployment": "slurm-rest"}
    daemons = {"controller": "slurm-controller", "login": "slurm-login"}
    spec = {"revision": "r1", "rest": {"url": rest_url}, "rehearsal": {"url": "http://127.0.0.1:9"}}
    server.put(names.SLURM_CLUSTERS, custom("SlurmCluster", "test", spec | objects | daemons))


def _put_ready(server: PlayedApiServer, plural: str, body: Object, replicas: int) -> None:
    counts = dict.fromkeys(("replicas", "readyReplicas", "updatedReplicas"), replicas)
    status = {"observedGeneration": 1, **counts, "updateRevision": f"{body['metadata']['name']}-0123456789"}
    server.put(plural, {**body, "spec": {**body["spec"], "replicas": replicas}, "status": status})


def register(slurm: FakeSlurm, size: int) -> None:
    """As many records of nodes, each with all that slurmrestd 26.05 tells of one: about 2.5 KB."""
    with slurm.lock:
        for name in [f"cpu-{ordinal}" for ordinal in range(size)]:
            slurm.register(name, features=("cpu",))
            # Later than its pod was made, so that the record is the pod's.
            own = {"address": name, "hostname": name, "slurmd_start_time": number(int(time.time()) + 1)}
            slurm.nodes[name] = {**_RECORD, **slurm.nodes[name], **own}


_TIMES = ("boot_time", "last_busy", "resume_after", "cpu_load", "free_mem")
_RECORD: Object = {
    **{key: number(1795264147) for key in _TIMES},
    **dict.fromkeys(("boards", "cores", "cpus", "effective_cpus", "sockets", "threads", "alloc_idle_cpus"), 8),
    **dict.fromkeys(("real_memory", "specialized_memory", "temporary_disk", "port", "res_cores_per_gpu"), 1000),
    **dict.fromkeys(("burstbuffer_network_address", "cluster_name", "specialized_cpus", "cpu_binding", "extra"), ""),
    **dict.fromkeys(("gpu_spec", "gres", "gres_drained", "instance_id", "instance_type", "mcs_label", "owner"), ""),
    "energy": {
        **dict.fromkeys(("average_watts", "base_consumed_energy", "consumed_energy", "last_collected"), 0),
        "current_watts": number(0),
        "previous_consumed_energy": 0,
    },
    "external_sensors": {},
    "power": {},
    "architecture": "x86_64",
    "gres_used": "gpu:0",
    "operating_system": "Linux 6.12.48+deb13-amd64 #1 SMP PREEMPT_DYNAMIC Debian 6.12.48-1 (2025-09-20)",
    "active_features": ["cpu"],
    "reservation": "",
    "tres": "cpu=8,mem=1000M,billing=8",
    "tres_used": "",
    "tres_weighted": 0.0,
    "topology": "default:s0",
    "certificate_flags": [],
    "tls_cert_last_renewal": number(0),
    "planned_state": {"description": "x" * 800},
}
"""The last pads it to the size that was seen."""
