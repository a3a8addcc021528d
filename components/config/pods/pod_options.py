"""Configuration that all of Slurm's pods share: labels, placement, environment, volumes and sidecars of the site.

What would open the jail, or the keys in a pod, is no key here. The models say why, by their `refused_keys`.
"""

from collections.abc import Iterator, Sequence
from typing import Annotated, ClassVar, Final

from components.config.model import Model, setting
from components.config.pods.placement import Affinity, TopologySpread
from components.config.pods.resources import SidecarResources, Toleration
from components.config.rule import Violation, named_twice, one_of, rows_with, rule
from components.config.values.files import SYSTEM, AbsolutePath, RelativePath, meets
from components.config.values.images import ImmutableImage
from components.config.values.object_names import LabelKey, LabelValue, ObjectName, SetName
from components.config.values.quantities import Memory, WholeNumber
from components.config.values.validation import matching
from contract import names, paths

POD_OPTIONS: Final = "Labels, placement, environment, volumes and sidecars of the pods."
VOLUME_SOURCES: Final = ("configMap", "secret", "claim", "emptyDir", "hostPath")
ROLES: Final = ("worker", "login", "controller", "accounting", "rest", "proxy")
"""Names of the containers that this program declares."""

_OWN_PATHS: Final = (*SYSTEM, paths.JAIL_VOLUME)
_OWN_LABELS: Final = (
    "app.kubernetes.io/",
    f"{names.API_GROUP}/",
    "apps.kubernetes.io/",
    "statefulset.kubernetes.io/",
    names.LABEL_REVISION,
    "pod-template-hash",
)
"""Beginnings of the keys of labels by which this program and Kubernetes find pods."""
_OWN_ANNOTATIONS: Final = {
    f"{names.API_GROUP}/": "they are the operator's",
    "pulumi.com/": "they are Pulumi's, and have no effect on a pod",
    "k8s.v1.cni.cncf.io/": "nodeSets[].network.secondary names a node's networks",
    "container.apparmor.security.beta.kubernetes.io/": "the jail depends on the pod's AppArmor profile",
}
_OWN_VARIABLES: Final = {
    "SLURM": "this program and Slurm read them",
    "LD_": "the dynamic linker of root's programs reads them",
    "PYTHON": "the Python of root's programs reads them",
    "NVIDIA_": "they decide which GPUs the pod gets",
    "KUBERNETES_": "they are Kubernetes' own",
    "DATABASE_": "this program reads them",
    "PATH": "root's programs are found by it",
    "TINI_": "the pod's init reads them",
}
_SECURITY: Final = "the jail depends on the pod's rights"

VariableName = Annotated[str, matching(r"[A-Za-z_][A-Za-z0-9_]{0,127}", "a variable's name such as HTTPS_PROXY")]


class Volume(Model):
    """A volume of the site. It has exactly one source."""

    name: SetName = setting("Name by which volumeMounts of the same pod find it.")
    config_map: ObjectName | None = setting("A ConfigMap of the namespace.", default=None)
    secret: ObjectName | None = setting("A Secret of the namespace.", default=None)
    claim: ObjectName | None = setting("A PersistentVolumeClaim of the namespace.", default=None)
    empty_dir: Memory | None = setting(
        "Size of an empty folder that lives as long as the pod.", unit="Kubernetes quantity", default=None
    )
    host_path: AbsolutePath | None = setting(
        "A folder that each Kubernetes node has, at or below one of jail.allowedHostPaths.", default=None
    )

    @rule
    def _source(self) -> Iterator[Violation]:
        given = [key for key in VOLUME_SOURCES if key in self.given]
        if len(given) != 1:
            yield Violation(want=f"exactly one of {', '.join(VOLUME_SOURCES)}", got=given or None)


class VolumeMount(Model):
    """A mount of a volume in a container."""

    refused_keys: ClassVar = {
        "mountPropagation": "a mount of the container would appear on the Kubernetes node, or the other way round",
    }

    name: SetName = setting("Name of a volume of the same pod.")
    mount_path: AbsolutePath = setting("Where it is mounted.")
    sub_path: RelativePath | None = setting("Folder or file of the volume to show; left out: all of it.", default=None)
    read_only: bool = setting("Whether nobody may write.", default=True)


class Sidecar(Model):
    """A container of the site beside Slurm's, without any privilege. It starts before Slurm's and ends after it."""

    refused_keys: ClassVar = {
        **dict.fromkeys(("securityContext", "privileged", "capabilities", "volumeDevices"), _SECURITY),
        "envFrom": "env names each variable; a volume shows a Secret",
        "restartPolicy": "a sidecar is always restarted",
    }

    name: SetName = setting("Name of the container.")
    image: ImmutableImage = setting("Its image, by digest or by a tag that ends in a hash.")
    command: list[str] = setting("Program in place of the image's entry point.", factory=list)
    args: list[str] = setting("Arguments.", factory=list)
    env: dict[VariableName, str] = setting("Environment variables.", factory=dict)
    run_as_user: WholeNumber = setting("User and group that it runs as; never root.", default=65534, ge=1, le=2**31 - 1)
    resources: SidecarResources = setting("What the container asks for.", factory=SidecarResources)
    volume_mounts: list[VolumeMount] = setting("Volumes that it sees.", factory=list)


class PodOptions(Model):
    """Additions of a site to the pods of a part of Slurm."""

    refused_keys: ClassVar = {
        **dict.fromkeys(
            ("hostPID", "hostIPC", "hostNetwork", "hostUsers", "shareProcessNamespace", "securityContext"), _SECURITY
        ),
        **dict.fromkeys(("serviceAccountName", "automountServiceAccountToken"), "Slurm's pods have no rights"),
        **dict.fromkeys(("containers", "initContainers"), "sidecars names containers of yours"),
        "nodeName": "affinity or nodeSelector says where pods run",
        "runtimeClassName": "nodeSets[].gpus.runtimeClass says it",
        "terminationGracePeriodSeconds": "`grace` of a node set or of login says it",
    }

    labels: dict[LabelKey, LabelValue] = setting("Further labels of the pods.", factory=dict)
    annotations: dict[LabelKey, str] = setting("Further annotations of the pods.", factory=dict)
    affinity: Affinity | None = setting("Where the pods run, as Kubernetes' affinity.", default=None)
    topology_spread_constraints: list[TopologySpread] = setting(
        "How the pods spread over Kubernetes nodes, zones or racks.", factory=list
    )
    priority_class_name: ObjectName | None = setting("PriorityClass of the pods.", default=None)
    scheduler_name: ObjectName | None = setting("Kubernetes scheduler that places the pods.", default=None)
    env: dict[VariableName, str] = setting(
        "Further environment variables of Slurm's container. Jobs and logins do not get them.", factory=dict
    )
    volumes: list[Volume] = setting("Volumes for volumeMounts and sidecars.", factory=list)
    volume_mounts: list[VolumeMount] = setting(
        "Volumes that Slurm's container sees, outside of the jail. Submounts show volumes to jobs and logins.",
        factory=list,
    )
    sidecars: list[Sidecar] = setting("Containers beside Slurm's.", factory=list)

    @rule
    def _labels(self) -> Iterator[Violation]:
        for key in self.labels:
            if key.startswith(_OWN_LABELS):
                yield Violation("labels", key, want="another key: this program and Kubernetes find pods by it")

    @rule
    def _annotations(self) -> Iterator[Violation]:
        for key in self.annotations:
            for prefix, reason in _OWN_ANNOTATIONS.items():
                if key.startswith(prefix):
                    yield Violation("annotations", key, want=f"no annotation of {prefix}: {reason}")

    @rule
    def _env(self) -> Iterator[Violation]:
        for name in self.env:
            for prefix, reason in _OWN_VARIABLES.items():
                if name.upper().startswith(prefix):
                    yield Violation("env", name, want=f"a variable that does not begin with {prefix}: {reason}")

    @rule
    def _named_once(self) -> Iterator[Violation]:
        yield from named_twice(self.volumes, "volumes")
        yield from named_twice(self.sidecars, "sidecars")
        for index, sidecar in rows_with(self.sidecars, "name"):
            if sidecar.name in ROLES:
                yield Violation("sidecars", index, "name", want="another name: it is that of a container of Slurm's")

    @rule
    def _mounts(self) -> Iterator[Violation]:
        for index, mount in rows_with(self.volume_mounts, "mount_path"):
            if (met := meets(mount.mount_path, _OWN_PATHS)) is not None:
                want = f"a path outside of {met}, which is the image's or Slurm's own, such as /data"
                yield Violation("volumeMounts", index, "mountPath", want=want)
        yield from self._unknown_volumes(self.volume_mounts, "volumeMounts")
        for index, sidecar in rows_with(self.sidecars, "volume_mounts"):
            yield from self._unknown_volumes(sidecar.volume_mounts, "sidecars", index, "volumeMounts")

    def _unknown_volumes(self, mounts: Sequence[VolumeMount], *at: str | int) -> Iterator[Violation]:
        known = [volume.name for volume in self.volumes]
        for index, mount in rows_with(mounts, "name"):
            if mount.name not in known:
                yield Violation(*at, index, "name", want=one_of("the name of a volume of the pod's own volumes", known))
        paths_of = [getattr(mount, "mount_path", None) for mount in mounts]
        for index, path in enumerate(paths_of):
            if path is not None and path in paths_of[:index]:
                yield Violation(*at, index, "mountPath", want="each path once")


class PlacedPodOptions(PodOptions):
    """The same, with the simple ways to say where pods run; a node set has them by itself."""

    node_selector: dict[LabelKey, LabelValue] = setting("Labels of the Kubernetes nodes to run on.", factory=dict)
    tolerations: list[Toleration] = setting("Taints of Kubernetes nodes that the pods tolerate.", factory=list)


class NodePodOptions(PodOptions):
    """The same for the pods of a node set."""

    refused_keys: ClassVar = {
        **PodOptions.refused_keys,
        "nodeSelector": "nodeSets[].nodeSelector says it",
        "tolerations": "nodeSets[].tolerations says it",
    }
