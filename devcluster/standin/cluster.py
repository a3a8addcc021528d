"""The cluster that the provider was configured with, or the reason why there is none."""

from __future__ import annotations

from devcluster.standin import VERSION, api, kubeconfig
from devcluster.standin.decisions import values
from devcluster.standin.decisions.kinds import Kind, Manifest
from devcluster.standin.settings import Settings


class Cluster:
    """A cluster, reachable or not.

    Attributes:
        settings: the provider's arguments.
        api: the API server; None while it cannot be reached.
        unreachable: why.
        namespace: for objects that name none.
    """

    def __init__(self, settings: Settings) -> None:
        """Connects to nothing yet."""
        self.settings = settings
        self.api: api.Api | None = None
        self.unreachable = "the provider is not configured"
        self.namespace = "default"
        self._scopes: dict[tuple[str, str], bool] = {}

    @classmethod
    async def connect(cls, settings: Settings) -> Cluster:
        """Finds the API server and checks that it answers. No answer is not an error yet."""
        cluster = cls(settings)
        try:
            connection = kubeconfig.read(settings.kubeconfig, settings.context)
            cluster.namespace = connection.namespace
            client = api.Api(connection, f"pulumi-kubernetes-standin/{VERSION}")
            await client.probe()
            cluster.api, cluster.unreachable = client, ""
        except (kubeconfig.KubeconfigError, api.Unreachable, api.ApiError) as error:
            cluster.unreachable = str(error)
        return cluster

    def reached(self) -> api.Api:
        """Return the API server.

        Raises:
            api.Unreachable: there is none.
        """
        if self.api is None:
            raise api.Unreachable(f"configured Kubernetes cluster is unreachable: {self.unreachable}")
        return self.api

    def remember_scope(self, manifest: Manifest) -> None:
        """Notes whether a declared CustomResourceDefinition is namespaced, for previews in which it does not exist."""
        spec = manifest.get("spec")
        if manifest.get("kind") == "CustomResourceDefinition" and isinstance(spec, dict):
            names = spec.get("names")
            if isinstance(names, dict):
                self._scopes[str(spec.get("group")), str(names.get("kind"))] = spec.get("scope") == "Namespaced"

    async def namespaced(self, kind: Kind) -> bool:
        """Return whether objects of a kind live in namespaces; most do, so an unknown kind is taken to."""
        if kind.namespaced is not None:
            return kind.namespaced
        declared = self._scopes.get((kind.group, kind.name))
        if declared is not None:
            return declared
        try:
            return (await self.reached().resource(kind)).namespaced
        except (api.KindMissing, api.Unreachable):
            return True

    async def can_try(self, kind: Kind, manifest: Manifest) -> bool:
        """Return whether a dry run can be made: everything is known, and the cluster and the kind are there."""
        if self.api is None or values.has_unknown(manifest):
            return False
        try:
            await self.api.resource(kind)
        except (api.KindMissing, api.Unreachable):
            return False
        return True

    async def read(self, manifest: Manifest) -> Manifest | None:
        """Return the live object; None when it is not there or cannot be read."""
        try:
            return await self.reached().get(manifest)
        except (api.ApiError, api.KindMissing, api.Unreachable):
            return None
