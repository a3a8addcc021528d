"""Which keys of slurm.conf a user may set through slurm.options, and what their values may look like."""

import difflib
import re
from collections.abc import Mapping
from importlib import resources
from typing import Final

from components.config.values import wrong

_LIST_KEYS: Final = (
    "SlurmctldParameters",
    "SchedulerParameters",
    "LaunchParameters",
    "SlurmdParameters",
    "PrologFlags",
    "TaskPlugin",
    "PropagateResourceLimitsExcept",
    "AccountingStorageTRES",
    "CommunicationParameters",
)
LIST_KEYS: Final = frozenset(key.lower() for key in _LIST_KEYS)
"""Comma lists to which a user's items are added, since ours must stay."""

_OWNED_FOR: Final = {
    "it comes from cluster.name": ("ClusterName",),
    "it comes from the fixed names of the objects": ("SlurmctldHost", "SlurmctldAddr", "MaxNodeCount", "TreeWidth"),
    "Services and network policies depend on it": ("SlurmctldPort", "SlurmdPort", "SrunPortRange"),
    "the images and pods depend on it": (
        "SlurmUser",
        "SlurmdUser",
        "PluginDir",
        "StateSaveLocation",
        "SlurmdSpoolDir",
        "SlurmctldPidFile",
        "SlurmdPidFile",
        "ReturnToService",
    ),
    "daemons log to the pod's log": ("SlurmctldLogFile", "SlurmdLogFile", "SlurmSchedLogFile"),
    "keys come from credentials": ("AuthType", "AuthInfo", "AuthAltTypes", "AuthAltParameters", "CredType"),
    "another value would run jobs outside the jail": ("PlugStackConfig", "NamespaceType"),
    "memory limits of jobs depend on it; see slurm.cgroupPlugin": (
        "SelectType",
        "SelectTypeParameters",
        "ProctrackType",
    ),
    "it comes from nodeSets[].gpus": ("GresTypes",),
    "it comes from accounting": (
        "AccountingStorageType",
        "AccountingStorageHost",
        "AccountingStorageBackupHost",
        "AccountingStorageExternalHost",
        "AccountingStoragePort",
        "AccountingStoragePass",
        "AccountingStorageEnforce",
    ),
    "it would run a program in the pod's root, outside the jail": (
        "Prolog",
        "Epilog",
        "PrologSlurmctld",
        "EpilogSlurmctld",
        "ResvProlog",
        "ResvEpilog",
        "HealthCheckProgram",
        "UnkillableStepProgram",
        "SlurmctldPrimaryOnProg",
        "SlurmctldPrimaryOffProg",
    ),
    "nodes are pods, started and removed by the operator": (
        "RebootProgram",
        "ResumeProgram",
        "ResumeFailProgram",
        "SuspendProgram",
        "SuspendTime",
    ),
    "it comes from nodeSets and partitions": ("NodeName", "NodeSet", "PartitionName", "DownNodes", "FrontendName"),
    "it would read a file that is not declared": ("Include",),
    "it comes from health": ("HealthCheckInterval", "HealthCheckNodeState", "HealthCheckTimeout"),
    "the operator and dashboards read these metrics": ("MetricsType",),
}
OWNED: Final = {key.lower(): reason for reason, keys in _OWNED_FOR.items() for key in keys}

WORKER_START: Final = {
    # How slurmd listens: it keeps its socket when it reads a configuration.
    "communicationparameters": frozenset({"noinaddrany", "enableipv6", "disableipv4"}),
    # What it says of its hardware: slurmctld ignores another word about a node that it knows.
    "slurmdparameters": frozenset({"allow_ecores", "l3cache_as_socket", "numa_node_as_socket"}),
}
"""Key in lower case → words of its value that a worker takes only with a new pod (slurm.conf(5), slurmd.c)."""

_VALUE = re.compile(r"[^\s#\"'\\\x00-\x1f\x7f]+")


def _known() -> dict[str, str]:
    text = resources.files("components.config").joinpath("slurm_conf_keys.txt").read_text("utf-8")
    return {line.lower(): line for line in text.splitlines() if line and not line.startswith("#")}


KNOWN: Final = _known()
"""Keys of slurm.conf that Slurm 26.05 knows, by their lower-case form: Slurm does not tell cases apart."""


def check_option_name(name: str) -> str:
    """The key as Slurm writes it.

    Raises:
        PydanticCustomError: Slurm has no such key, or the cluster sets it by itself.
    """
    if reason := OWNED.get(name.lower()):
        raise wrong(f"another key: {name} is set by this program, {reason}")
    if name.lower() not in KNOWN:
        close = difflib.get_close_matches(name.lower(), KNOWN, n=1)
        hint = f"; did you mean {KNOWN[close[0]]}?" if close else ""
        raise wrong(f"a key of slurm.conf that Slurm 26.05 knows{hint}")
    return KNOWN[name.lower()]


def worker_start(options: Mapping[str, str]) -> list[str]:
    """The words of options that a worker takes only with a new pod."""
    given = {key.lower(): value.lower().split(",") for key, value in options.items()}
    return sorted({word for key, taken in WORKER_START.items() for word in given.get(key, ()) if word in taken})


def check_option_value(value: str) -> str:
    """The value, when it can stand in one `Key=value` line and do nothing else there.

    Slurm reads several Key=value pairs from one line, takes `#` for a comment and a backslash for a continued line, so
    none of these may come in by a value.

    Raises:
        PydanticCustomError: It holds a space, quote, `#`, backslash, newline or other control character.
    """
    if not _VALUE.fullmatch(value):
        raise wrong("one value without spaces, quotes, `#`, backslashes or newlines")
    return value
