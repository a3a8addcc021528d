"""The REST pod: slurmrestd, which holds no key; callers bring a token."""

import os

PORT = 6820


def main() -> int:
    """Becomes slurmrestd."""
    arguments = ["slurmrestd", "-a", "rest_auth/jwt", f"0.0.0.0:{PORT}"]
    os.execve("/opt/slurm/sbin/slurmrestd", arguments, os.environ | {"SLURM_JWT": "daemon"})  # noqa: S606
