"""Environment variables that the program sets on pods."""

from enum import StrEnum
from typing import Final

# JSON, for the slurm image's entry.
NODE: Final = "SLURM_NODE"
"""The pod as a Slurm node. The operator reads a worker's size from it, as slurmd registers it."""
JAIL: Final = "SLURM_JAIL"
LOGIN: Final = "SLURM_LOGIN"
LDAP: Final = "SLURM_DIRECTORY"
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


class NodeKey(StrEnum):
    """Keys of SLURM_NODE."""

    CONTROLLER = "controller"
    NODE_SET = "nodeSet"
    CPUS = "cpus"
    MEMORY_MIB = "memoryMib"
    PROCESSES = "processes"
    GRES = "gres"
    GRES_WITH_FILES = "gresWithFiles"
    DIVIDED_GPUS = "dividedGpus"
    WEIGHT = "weight"
    WEIGHT_BUCKET = "weightBucket"
    OPTIONS = "options"
    LEAST_FREE_PERCENT = "leastFreePercent"
    GRACE_SECONDS = "graceSeconds"
    SHARES_CPUS = "sharesCpus"
    NCCL = "nccl"
    PINS_MEMORY = "pinsMemory"
    RDMA = "rdma"
    RDMA_ADAPTERS = "rdmaAdapters"
    OTHER_GPUS = "otherGpus"
    UNKNOWN_DRAINS = "unknownDrains"
    HANGS_AFTER = "hangsAfter"


class JailKey(StrEnum):
    """Keys of SLURM_JAIL."""

    REVISION = "revision"
    PERSISTENT = "persistent"
    SUBMOUNTS = "submounts"
    TMP_MIB = "tmpMib"
    SHM_MIB = "shmMib"
    KEEP_ROOTS = "keepRoots"


class SubmountKey(StrEnum):
    """Keys of SLURM_JAIL's submounts."""

    PATH = "path"
    SOURCE = "source"
    MEMORY_MIB = "memoryMib"
    EVERYBODYS = "everybodys"
    READ_ONLY = "readOnly"


class LoginKey(StrEnum):
    """Keys of SLURM_LOGIN."""

    MEMORY_MIB = "memoryMib"
    PROCESSES = "processes"
    CPU_MILLIS = "cpuMillis"
    PASSWORDS = "passwords"
    LDAP = "directory"
    ALLOW_USERS = "allowUsers"
    ALLOW_GROUPS = "allowGroups"


class LdapKey(StrEnum):
    """Keys of SLURM_DIRECTORY."""

    URI = "uri"
    BASE = "base"
    USER_FILTER = "userFilter"
    GROUP_FILTER = "groupFilter"
    BIND = "bind"
    OWN_AUTHORITY = "ownAuthority"
    SECONDS = "seconds"


class RestKey(StrEnum):
    """Keys of SLURM_REST."""

    SOCKET = "socket"


class AccountingKey(StrEnum):
    """Keys of SLURM_ACCOUNTING."""

    HOST = "host"
    PORT = "port"
