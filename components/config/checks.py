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
    jobs: bool | None = setting(
        "Whether previews ask Kubernetes what an edit of partitions and node sets means for running and waiting jobs. "
        "They tell it as warnings, also that the cluster does not answer in 5 s. Left out: as checks.cluster.",
        default=None,
    )
    accounts: bool | None = setting(
        "Whether previews ask Kubernetes what the plan changes of QOS, accounts and users in slurmdbd, and what stays "
        "that administrators made. A cluster that does not answer in 5 s is a warning. Left out: as checks.cluster.",
        default=None,
    )

    @property
    def asks_for_jobs(self) -> bool:
        """Return whether previews ask for jobs."""
        return self.cluster if self.jobs is None else self.jobs

    @property
    def asks_for_accounts(self) -> bool:
        """Return whether previews ask for accounts."""
        return self.cluster if self.accounts is None else self.accounts
