"""Node sets: worker pods, each a Slurm node."""

from collections.abc import Sequence
from typing import Any, Final

import pulumi

from components.config import Config
from components.config.nodes.gpus import NVIDIA_PREFIX
from components.config.nodes.health import Checks, UnknownPolicy
from components.config.nodes.node_sets import NodeSet as NodeSetConfig
from components.config.slurm_keys.slurm_options import worker_start
from components.config.values.quantities import duration_seconds, memory_mib
from components.kubernetes.component import Component
from components.kubernetes.manifest import SKIP_AWAIT, Manifest, declared, selector
from components.pods import pod_security
from components.pods.pod_options import with_options
from components.pods.slurm_pod import (
    environment,
    ever_tolerated,
    headless_service,
    jail_variable,
    jail_volume,
    pod_template,
    ready_probe,
    run_volume,
    slurm_container,
    slurm_pod_spec,
)
from components.pods.submounts import Submounts, in_pod
from components.slurm import site_scripts
from components.slurm.controller import keys_secret
from contract import names, paths, pod_variables
from contract.pod_variables import JailKey, NodeKey

_GRACE_SECONDS = 60
"""Time for slurmd to end after the last job step."""

DRIVER_CAPABILITIES: Final = "compute,utility"
"""CUDA, OpenCL, nvidia-smi and NVML; see the container toolkit's guide, "Driver Capabilities"."""


def node_variable(config: Config, node_set: NodeSetConfig) -> dict[str, Any]:
    """Value of SLURM_NODE: the node as slurmd registers it."""
    return {
        NodeKey.CONTROLLER: f"{names.CONTROLLER}:{names.SLURMCTLD_PORT}",
        NodeKey.NODE_SET: node_set.name,
        NodeKey.CPUS: node_set.resources.cpu,
        NodeKey.MEMORY_MIB: node_set.job_memory_mib,
        NodeKey.PROCESSES: node_set.resources.processes,
        NodeKey.GRES: node_set.node_gres,
        NodeKey.WEIGHT: node_set.base_weight,
        NodeKey.WEIGHT_BUCKET: node_set.weight_bucket,
        NodeKey.LEAST_FREE_PERCENT: config.health.least_free_percent,
        NodeKey.GRACE_SECONDS: duration_seconds(node_set.grace),
        **_devices_variable(node_set),
        **({NodeKey.OPTIONS: dict(node_set.options)} if node_set.options else {}),
        **({NodeKey.SHARES_CPUS: True} if node_set.resources.shares_cpus else {}),
        **({NodeKey.NCCL: node_set.network.nccl_variables} if node_set.network.nccl_variables else {}),
        **({NodeKey.PINS_MEMORY: True} if node_set.network.rdma else {}),
        **_rdma_variable(node_set),
        **_health_variable(config.health.checks),
        **_hangs_variable(config, node_set),
    }


def _hangs_variable(config: Config, node_set: NodeSetConfig) -> dict[str, Any]:
    """Part of SLURM_NODE for jobs that hang: the shortest time after which one does, in seconds."""
    mine = [partition for partition in config.effective_partitions if node_set.name in partition.node_sets]
    after = [partition.hangs.after_seconds for partition in mine if partition.hangs]
    return {NodeKey.HANGS_AFTER: min(after)} if after else {}


def _health_variable(checks: Checks) -> dict[str, Any]:
    """Part of SLURM_NODE for health checks. Only what is no default is there, so that other nodes keep their pods."""
    return {
        **({NodeKey.UNKNOWN_DRAINS: True} if checks.unknown is UnknownPolicy.DRAIN else {}),
    }


def _rdma_variable(node_set: NodeSetConfig) -> dict[str, Any]:
    rdma = node_set.network.rdma
    if rdma is None:
        return {}
    return {NodeKey.RDMA: rdma.count, **({NodeKey.RDMA_ADAPTERS: rdma.adapters} if rdma.adapters else {})}


def _devices_variable(node_set: NodeSetConfig) -> dict[str, Any]:
    """Part of SLURM_NODE for devices that are no whole GPUs."""
    gpus = node_set.gpus
    with_files = sorted({one.name for one in node_set.gres if one.devices is not None})
    return {
        **({NodeKey.GRES_WITH_FILES: with_files} if with_files else {}),
        **({NodeKey.DIVIDED_GPUS: gpus.whole} if gpus and gpus.is_divided else {}),
        **({NodeKey.OTHER_GPUS: True} if gpus and not gpus.is_nvidia else {}),
    }


def submounts_of_node(config: Config, node_set: NodeSetConfig) -> Submounts:
    """The submounts of each pod of a set."""
    return in_pod(config, "worker", node_set.submounts)


def jail_of_node(config: Config, node_set: NodeSetConfig) -> dict[str, Any]:
    """Value of SLURM_JAIL on the nodes of a set."""
    shared = node_set.resources.shared_memory
    variable = jail_variable(config, submounts_of_node(config, node_set), node_set.jail_image)
    return {**variable, **({JailKey.SHM_MIB: memory_mib(shared)} if shared else {})}


def _capabilities(node_set: NodeSetConfig) -> dict[str, str]:
    more = pod_security.RDMA if node_set.network.rdma else {}
    return {**pod_security.WORKER_CAPABILITIES, **more}


def pod_annotations(config: Config, node_set: NodeSetConfig) -> dict[str, str]:
    """Annotations of the pods: the secondary networks that Multus attaches, and options that take a new pod."""
    networks = [f"{config.cluster.namespace}/{name}" for name in node_set.network.secondary]
    options = worker_start(config.slurm.options)
    return {
        **({"k8s.v1.cni.cncf.io/networks": ",".join(networks)} if networks else {}),
        **({names.ANNOTATION_AT_START: ",".join(options)} if options else {}),
    }


def _resources(node_set: NodeSetConfig) -> dict[str, Any]:
    """Requests equal limits, so that the kernel does not treat jobs as spare load. The CPU request may be lower."""
    own = node_set.resources
    devices = {name: str(count) for name, count in node_set.device_resources.items()}
    rdma = {node_set.network.rdma.resource: str(node_set.network.rdma.count)} if node_set.network.rdma else {}
    huge = {f"hugepages-{size}": amount for size, amount in own.hugepages.items()}
    limits = {"cpu": str(own.cpu), "memory": own.memory, **huge, **devices, **rdma}
    return {"requests": {**limits, "cpu": own.cpu_request or str(own.cpu)}, "limits": limits}


def _gpu_environment(config: Config, node_set: NodeSetConfig) -> list[dict[str, str]]:
    """Return the variable for NVIDIA's container toolkit: the parts of the driver that the container gets.

    The device plugin chooses the GPUs: it sets NVIDIA_VISIBLE_DEVICES, or names CDI devices.
    """
    if not node_set.gpus or not any(name.startswith(NVIDIA_PREFIX) for name in node_set.gpus.resources):
        return []
    gdrcopy = [{"name": "NVIDIA_GDRCOPY", "value": "enabled"}] if config.gpu_operator.gdrcopy else []
    return [{"name": "NVIDIA_DRIVER_CAPABILITIES", "value": DRIVER_CAPABILITIES}, *gdrcopy]


def _container(config: Config, node_set: NodeSetConfig) -> dict[str, Any]:
    # No liveness probe: a restart would end every job of the node, and the entry restarts slurmd by itself.
    return slurm_container(
        config,
        "worker",
        ports=[{"name": "slurmd", "containerPort": names.SLURMD_PORT}],
        env=[
            *environment(
                {
                    pod_variables.NODE: node_variable(config, node_set),
                    pod_variables.JAIL: jail_of_node(config, node_set),
                }
            ),
            *_gpu_environment(config, node_set),
        ],
        readinessProbe=ready_probe("worker"),
        resources=_resources(node_set),
        securityContext=pod_security.node_container(_capabilities(node_set)),
        volumeMounts=[
            {"name": "jail", "mountPath": paths.JAIL_VOLUME},
            {"name": "keys", "mountPath": paths.SECRETS_SLURM, "readOnly": True},
            {"name": "spool", "mountPath": paths.SPOOL_DIR},
            {"name": "run", "mountPath": "/run"},
            {"name": "scripts", "mountPath": paths.ETC_SCRIPTS, "readOnly": True},
            {"name": "task-scripts", "mountPath": paths.ETC_TASK_SCRIPTS, "readOnly": True},
            *submounts_of_node(config, node_set).mounts,
        ],
    )


def _stateful_set(config: Config, node_set: NodeSetConfig) -> Manifest:
    labels = {names.LABEL_NODE_SET: node_set.name}
    volumes = [
        jail_volume(config),
        {"name": "keys", "secret": pod_security.secret_files(keys_secret(config), [names.SLURM_KEY])},
        {"name": "spool", "emptyDir": {}},
        run_volume(),
        site_scripts.volume("scripts", names.NODE_SCRIPTS),
        site_scripts.volume("task-scripts", names.TASK_SCRIPTS),
        *submounts_of_node(config, node_set).volumes,
    ]
    pod: dict[str, Any] = {
        "securityContext": pod_security.root_pod(),
        "terminationGracePeriodSeconds": duration_seconds(node_set.grace) + _GRACE_SECONDS,
        "tolerations": [
            *ever_tolerated(),
            *(toleration.model_dump(by_alias=True, exclude_none=True) for toleration in node_set.tolerations),
        ],
    }
    if node_set.gpus and node_set.gpus.kubernetes_runtime_class:
        pod["runtimeClassName"] = node_set.gpus.kubernetes_runtime_class
    if node_set.node_selector:
        pod["nodeSelector"] = dict(node_set.node_selector)
    template = pod_template(
        config, "worker", slurm_pod_spec(config, [_container(config, node_set)], volumes, **pod), **labels
    )
    if annotations := pod_annotations(config, node_set):
        template["metadata"]["annotations"] = annotations
    spec = {
        # No replicas: only the operator knows which nodes may be removed.
        "serviceName": names.WORKERS,
        "podManagementPolicy": "Parallel",
        "updateStrategy": {"type": "OnDelete"},
        "selector": {"matchLabels": selector(config, "worker", **labels)},
        "template": with_options(config, template, node_set.pod),
    }
    body = declared(
        config,
        "apps/v1",
        "StatefulSet",
        node_set.name,
        "worker",
        {"spec": spec},
        # When the set has to be replaced, its pods and their jobs go over to the new set.
        annotations={**SKIP_AWAIT, "pulumi.com/deletionPropagationPolicy": "orphan"},
        more_labels=labels,
    )
    return Manifest(body)


def _disruption_budget(config: Config) -> Manifest:
    """PodDisruptionBudget: a worker may be evicted only after the operator labels it, drained and idle."""
    guarded = {"key": names.LABEL_EVICTABLE, "operator": "DoesNotExist"}
    spec = {
        "maxUnavailable": 0,
        "selector": {"matchLabels": selector(config, "worker"), "matchExpressions": [guarded]},
    }
    return Manifest(declared(config, "policy/v1", "PodDisruptionBudget", names.WORKERS, "worker", {"spec": spec}))


def shared_manifests(config: Config) -> list[Manifest]:
    """Objects that all node sets share: the headless Service and the PodDisruptionBudget of the workers."""
    return [
        headless_service(config, names.WORKERS, "worker", "slurmd", names.SLURMD_PORT),
        _disruption_budget(config),
    ]


def manifests(config: Config, node_set: NodeSetConfig) -> list[Manifest]:
    """The StatefulSet of one node set."""
    return [_stateful_set(config, node_set)]


class NodeSet(Component):
    """The worker pods of one node set. The NodeSet resource has their number, and the operator scales the StatefulSet.

    Args:
        name: Name of the resource in the stack.
        config: The configuration: `images`, `jail`, `credentials` and `cluster`.
        node_set: The node set's own part of it.
        depends_on: Resources that come first, such as the ledger and a complete root of the jail.
        opts: Options of the resource.
    """

    def __init__(
        self,
        name: str,
        config: Config,
        node_set: NodeSetConfig,
        depends_on: Sequence[pulumi.Resource] = (),
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__(name, opts)
        self.declare(manifests(config, node_set), depends_on)
        self.stateful_set = node_set.name
        self.register_outputs({"statefulSet": self.stateful_set})
