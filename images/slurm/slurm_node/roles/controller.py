"""The controller pod: slurmctld as an unprivileged user."""

import os

from contract import names
from slurm_node.pod import keys, paths, settings
from slurm_node.slurm import slurmdbd_fallback


def main() -> int:
    """Copies the keys to slurm.conf's paths. Then it becomes slurmctld, or with accounting keeps it running."""
    slurm_key = keys.install(paths.SLURM_SECRETS / names.SLURM_KEY, paths.CONTROLLER_RUN / names.SLURM_KEY)
    keys.install(paths.SLURM_SECRETS / names.JWT_KEY, paths.CONTROLLER_RUN / names.JWT_KEY)
    environment = {"SLURM_SACK_KEY": str(slurm_key), "RUNTIME_DIRECTORY": str(paths.CONTROLLER_RUN)}
    accounting = settings.read_accounting()
    if accounting is not None:
        return slurmdbd_fallback.run(accounting, environment)
    return os.execve(slurmdbd_fallback.SLURMCTLD, ["slurmctld", "-D"], os.environ | environment)  # noqa: S606 - no shell
