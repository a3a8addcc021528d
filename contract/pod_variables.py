"""Environment variables by which the program tells a pod what it is."""

from typing import Final

# JSON, for the slurm image's entry.
NODE: Final = "SLURM_NODE"
"""What the pod is to Slurm; the operator reads a worker's size in it, as its slurmd registers it."""
JAIL: Final = "SLURM_JAIL"
LOGIN: Final = "SLURM_LOGIN"
DIRECTORY: Final = "SLURM_DIRECTORY"
REST: Final = "SLURM_REST"
USERS: Final = "SLURM_USERS"
ACCOUNTING: Final = "SLURM_ACCOUNTING"

# Text, for the database's entry.
DATABASE_NAME: Final = "DATABASE_NAME"
DATABASE_USER: Final = "DATABASE_USER"

# Text, for the operator.
OPERATOR_IMAGE: Final = "OPERATOR_IMAGE"
POD_NAMESPACE: Final = "POD_NAMESPACE"
POD_NAME: Final = "POD_NAME"
