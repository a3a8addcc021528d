"""Configuration of checks that ask the Kubernetes cluster."""

from components.config.model import Model, setting


class Checks(Model):
    """Checks that ask Kubernetes before the plan."""

    cluster: bool = setting(
        "Whether previews and updates ask Kubernetes if its nodes offer the GPUs and RDMA resources that node sets ask "
        "for, how the jail's storage class mounts NFS, and, in previews, whose cluster the namespace holds (updates "
        "always ask that). What doesn't fit is an error; advice on storage, and a cluster that does not answer in 5 s, "
        "are warnings. Leave it off where an autoscaler makes the nodes.",
        default=False,
    )
