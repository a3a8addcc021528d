"""The base of all components: a resource type of its own, whose children are exactly its manifests."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar, Final

import pulumi
import pulumi_kubernetes as kubernetes

from components.claim_guard import ClaimGuard
from components.config import Config
from components.kubernetes.manifest import Manifest
from contract import names

_CLASSES: Final[Mapping[tuple[str, str], Any]] = {
    ("v1", "ConfigMap"): kubernetes.core.v1.ConfigMap,
    ("v1", "Namespace"): kubernetes.core.v1.Namespace,
    ("v1", "PersistentVolume"): kubernetes.core.v1.PersistentVolume,
    ("v1", "PersistentVolumeClaim"): kubernetes.core.v1.PersistentVolumeClaim,
    ("v1", "Secret"): kubernetes.core.v1.Secret,
    ("v1", "Service"): kubernetes.core.v1.Service,
    ("v1", "ServiceAccount"): kubernetes.core.v1.ServiceAccount,
    ("apps/v1", "Deployment"): kubernetes.apps.v1.Deployment,
    ("apps/v1", "StatefulSet"): kubernetes.apps.v1.StatefulSet,
    ("batch/v1", "Job"): kubernetes.batch.v1.Job,
    ("networking.k8s.io/v1", "NetworkPolicy"): kubernetes.networking.v1.NetworkPolicy,
    ("policy/v1", "PodDisruptionBudget"): kubernetes.policy.v1.PodDisruptionBudget,
    ("rbac.authorization.k8s.io/v1", "ClusterRole"): kubernetes.rbac.v1.ClusterRole,
    ("rbac.authorization.k8s.io/v1", "ClusterRoleBinding"): kubernetes.rbac.v1.ClusterRoleBinding,
    ("rbac.authorization.k8s.io/v1", "Role"): kubernetes.rbac.v1.Role,
    ("rbac.authorization.k8s.io/v1", "RoleBinding"): kubernetes.rbac.v1.RoleBinding,
    (
        "admissionregistration.k8s.io/v1",
        "ValidatingAdmissionPolicy",
    ): kubernetes.admissionregistration.v1.ValidatingAdmissionPolicy,
    (
        "admissionregistration.k8s.io/v1",
        "ValidatingAdmissionPolicyBinding",
    ): kubernetes.admissionregistration.v1.ValidatingAdmissionPolicyBinding,
    (
        "apiextensions.k8s.io/v1",
        "CustomResourceDefinition",
    ): kubernetes.apiextensions.v1.CustomResourceDefinition,
}

Payloads = Mapping[str, pulumi.Output[dict[str, str]]]
"""Secret name → its data (base64), secret in Pulumi."""


class Component(pulumi.ComponentResource):
    """A component of type pulumi-slurm:index:<class name>. A class that is renamed keeps its type, which stacks store.

    Args:
        name: Name of the resource in the stack.
        opts: Options of the resource; children get its provider.
    """

    stored_as: ClassVar[str] = ""
    """The class's first name, for a class that has another one now."""

    def __init__(self, name: str, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__(f"{names.PROJECT}:index:{self.stored_as or type(self).__name__}", name, None, opts)

    def declare(
        self,
        manifests: Iterable[Manifest],
        depends_on: Sequence[pulumi.Input[pulumi.Resource]] = (),
        payloads: Payloads | None = None,
    ) -> dict[str, pulumi.Resource]:
        """Declare objects as children.

        Args:
            manifests: The objects.
            depends_on: Resources that come before all of them, and go after all of them.
            payloads: Data of the Secrets among them.

        Returns:
            The resources by the objects' names.
        """
        return {
            f"{manifest.kind}/{manifest.name}": self._declare(manifest, depends_on, payloads or {})
            for manifest in manifests
        }

    def _declare(
        self, manifest: Manifest, depends_on: Sequence[pulumi.Input[pulumi.Resource]], payloads: Payloads
    ) -> pulumi.Resource:
        arguments = {key: value for key, value in manifest.body.items() if key not in ("apiVersion", "kind")}
        if manifest.payload:
            arguments["data"] = pulumi.Output.secret(payloads[manifest.name])
        resource_class = _CLASSES.get((str(manifest.body["apiVersion"]), manifest.kind))
        if resource_class is None:
            resource_class = kubernetes.apiextensions.CustomResource
            arguments.update(apiVersion=manifest.body["apiVersion"], kind=manifest.kind)
        resource: pulumi.Resource = resource_class(
            manifest.name,
            **{_argument(key): value for key, value in arguments.items()},
            opts=pulumi.ResourceOptions(
                parent=self,
                depends_on=list(depends_on),
                retain_on_delete=manifest.retain or None,
                protect=manifest.protect or None,
                custom_timeouts=_timeouts(manifest.deadline_seconds),
                additional_secret_outputs=["data"] if manifest.payload else None,
            ),
        )
        return resource


Claims = Sequence[tuple[str, str, str]]
"""Claims whose source must not change: name of the guard in the stack, setting, source in words."""


class Part(Component):
    """A part of the cluster: a component whose children are the objects that its module declares from the config.

    A subclass names them: `class Rest(Part, manifests=manifests, outputs=lambda config: {"url": url(config)})`.

    Args:
        name: Name of the resource in the stack.
        config: The whole configuration; the class's docstring names the parts that it reads.
        depends_on: Resources that come first, such as the ledger.
        opts: Options of the resource.

    Attributes:
        objects: Its objects by kind and name, such as Job/slurm-jail.
    """

    objects: Mapping[str, pulumi.Resource]
    _manifests: Callable[[Config], Sequence[Manifest]]
    _outputs: Callable[[Config], dict[str, Any]]
    _claims: Callable[[Config], Claims]

    def __init_subclass__(
        cls,
        manifests: Callable[[Config], Sequence[Manifest]],
        outputs: Callable[[Config], dict[str, Any]] = lambda _: {},
        claims: Callable[[Config], Claims] = lambda _: (),
    ) -> None:
        """Keep the module's functions, which declare a component from the config.

        Args:
            manifests: The objects to declare.
            outputs: Outputs of the component.
            claims: Claims whose storage class may not change.
        """
        super().__init_subclass__()
        cls._manifests, cls._outputs, cls._claims = staticmethod(manifests), staticmethod(outputs), staticmethod(claims)

    def __init__(
        self,
        name: str,
        config: Config,
        depends_on: Sequence[pulumi.Input[pulumi.Resource]] = (),
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__(name, opts)
        child = pulumi.ResourceOptions(parent=self)
        guards = [ClaimGuard(guard, setting, source, child) for guard, setting, source in self._claims(config)]
        self.objects = self.declare(self._manifests(config), [*depends_on, *guards])
        self.register_outputs(self._outputs(config))


def custom_resource(name: str, body: Mapping[str, Any], opts: pulumi.ResourceOptions) -> pulumi.CustomResource:
    """A custom resource of that body; the ledger does not hold it.

    Args:
        name: Its name in the stack.
        body: The object as Kubernetes takes it.
        opts: Options of the resource.
    """
    return kubernetes.apiextensions.CustomResource(
        name,
        api_version=body["apiVersion"],
        kind=body["kind"],
        metadata=body["metadata"],
        spec=body["spec"],
        opts=opts,
    )


def _argument(key: str) -> str:
    """Return a top-level field as the SDK's argument: camelCase to snake_case."""
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in key)


def _timeouts(seconds: int | None) -> pulumi.CustomTimeouts | None:
    if seconds is None:
        return None
    return pulumi.CustomTimeouts(create=f"{seconds}s", update=f"{seconds}s", delete=f"{seconds}s")
