"""Fields of accounting, each with its effect on what is declared."""

from __future__ import annotations

from typing import Any, Final

from components import slurm_cluster
from components.config import Config
from components.slurm.conf import slurmdbd_conf
from tests.unit.effects.declared import Effect, body, claim_effects, container, has, pod, requests
from tests.unit.samples import OTHER_IMAGE

CONNECTION = "mysql://slurm:secret@db.example/slurm_acct_db"


def dbd(config: Config) -> dict[str, str]:
    """Settings of slurmdbd.conf by key, and those that say where the database is under all their keys."""
    pairs = (line.partition("=") for line in slurmdbd_conf.slurmdbd_conf(config).splitlines())
    found = {key: value for key, _, value in pairs}
    where = ("StorageHost", "StoragePort", "StorageUser", "StorageLoc")
    return {**found, " ".join(where): " ".join(found[key] for key in where)}


def password(config: Config) -> tuple[Any, bool]:
    """From where slurmdbd gets its password, and whether the database has it from there too."""
    volumes = [
        next(each["secret"] for each in pod(config, "StatefulSet", name)["volumes"] if each["name"] == "password")
        for name in ("slurm-accounting", "slurm-database")
        if body(config, "StatefulSet", name)
    ]
    return volumes[0], volumes[0] == volumes[-1]


def authority(config: Config) -> Any:
    """The Secret with the CA that slurmdbd mounts."""
    volumes = pod(config, "StatefulSet", "slurm-accounting")["volumes"]
    return next(each["secret"] for each in volumes if each["name"] == "database-authority")


EFFECTS: Final[list[Effect]] = [
    ("images.database", OTHER_IMAGE, lambda c: container(c, "StatefulSet", "slurm-database")["image"], OTHER_IMAGE),
    (
        "credentials.existingDatabaseSecret",
        "mine",
        lambda c: (body(c, "Secret", "slurm-database-credentials"), password(c)[0]["secretName"], password(c)[1]),
        (None, "mine", True),
    ),
    ("accounting.mode", "off", lambda c: body(c, "StatefulSet", "slurm-accounting"), None),
    ("accounting.mode", "off", has("AccountingStorageType=accounting_storage/slurmdbd"), False),
    ("accounting.mode", "off", lambda c: "accounting" in slurm_cluster.cluster_resource(c)["spec"], False),
    ("accounting.resources.cpu", "3", requests("StatefulSet", "slurm-accounting", "cpu"), "3"),
    ("accounting.resources.memory", "3Gi", requests("StatefulSet", "slurm-accounting", "memory"), "3Gi"),
    ("accounting.databaseResources.cpu", "3", requests("StatefulSet", "slurm-database", "cpu"), "3"),
    ("accounting.databaseResources.memory", "3Gi", requests("StatefulSet", "slurm-database", "memory"), "3Gi"),
    (
        "accounting.databaseResources.memory",
        "256Mi",
        lambda c: container(c, "StatefulSet", "slurm-database")["args"],
        [f"--innodb-buffer-pool-size={96 * 2**20}"],
    ),
    *claim_effects("accounting.storage", "slurm-database"),
    (
        "accounting.external.connection",
        "mariadb://ann:p%40ss@db.example:3307/books",
        lambda c: dbd(c)["StorageHost StoragePort StorageUser StorageLoc"],
        "db.example 3307 ann books",
    ),
    ("accounting.external.host", "db2.example", lambda c: dbd(c)["StorageHost"], "db2.example"),
    ("accounting.external.port", 3307, lambda c: dbd(c)["StoragePort"], "3307"),
    ("accounting.external.user", "ann", lambda c: dbd(c)["StorageUser"], "ann"),
    ("accounting.external.database", "books", lambda c: dbd(c)["StorageLoc"], "books"),
    ("accounting.external.passwordSecret.name", "theirs", lambda c: password(c)[0]["secretName"], "theirs"),
    (
        "accounting.external.passwordSecret.key",
        "pw",
        lambda c: password(c)[0]["items"],
        [{"key": "pw", "path": "password"}],
    ),
    ("accounting.enforce", ["limits", "qos"], has("AccountingStorageEnforce=limits,qos"), True),
    ("accounting.retention.jobs", "12months", lambda c: dbd(c)["PurgeJobAfter"], "12months"),
    ("accounting.retention.jobScripts", "2months", lambda c: dbd(c).get("PurgeJobScriptAfter"), "2months"),
    ("accounting.retention.jobEnvironments", "60days", lambda c: dbd(c).get("PurgeJobEnvAfter"), "60days"),
    ("accounting.retention.steps", "6months", lambda c: dbd(c)["PurgeStepAfter"], "6months"),
    ("accounting.retention.events", "30days", lambda c: dbd(c)["PurgeEventAfter"], "30days"),
    ("accounting.retention.reservations", "30days", lambda c: dbd(c)["PurgeResvAfter"], "30days"),
    ("accounting.retention.suspensions", "30days", lambda c: dbd(c)["PurgeSuspendAfter"], "30days"),
    ("accounting.retention.transactions", "30days", lambda c: dbd(c)["PurgeTXNAfter"], "30days"),
    ("accounting.retention.usage", "24hours", lambda c: dbd(c)["PurgeUsageAfter"], "24hours"),
    ("accounting.enforce", ["wckeys"], lambda c: dbd(c).get("TrackWCKey"), "yes"),
    ("slurm.options", {"trackwckey": "YES"}, lambda c: dbd(c).get("TrackWCKey"), "yes"),
    ("slurm.options", {"HashPlugin": "hash/sha3"}, lambda c: dbd(c).get("HashPlugin"), "hash/sha3"),
    (
        "slurm.options",
        {"CommunicationParameters": "EnableIPv6,keepalivetime=60,DisableIPv4"},
        lambda c: dbd(c)["CommunicationParameters"],
        "block_null_hash,block_zero_hash,EnableIPv6,DisableIPv4",
    ),
    ("accounting.options", {"MaxQueryTimeRange": "60-0"}, lambda c: dbd(c).get("MaxQueryTimeRange"), "60-0"),
    ("accounting.options", {"DebugLevel": "verbose"}, lambda c: dbd(c)["DebugLevel"], "verbose"),
    ("accounting.priority.weightAge", 7, has("PriorityWeightAge=7"), True),
    ("accounting.priority.weightFairshare", 7, has("PriorityWeightFairshare=7"), True),
    ("accounting.priority.weightJobSize", 7, has("PriorityWeightJobSize=7"), True),
    ("accounting.priority.weightPartition", 7, has("PriorityWeightPartition=7"), True),
    ("accounting.priority.weightQos", 7, has("PriorityWeightQOS=7"), True),
    ("accounting.priority.maxAge", "3-0", has("PriorityMaxAge=3-0"), True),
    ("accounting.priority.decayHalfLife", "14-0", has("PriorityDecayHalfLife=14-0"), True),
    ("accounting.external.caSecret.name", "corp", lambda c: authority(c)["secretName"], "corp"),
    ("accounting.external.caSecret.key", "root.pem", lambda c: authority(c)["items"][0]["key"], "root.pem"),
]
BASES: Final[dict[str, tuple[str, Any]]] = {
    "accounting.external.connection": ("accounting", {"mode": "external", "external": {"connection": CONNECTION}}),
    "accounting.external.caSecret.": (
        "accounting",
        {
            "mode": "external",
            "external": {"host": "db.example", "passwordSecret": {"name": "db"}, "caSecret": {"name": "ca"}},
        },
    ),
    "accounting.external.": (
        "accounting",
        {"mode": "external", "external": {"host": "db.example", "passwordSecret": {"name": "db"}}},
    ),
}
"""Prefix of fields → another field with the value that they need."""
