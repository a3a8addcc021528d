"""Fields of further sets of login nodes, each with its effect on what is declared."""

from __future__ import annotations

from typing import Any, Final

from components.config import Config
from tests.unit.effects.declared import Effect, Probe, body, pod, requests, variable

NAME: Final = "slurm-login-data"


def _service(config: Config) -> Any:
    return body(config, "Service", NAME)["spec"]


def _login(key: str) -> Probe:
    """Reads one value of the set's SLURM_LOGIN."""
    return lambda config: variable(config, "StatefulSet", NAME, "SLURM_LOGIN").get(key)


def _host_keys(config: Config) -> Any:
    return pod(config, "StatefulSet", NAME)["volumes"][2]["secret"]["secretName"]


_FIELDS: Final[list[Effect]] = [
    ("name", "big", lambda c: body(c, "StatefulSet", "slurm-login-big")["spec"]["serviceName"], "slurm-set-logins"),
    ("replicas", 3, lambda c: body(c, "StatefulSet", NAME)["spec"]["replicas"], 3),
    ("service.type", "NodePort", lambda c: _service(c)["type"], "NodePort"),
    ("service.nodePort", 30122, lambda c: _service(c)["ports"][0].get("nodePort"), 30122),
    (
        "service.loadBalancerSourceRanges",
        ["192.0.2.0/24"],
        lambda c: (
            _service(c)["loadBalancerSourceRanges"],
            body(c, "NetworkPolicy", NAME)["spec"]["ingress"][0]["from"],
        ),
        (["192.0.2.0/24"], [{"ipBlock": {"cidr": "192.0.2.0/24"}}]),
    ),
    (
        "service.annotations",
        {"cloud.example/a": "b"},
        lambda c: body(c, "Service", NAME)["metadata"]["annotations"].get("cloud.example/a"),
        "b",
    ),
    ("resources.cpu", "3", requests("StatefulSet", NAME, "cpu"), "3"),
    ("resources.memory", "3Gi", requests("StatefulSet", NAME, "memory"), "3Gi"),
    ("grace", "2m", lambda c: variable(c, "StatefulSet", NAME, "SLURM_NODE")["graceSeconds"], 120),
    ("limits.memoryPerUser", "1Gi", _login("memoryMib"), 1024),
    ("limits.cpuPerUser", "1500m", _login("cpuMillis"), 1500),
    ("limits.processesPerUser", 99, _login("processes"), 99),
    ("passwords", True, _login("passwords"), True),
    ("allowUsers", ["alice"], _login("allowUsers"), ["alice"]),
    ("allowGroups", ["lab"], _login("allowGroups"), ["lab"]),
    ("ownHostKeys", True, _host_keys, "slurm-login-data-host-keys"),
    ("existingSshSecret", "theirs", _host_keys, "theirs"),
]
EFFECTS: Final[list[Effect]] = [
    (f"login.sets.0.{field}", value, probe, expected) for field, value, probe, expected in _FIELDS
]
BASES: Final[dict[str, tuple[str, Any]]] = {"login.sets.": ("login.sets", [{"name": "data"}])}
"""Prefix of the fields → another field with the value that they need."""
