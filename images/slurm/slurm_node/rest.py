"""The REST pod: slurmrestd, which holds no key; callers bring a token."""

import os

PORT = 6820
SECURITY = "disable_unshare_files,disable_unshare_sysv"
"""slurmrestd would make namespaces of its own, which an unprivileged pod may not; the pod has its own already."""


def main() -> int:
    """Becomes slurmrestd."""
    arguments = ["slurmrestd", "-a", "rest_auth/jwt", f"0.0.0.0:{PORT}"]
    environment = {"SLURM_JWT": "daemon", "SLURMRESTD_SECURITY": SECURITY}
    os.execve("/opt/slurm/sbin/slurmrestd", arguments, os.environ | environment)  # noqa: S606
