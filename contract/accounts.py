"""The values of a QOS, an account and an association in slurmdbd: sacctmgr's words, and where slurmrestd has them.

Values travel as text: the program writes them into the SlurmCluster, the operator compares them with slurmdbd's. One
meaning has one text. Times are minutes or seconds, memory is MiB, lists are sorted and joined by commas.
"""

from dataclasses import dataclass
from enum import Enum, auto
from typing import Final


class Kind(Enum):
    """The form of a value."""

    COUNT = auto()
    """A whole number, or nothing for no limit."""
    MINUTES = auto()
    SECONDS = auto()
    SHARES = auto()
    """Shares of fair share: a whole number, or `parent`."""
    FACTOR = auto()
    """A number with a fraction, or nothing."""
    PLAIN_SECONDS = auto()
    """Seconds that are always there."""
    TRES = auto()
    """Trackable resources, such as cpu=10,gres/gpu=4."""
    TEXT = auto()
    NAME = auto()
    """One name, or nothing."""
    NAMES = auto()
    MODE = auto()
    FLAGS = auto()


@dataclass(frozen=True, slots=True)
class Field:
    """One value of a record.

    Attributes:
        kind: Its form.
        path: Keys that lead to it in slurmrestd's record.
        default: What it is when nobody has set it, as text.
        is_limit: Whether it is a key of `limits` in the stack's config.
        is_kept_empty: False if slurmrestd 26.05 can't take the value away again. sacctmgr can.
    """

    kind: Kind
    path: tuple[str, ...]
    default: str = ""
    is_limit: bool = True
    is_kept_empty: bool = True


def _typed(kind: Kind, path: str, default: str = "", *, is_kept_empty: bool = True) -> Field:
    """A value with a key of its own in the stack's config."""
    return Field(kind, tuple(path.split("/")), default, is_limit=False, is_kept_empty=is_kept_empty)


def _limits(paths: dict[str, str]) -> dict[str, Field]:
    """Limits by their words; the word says which form it is."""
    kinds = {"TRES": Kind.TRES, "Wall": Kind.MINUTES}
    of = {word: next((kind for part, kind in kinds.items() if part in word), Kind.COUNT) for word in paths}
    return {word: Field(of[word], tuple(path.split("/"))) for word, path in paths.items()}


ROOT: Final = "root"
"""Slurm's own account, above all others, and its own user."""
NORMAL: Final = "normal"
"""Slurm's own QOS, which a new cluster's root account allows."""
PARENT_SHARES: Final = 2147483647
"""Shares that stand for `parent` (SLURMDB_FS_USE_PARENT in slurmdb.h)."""

QOS: Final[dict[str, Field]] = {
    "Description": _typed(Kind.TEXT, "description"),
    "Priority": _typed(Kind.COUNT, "priority", "0"),
    "Preempt": _typed(Kind.NAMES, "preempt/list", is_kept_empty=False),
    "PreemptMode": _typed(Kind.MODE, "preempt/mode"),
    "PreemptExemptTime": _typed(Kind.SECONDS, "preempt/exempt_time"),
    "GraceTime": _typed(Kind.PLAIN_SECONDS, "limits/grace_time", "0"),
    "UsageFactor": _typed(Kind.FACTOR, "usage_factor", "1"),
    "Flags": _typed(Kind.FLAGS, "flags"),
    **_limits(
        {
            "GrpJobs": "limits/max/active_jobs/count",
            "GrpJobsAccrue": "limits/max/active_jobs/accruing",
            "GrpSubmitJobs": "limits/max/jobs/count",
            "GrpTRES": "limits/max/tres/total",
            "GrpTRESMins": "limits/max/tres/minutes/total",
            "GrpTRESRunMins": "limits/max/tres/minutes/per/qos",
            "GrpWall": "limits/max/wall_clock/per/qos",
            "MaxJobsAccruePerAccount": "limits/max/accruing/per/account",
            "MaxJobsAccruePerUser": "limits/max/accruing/per/user",
            "MaxJobsPerAccount": "limits/max/jobs/active_jobs/per/account",
            "MaxJobsPerUser": "limits/max/jobs/active_jobs/per/user",
            "MaxSubmitJobsPerAccount": "limits/max/jobs/per/account",
            "MaxSubmitJobsPerUser": "limits/max/jobs/per/user",
            "MaxTRESMinsPerJob": "limits/max/tres/minutes/per/job",
            "MaxTRESPerAccount": "limits/max/tres/per/account",
            "MaxTRESPerJob": "limits/max/tres/per/job",
            "MaxTRESPerNode": "limits/max/tres/per/node",
            "MaxTRESPerUser": "limits/max/tres/per/user",
            "MaxTRESRunMinsPerAccount": "limits/max/tres/minutes/per/account",
            "MaxTRESRunMinsPerUser": "limits/max/tres/minutes/per/user",
            "MaxWallDurationPerJob": "limits/max/wall_clock/per/job",
            "MinPrioThreshold": "limits/min/priority_threshold",
            "MinTRESPerJob": "limits/min/tres/per/job",
        }
    ),
}
"""Word of sacctmgr → the value of a QOS."""

_ASSOCIATION: Final[dict[str, Field]] = {
    "Fairshare": _typed(Kind.SHARES, "shares_raw", "1"),
    "QOS": _typed(Kind.NAMES, "qos", is_kept_empty=False),
    "DefaultQOS": _typed(Kind.NAME, "default/qos"),
    "Priority": _typed(Kind.COUNT, "priority"),
    **_limits(
        {
            "GrpJobs": "max/jobs/per/count",
            "GrpJobsAccrue": "max/jobs/per/accruing",
            "GrpSubmitJobs": "max/jobs/per/submitted",
            "GrpTRES": "max/tres/total",
            "GrpTRESMins": "max/tres/group/minutes",
            "GrpTRESRunMins": "max/tres/group/active",
            "GrpWall": "max/per/account/wall_clock",
            "MaxJobs": "max/jobs/active",
            "MaxJobsAccrue": "max/jobs/accruing",
            "MaxSubmitJobs": "max/jobs/total",
            "MaxTRESMinsPerJob": "max/tres/minutes/per/job",
            "MaxTRESPerJob": "max/tres/per/job",
            "MaxTRESPerNode": "max/tres/per/node",
            "MaxWallDurationPerJob": "max/jobs/per/wall_clock",
            "MinPrioThreshold": "min/priority_threshold",
        }
    ),
}

PARENT: Final = "Parent"
DESCRIPTION: Final = "Description"
ORGANIZATION: Final = "Organization"
COORDINATORS: Final = "Coordinators"
DEFAULT_ACCOUNT: Final = "DefaultAccount"
YES: Final = "yes"

ACCOUNT_RECORD: Final[dict[str, Field]] = {
    DESCRIPTION: _typed(Kind.TEXT, "description"),
    ORGANIZATION: _typed(Kind.TEXT, "organization"),
    COORDINATORS: _typed(Kind.NAMES, "coordinators"),
}
"""Word of sacctmgr → the value of an account beside its association."""
ACCOUNT: Final[dict[str, Field]] = {
    PARENT: _typed(Kind.NAME, "parent_account", ROOT),
    **ACCOUNT_RECORD,
    **_ASSOCIATION,
}
"""Word of sacctmgr → the value of an account and its association."""
USER: Final[dict[str, Field]] = {DEFAULT_ACCOUNT: _typed(Kind.NAME, "is_default"), **_ASSOCIATION}
"""Word of sacctmgr → the value of a user's association."""

QOS_FLAGS: Final[dict[str, str]] = {
    "DenyOnLimit": "DENY_LIMIT",
    "EnforceUsageThreshold": "ENFORCE_USAGE_THRESHOLD",
    "NoDecay": "NO_DECAY",
    "NoReserve": "NO_RESERVE",
    "OverPartQOS": "OVERRIDE_PARTITION_QOS",
    "PartitionMaxNodes": "PARTITION_MAXIMUM_NODE",
    "PartitionMinNodes": "PARTITION_MINIMUM_NODE",
    "PartitionTimeLimit": "PARTITION_TIME_LIMIT",
    "RequiresReservation": "REQUIRED_RESERVATION",
    "UsageFactorSafe": "USAGE_FACTOR_SAFE",
}
"""Flag of a QOS as sacctmgr writes it → as slurmrestd writes it."""
LONGEST_LIST: Final = 3000
"""Most QOS, accounts and associations in all. An object of Kubernetes holds 1.5 MiB, and the status repeats them."""
