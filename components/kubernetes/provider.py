"""The one connection to Kubernetes."""

import pulumi
import pulumi_kubernetes as kubernetes

from components.config import Config


def kubernetes_provider(config: Config) -> kubernetes.Provider:
    """The provider that every resource of the program uses.

    Args:
        config: The configuration: `kubernetes` and `cluster.name`.
    """
    kubeconfig = config.kubernetes.kubeconfig
    return kubernetes.Provider(
        "kubernetes",
        # Without it, any change of the kubeconfig, such as another address of the same cluster, replaces every object.
        cluster_identifier=config.kubernetes.cluster_identifier or config.cluster.name,
        context=config.kubernetes.context,
        kubeconfig=pulumi.Output.secret(kubeconfig.get_secret_value()) if kubeconfig else None,
        # Otherwise a changed ConfigMap or Secret is deleted and made again, under a running cluster.
        enable_config_map_mutable=True,
        enable_secret_mutable=True,
        # A killed run leaves objects that Pulumi does not know, and a retained namespace is met again.
        upsert_existing_objects=True,
    )
