"""The fixed names that a SlurmCluster has unless its spec says others."""

from typing import Any

FIXED_NAMES: dict[str, Any] = {
    "rest": {"url": "http://slurm-rest:6820"},
    "rehearsal": {"url": "http://slurm-rehearsal:6821"},
    "wantedConfig": "slurm-config-wanted",
    "activeConfig": "slurm-config",
    "controller": "slurm-controller",
    "restDeployment": "slurm-rest",
    "login": "slurm-login",
}
