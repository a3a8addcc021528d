"""The one connection to Kubernetes."""

import pulumi
import pulumi_kubernetes as kubernetes

from components.config import Config


def kubernetes_provider(config: Config) -> kubernetes.Provider:
    """Return the provider that every resource of the program uses.

    Args:
        config: The configuration: `kubernetes` and `cluster.name`.
    """
    kubeconfig = config.kubernetes.kubeconfig
    return kubernetes.Provider(
        "kubernetes",
        # Without this id, any change of the kubeconfig replaces every object, even a new address of the same cluster.
        cluster_identifier=config.kubernetes.cluster_identifier or config.cluster.name,
        context=config.kubernetes.context,
        kubeconfig=pulumi.Output.secret(kubeconfig.get_secret_value()) if kubeconfig else None,
        # Without this, a changed ConfigMap or Secret is deleted and recreated under a running cluster.
        enable_config_map_mutable=True,
        enable_secret_mutable=True,
        # Objects may exist that Pulumi does not know: a killed run's, or a retained namespace.
        upsert_existing_objects=True,
    )
