"""Keys of slurm.conf that older Slurms had, and that files of sites still have.

Slurm's parser takes some of them to say that they do nothing, or under which name they went on.
"""

from typing import Final

_RETIRED_FOR: Final = {
    "SlurmctldHost is in its place, which this program sets": (
        "BackupAddr",
        "BackupController",
        "ControlAddr",
        "ControlMachine",
    ),
    "keys come from credentials": ("CryptoType", "JobCredentialPrivateKey", "JobCredentialPublicCertificate"),
    "accounting says where the database is": (
        "AccountingStorageLoc",
        "AccountingStorageUser",
        "DefaultStorageHost",
        "DefaultStorageLoc",
        "DefaultStoragePass",
        "DefaultStoragePort",
        "DefaultStorageType",
        "DefaultStorageUser",
    ),
    "the jail's plugin makes the namespaces of jobs": ("JobContainerType",),
    "SlurmdParameters: config_overrides does what its 2 did": ("FastSchedule",),
    "AccountingStoreFlags: job_comment does what it did": ("AccountingStoreJobComment",),
    "AcctGatherInterconnectType is its name since": ("AcctGatherInfinibandType",),
    "CommunicationParameters: keepalivetime=… does what it did": ("KeepAliveTime",),
    "LaunchParameters: use_interactive_step, which this program sets, does what it was for": ("SallocDefaultCommand",),
    "JobAcctGatherParams: OverMemoryKill does what it did": ("MemLimitEnforce",),
    "nothing is in its place": (
        "CacheGroups",
        "CheckpointType",
        "CoreSpecPlugin",
        "ExtSensorsFreq",
        "ExtSensorsType",
        "GetEnvTimeout",
        "JobCheckpointDir",
        "LaunchType",
        "PowerParameters",
        "PowerPlugin",
        "RoutePlugin",
        "SchedulerAuth",
        "SchedulerPort",
        "SchedulerRootFilter",
        "SbcastParameters",
    ),
}
RETIRED: Final = {key.lower(): reason for reason, keys in _RETIRED_FOR.items() for key in keys}
"""Key in lower case → what is in its place."""
