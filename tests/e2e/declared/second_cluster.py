"""Questions of tests to the second cluster's Slurm and Kubernetes, and jobs that run there."""

from __future__ import annotations

import json
import re

from tests.e2e.declared.second_stack import NAMESPACE


def in_second(slurm, command: str, *arguments: str) -> str:
    """The output of one of Slurm's commands on the second cluster's login node, as a user: root has no jobs."""
    user = ("chroot", "--userspec=1000:1000", "/run/jail", "env", "--chdir=/tmp")
    run = (*user, "timeout", "30", f"/opt/slurm/bin/{command}", *arguments)
    return slurm.kubectl("exec", "-n", NAMESPACE, "slurm-login-0", "--", *run).ok()


def running(slurm, *options: str) -> str:
    """The number of a job that runs on the second cluster until it is cancelled."""
    job = in_second(slurm, "sbatch", "--parsable", *options, "--wrap=sleep 600")
    slurm.wait("the job runs", lambda: is_running(slurm, job), 120)
    return job


def asked(slurm, command: str, *arguments: str) -> str:
    """The output of one of Slurm's commands there, empty if it could not be asked at this moment."""
    run = ("chroot", "/run/jail", "timeout", "30", f"/opt/slurm/bin/{command}", *arguments)
    return slurm.kubectl("exec", "-n", NAMESPACE, "slurm-login-0", "--", *run).stdout.strip()


def is_running(slurm, job: str) -> bool:
    return asked(slurm, "squeue", "-h", "-j", job, "-o", "%T %P") == "RUNNING main"


def cancel(slurm, job: str) -> None:
    """Without looking whether it went well: it lets something come to its end that waits for the job."""
    scancel = ("chroot", "/run/jail", "/opt/slurm/bin/scancel", job)
    slurm.kubectl("exec", "-n", NAMESPACE, "slurm-login-0", "--", *scancel)


def node_set(slurm, name: str) -> dict:
    """A NodeSet of the second cluster, empty if there is none."""
    found = slurm.kubectl("get", "nodeset", name, "-n", NAMESPACE, "-o", "json", "--ignore-not-found").stdout
    return json.loads(found or "{}")


def waits_for(slurm, name: str, job: str) -> bool:
    """Return whether a NodeSet that is being deleted says that it waits for a job, and what would kill it."""
    message = node_set(slurm, name).get("status", {}).get("message", "")
    way_out = f"to kill its jobs: kubectl -n {NAMESPACE} annotate nodeset {name} pulumi-slurm.dev/force-delete=true"
    # A job without a limit that backfill started has one of a year.
    waits = re.search(rf"waits for the end of job {job} \({name}-0(, ends by [^)]+)?\)", message)
    return waits is not None and way_out in message


def recorded(slurm, which: str) -> list[str]:
    """The states of the second cluster's jobs that an option of sacct chooses, as its database has them.

    Empty, too, while slurmctld still runs without accounting: as it does if the database was not there in a minute.
    """
    sacct = ("/opt/slurm/bin/sacct", "-a", "-X", "-n", "--format=state", which)
    return slurm.kubectl("exec", "-n", NAMESPACE, "slurm-login-0", "--", "chroot", "/run/jail", *sacct).stdout.split()


def live_keys(slurm) -> dict[str, dict[str, str]]:
    """Return what the second cluster's Secrets with generated keys hold."""
    secrets = ("slurm-keys", "slurm-ssh-host-keys")
    return {name: slurm.get("secret", name, "-n", NAMESPACE)["data"] for name in secrets}


def pods_left(slurm) -> list[str]:
    """Names of the second cluster's pods, given some time to end."""

    def ending() -> bool:
        return not slurm.kubectl("get", "pods", "-n", NAMESPACE, "-o", "name").ok()

    slurm.wait("no pod of the second cluster is left", ending, 120)
    return slurm.kubectl("get", "pods", "-n", NAMESPACE, "-o", "name").ok().split()
