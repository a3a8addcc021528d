"""Fields of login nodes, users and the LDAP directory, each with its effect on what is declared."""

from __future__ import annotations

from typing import Any, Final

from components import slurm_cluster
from components.config import Config
from tests.unit.effects.declared import Effect, Probe, body, job, pod, requests, variable
from tests.unit.samples import SSH_KEY


def service(config: Config) -> Any:
    """The spec of the login Service."""
    return body(config, "Service", "slurm-login")["spec"]


def login(key: str) -> Probe:
    """Reads one value of SLURM_LOGIN of the login nodes."""
    return lambda config: variable(config, "StatefulSet", "slurm-login", "SLURM_LOGIN").get(key)


def followed(key: str) -> Probe:
    """A value that the pod which follows the directory is told."""
    return lambda config: variable(config, "Deployment", "slurm-directory", "SLURM_DIRECTORY")[key]


def directory_secret(config: Config, file: str) -> Any:
    """The Secret from which the directory's pod has a file."""
    sources = next(
        each for each in pod(config, "Deployment", "slurm-directory")["volumes"] if each["name"] == "secrets"
    )
    secrets = [each["secret"] for each in sources["projected"]["sources"]]
    return next(each for each in secrets if each["items"][0]["path"] == file)


EFFECTS: Final[list[Effect]] = [
    ("login.grace", "2m", lambda c: variable(c, "StatefulSet", "slurm-login", "SLURM_NODE")["graceSeconds"], 120),
    ("login.replicas", 3, lambda c: body(c, "StatefulSet", "slurm-login")["spec"]["replicas"], 3),
    ("login.service.type", "NodePort", lambda c: service(c)["type"], "NodePort"),
    ("login.service.nodePort", 30022, lambda c: service(c)["ports"][0]["nodePort"], 30022),
    (
        "login.service.loadBalancerSourceRanges",
        ["192.0.2.0/24"],
        lambda c: (
            service(c)["loadBalancerSourceRanges"],
            body(c, "NetworkPolicy", "slurm-login")["spec"]["ingress"][0]["from"],
        ),
        (["192.0.2.0/24"], [{"ipBlock": {"cidr": "192.0.2.0/24"}}]),
    ),
    (
        "login.service.annotations",
        {"cloud.example/a": "b"},
        lambda c: body(c, "Service", "slurm-login")["metadata"]["annotations"]["cloud.example/a"],
        "b",
    ),
    ("login.users.name", "bob", lambda c: variable(c, "Job", job(c), "SLURM_USERS")[0]["name"], "bob"),
    (
        "login.users.sshPublicKeys",
        [SSH_KEY, f"{SSH_KEY}2"],
        lambda c: variable(c, "Job", job(c), "SLURM_USERS")[0]["sshPublicKeys"],
        [SSH_KEY, f"{SSH_KEY}2"],
    ),
    ("login.users.sudo", True, lambda c: variable(c, "Job", job(c), "SLURM_USERS")[0]["sudo"], True),
    (
        "login.users.admin",
        True,
        lambda c: slurm_cluster.cluster_resource(c)["spec"].get("administrators"),
        {"alice": "Administrator"},
    ),
    (
        "login.users.operator",
        True,
        lambda c: slurm_cluster.cluster_resource(c)["spec"].get("administrators"),
        {"alice": "Operator"},
    ),
    ("login.limits.memoryPerUser", "1Gi", login("memoryMib"), 1024),
    ("login.limits.cpuPerUser", "1500m", login("cpuMillis"), 1500),
    ("login.limits.processesPerUser", 99, login("processes"), 99),
    ("login.passwords", True, login("passwords"), True),
    ("login.allowUsers", ["alice", "bob"], login("allowUsers"), ["alice", "bob"]),
    ("login.allowGroups", ["lab"], login("allowGroups"), ["lab"]),
    ("directory.uri", "ldap://a.example:10389", followed("uri"), "ldap://a.example:10389"),
    ("directory.base", "dc=other", followed("base"), "dc=other"),
    ("directory.bindDn", "cn=reader,dc=example", followed("bind"), "cn=reader,dc=example"),
    ("directory.bindPasswordSecret.name", "theirs", lambda c: directory_secret(c, "password")["name"], "theirs"),
    (
        "directory.bindPasswordSecret.key",
        "reader",
        lambda c: directory_secret(c, "password")["items"],
        [{"key": "reader", "path": "password"}],
    ),
    ("directory.caSecret.name", "corp", lambda c: directory_secret(c, "ca.crt")["name"], "corp"),
    (
        "directory.caSecret.key",
        "root.pem",
        lambda c: directory_secret(c, "ca.crt")["items"],
        [{"key": "root.pem", "path": "ca.crt"}],
    ),
    ("directory.userFilter", "(uid=a*)", followed("userFilter"), "(uid=a*)"),
    ("directory.groupFilter", "(cn=a*)", followed("groupFilter"), "(cn=a*)"),
    ("directory.interval", "2m", followed("seconds"), 120),
    ("directory.resources.cpu", "3", requests("Deployment", "slurm-directory", "cpu"), "3"),
    ("directory.resources.memory", "3Gi", requests("Deployment", "slurm-directory", "memory"), "3Gi"),
    ("login.resources.cpu", "3", requests("StatefulSet", "slurm-login", "cpu"), "3"),
    ("login.resources.memory", "3Gi", requests("StatefulSet", "slurm-login", "memory"), "3Gi"),
]
BASES: Final[dict[str, tuple[str, Any]]] = {
    "directory.": (
        "directory",
        {
            "uri": "ldaps://ldap.example",
            "base": "dc=example",
            "bindDn": "cn=slurm",
            "bindPasswordSecret": {"name": "ldap"},
            "caSecret": {"name": "ca"},
        },
    ),
    "login.users.": ("login.users", [{"name": "alice", "sshPublicKeys": [SSH_KEY]}]),
}
"""Prefix of fields → another field with the value that they need."""
