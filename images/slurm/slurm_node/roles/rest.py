"""The REST pod: slurmrestd, which holds no key; callers bring a token."""

import os
from collections.abc import Mapping

from contract import names
from slurm_node.pod import paths, settings

SECURITY = "disable_unshare_files,disable_unshare_sysv"
"""Keeps slurmrestd from making namespaces, which an unprivileged pod may not. The pod has its own already."""
ENVIRONMENT = {"SLURM_JWT": "daemon", "SLURMRESTD_SECURITY": SECURITY, "MALLOC_ARENA_MAX": "1"}
"""One heap for all threads (mallopt(3)): each would keep the memory of its longest answer in a heap of its own."""


def main() -> int:
    """Replaces this process by slurmrestd."""
    os.execve(f"{paths.PREFIX}/sbin/slurmrestd", command(), os.environ | ENVIRONMENT)  # noqa: S606 - no shell is wanted


def command(environment: Mapping[str, str] = os.environ) -> list[str]:
    """Returns slurmrestd's arguments: it listens only for the pod's proxy, or for everybody."""
    # slurmrestd replaces a socket that an earlier one left.
    address = (
        f"unix:{paths.REST_SOCKET}" if settings.read_rest(environment).socket else f"0.0.0.0:{names.SLURMRESTD_PORT}"
    )
    return ["slurmrestd", "-a", "rest_auth/jwt", address]
