"""Each key of slurmdbd.conf: which key or accounting.options sets it, why this program does, or why nobody does.

No config dry run tries slurmdbd.conf, so each value of a free key is one that slurmdbd takes (its read_config.c).
"""

import re
from typing import Annotated, Final

from pydantic import AfterValidator, BeforeValidator

from components.config.slurm_keys.line_keys import LineKeys
from components.config.slurm_keys.slurm_options import quoted_text
from components.config.values.quantities import is_slurm_time

_DATABASE: Final = "accounting.mode and external say where the database is"
_NO_ARCHIVE: Final = "purged records are not archived: a pod has no place for them"
_NO_TLS: Final = "Debian's Slurm is built without tls/s2n"
_LIKE_SLURMCTLD: Final = "it is that of slurm.options, since slurmctld and slurmdbd have to agree"

KEYS: Final = LineKeys(
    of="slurmdbd.conf",
    at="accounting",
    typed={
        "PurgeJobAfter": "retention.jobs",
        "PurgeJobScriptAfter": "retention.jobScripts",
        "PurgeJobEnvAfter": "retention.jobEnvironments",
        "PurgeStepAfter": "retention.steps",
        "PurgeEventAfter": "retention.events",
        "PurgeResvAfter": "retention.reservations",
        "PurgeSuspendAfter": "retention.suspensions",
        "PurgeTXNAfter": "retention.transactions",
        "PurgeUsageAfter": "retention.usage",
    },
    owned={
        "ArchiveDir": _NO_ARCHIVE,
        "AuthAltParameters": "keys come from credentials",
        "AuthAltTypes": "keys come from credentials",
        "AuthInfo": "keys come from credentials",
        "AuthType": "keys come from credentials",
        "CommunicationParameters": _LIKE_SLURMCTLD,
        "DbdAddr": "it comes from the fixed names of the objects",
        "DbdHost": "it comes from the fixed names of the objects",
        "DbdPort": "Services and network policies depend on it",
        "DebugLevelSyslog": "daemons log to the pod's log",
        "HashPlugin": _LIKE_SLURMCTLD,
        "LogFile": "daemons log to the pod's log",
        "LogTimeFormat": "the operator reads the pod's log",
        "PidFile": "the images and pods depend on it",
        "PluginDir": "the images and pods depend on it",
        "PrivateData": "it comes from slurm.privateData",
        "SlurmUser": "the images and pods depend on it",
        "StorageHost": _DATABASE,
        "StorageLoc": _DATABASE,
        "StorageParameters": _DATABASE,
        "StoragePass": _DATABASE,
        "StoragePassScript": _DATABASE,
        "StoragePort": _DATABASE,
        "StorageType": _DATABASE,
        "StorageUser": _DATABASE,
        "TrackWCKey": _LIKE_SLURMCTLD,
    },
    refused={
        "AllowNoDefAcct": "the operator gives each user a default account",
        "ArchiveEvents": _NO_ARCHIVE,
        "ArchiveJobEnv": _NO_ARCHIVE,
        "ArchiveJobScript": _NO_ARCHIVE,
        "ArchiveJobs": _NO_ARCHIVE,
        "ArchiveResvs": _NO_ARCHIVE,
        "ArchiveScript": "slurmdbd would run it in its own pod",
        "ArchiveSteps": _NO_ARCHIVE,
        "ArchiveSuspend": _NO_ARCHIVE,
        "ArchiveTXN": _NO_ARCHIVE,
        "ArchiveUsage": _NO_ARCHIVE,
        "DbdBackupHost": "there is one pod of slurmdbd, and slurmctld keeps its records while that is away",
        "DefaultQOS": "it is for clusters to come; accounting.accounts[].defaultQos says it of accounts",
        "Parameters": "names of users and accounts are in lower case here",
        "StorageBackupHost": "slurmdbd would write to a database that the first one does not know",
        "TLSParameters": _NO_TLS,
        "TLSType": _NO_TLS,
    },
    allowed=(
        "AllResourcesAbsolute",
        "CommitDelay",
        "DebugFlags",
        "DebugLevel",
        "DisableArchiveCommands",
        "DisableCoordDBD",
        "DisableRollups",
        "MaxPurgeLimit",
        "MaxQueryTimeRange",
        "MessageTimeout",
        "TCPTimeout",
        "TrackSlurmctldDown",
    ),
)

_DEBUG_FLAGS: Final = (
    *("AuditRPCs", "DB_ARCHIVE", "DB_ASSOC", "DB_EVENT", "DB_JOB", "DB_QOS", "DB_QUERY", "DB_RESERVATION"),
    *("DB_RESOURCE", "DB_STEP", "DB_TRES", "DB_USAGE", "DB_WCKEY", "FEDERATION", "Network", "NetworkRaw", "TLS"),
)
_FLAG: Final = f"(?i:{'|'.join(_DEBUG_FLAGS)})"
_SECONDS: Final = "a whole number of seconds, from 1 to 65533"
_YES_OR_NO: Final = "yes or no, in quotes"
_NUMBER: Final = re.compile("[1-9][0-9]{0,9}")
_WORDS: Final = {
    # With fewer words in the log, the operator could not tell why slurmdbd is away.
    "DebugLevel": ("info|verbose|debug|debug[2-5]", "info, verbose, debug, or debug2 to debug5"),
    "DebugFlags": (
        f"{_FLAG}(,{_FLAG})*",
        f"flags of slurmdbd.conf(5), such as DB_JOB,DB_STEP: {', '.join(_DEBUG_FLAGS)}",
    ),
}
"""Key → what its whole value matches, and what that is in words."""
_MOST: Final = {"CommitDelay": 65_533, "MessageTimeout": 65_533, "TCPTimeout": 65_533, "MaxPurgeLimit": 4_294_967_293}
"""Key → the largest number that it takes."""


def refusal(name: str, value: str) -> str:
    """Return what a value of a key has to be; empty if this one is right."""
    if name == "MaxQueryTimeRange":
        return "" if is_slurm_time(value) else "a Slurm time such as 60-0, or UNLIMITED"
    if (most := _MOST.get(name)) is not None:
        is_right = _NUMBER.fullmatch(value) is not None and int(value) <= most
        return "" if is_right else _SECONDS if name != "MaxPurgeLimit" else "a whole number of rows, such as 50000"
    pattern, want = _WORDS.get(name, ("yes|no", _YES_OR_NO))
    return "" if re.fullmatch(pattern, value) else want


OptionName = Annotated[str, AfterValidator(KEYS.check)]
OptionValue = Annotated[str, BeforeValidator(quoted_text)]
