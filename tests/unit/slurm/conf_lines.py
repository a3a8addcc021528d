"""Settings of a rendered slurm.conf."""

from __future__ import annotations

from components.config import Config
from components.slurm.conf import slurm_conf


def lines(config: Config) -> dict[str, str]:
    """Settings of slurm.conf that stand on one line of their own."""
    pairs = (line.partition("=") for line in slurm_conf.slurm_conf(config).splitlines() if " " not in line)
    return {key: value for key, _, value in pairs}
