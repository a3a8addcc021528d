"""Fields of accounting's QOS, accounts and users, each with its effect on what the operator is told."""

from __future__ import annotations

import re
from typing import Any, Final

from components import slurm_cluster
from tests.unit.effects.declared import Effect, Probe
from tests.unit.samples import changed


def told(kind: str, name: str, word: str) -> Probe:
    """Reads one value of spec.accounts."""
    return lambda config: slurm_cluster.cluster_resource(config)["spec"]["accounts"][kind][name].get(word)


def _qos(field: str, value: Any, word: str, expected: Any) -> Effect:
    return f"accounting.qos.1.{field}", value, told("qos", "high", word), expected


def _account(field: str, value: Any, word: str, expected: Any) -> Effect:
    return f"accounting.accounts.1.{field}", value, told("accounts", "optics", word), expected


def _user(field: str, value: Any, word: str, expected: Any) -> Effect:
    return f"accounting.accounts.1.users.0.{field}", value, told("users", "optics/alice", word), expected


BASE: Final = changed("slurm.options", {"PreemptType": "preempt/qos", "PreemptMode": "REQUEUE"})
"""A configuration in which QOS may preempt."""
PEOPLE: Final = {
    "mode": "mariadb",
    "enforce": ["safe", "qos"],
    "qos": [{"name": "low"}, {"name": "high"}, {"name": "spare"}],
    "accounts": [
        {"name": "physics", "qos": ["normal", "low", "high"]},
        {"name": "optics", "users": [{"name": "alice"}]},
    ],
}
EFFECTS: Final[list[Effect]] = [
    (
        "accounting.removal",
        "delete",
        lambda c: slurm_cluster.cluster_resource(c)["spec"]["accounts"]["removal"],
        "delete",
    ),
    ("accounting.qos.2.name", "night", told("qos", "night", "Priority"), None),
    _qos("description", "At once", "Description", "At once"),
    _qos("priority", 100, "Priority", "100"),
    _qos("preempts", ["low"], "Preempt", "low"),
    _qos("preemptMode", "requeue", "PreemptMode", "requeue"),
    _qos("preemptExemptTime", 60, "PreemptExemptTime", "60"),
    _qos("graceTime", 30, "GraceTime", "30"),
    _qos("usageFactor", 0.50, "UsageFactor", "0.5"),
    _qos("flags", ["NoDecay", "DenyOnLimit"], "Flags", "DenyOnLimit,NoDecay"),
    _qos("limits", {"MaxJobsPerUser": 5}, "MaxJobsPerUser", "5"),
    _qos("limits", {"GrpTRES": "mem=1T,gres/gpu=08,cpu=10"}, "GrpTRES", "cpu=10,gres/gpu=8,mem=1048576"),
    _qos("limits", {"MaxTRESPerJob": "mem=512K"}, "MaxTRESPerJob", "mem=1"),
    _qos("limits", {"MaxWallDurationPerJob": "1-12:00:30"}, "MaxWallDurationPerJob", "2161"),
    ("accounting.accounts.0.name", "bio", told("accounts", "bio", "Parent"), "root"),
    _account("parent", "physics", "Parent", "physics"),
    _account("description", "Light", "Description", "Light"),
    _account("organization", "uni", "Organization", "uni"),
    _account("coordinators", ["alice"], "Coordinators", "alice"),
    _account("fairshare", 20, "Fairshare", "20"),
    _account("qos", ["normal", "high"], "QOS", "high,normal"),
    _account("defaultQos", "normal", "DefaultQOS", "normal"),
    _account("limits", {"GrpJobs": 20}, "GrpJobs", "20"),
    ("accounting.accounts.1.users.0.name", "bob", told("users", "optics/bob", "Fairshare"), None),
    _user("default", True, "DefaultAccount", "yes"),
    _user("fairshare", "parent", "Fairshare", "parent"),
    _user("qos", ["high"], "QOS", "high"),
    _user("defaultQos", "normal", "DefaultQOS", "normal"),
    _user("limits", {"MaxJobs": "3"}, "MaxJobs", "3"),
]
PATHS: Final = frozenset(re.sub(r"\.\d", "", path) for path, *_ in EFFECTS)
"""The fields, without positions of rows."""
