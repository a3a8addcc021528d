"""Checks that the pod resolves the controller's name."""

from contract import reasons
from node_health.check import Check, DoesNotApplyError, Machine
from node_health.verdict import Finding, passes, warns

SECONDS = 5.0


def look(machine: Machine) -> str:
    """Returns why the name can't be resolved, empty if it can."""
    import socket

    host, _, port = machine.declared.controller.rpartition(":")
    if not host:
        raise DoesNotApplyError("no controller declared")
    try:
        socket.getaddrinfo(host, int(port), type=socket.SOCK_STREAM)
    except socket.gaierror as error:
        return f"{host}: {error.strerror}"
    return ""


def judge(failed: str, machine: Machine) -> Finding:
    """WARNING when it can't: DNS fails for all nodes alike, and a drain would repair nothing."""
    return warns(f"a name can't be resolved: {failed}") if failed else passes("the controller's name is resolved")


CHECK = Check(
    reasons.Check.DNS,
    look,
    judge,
    fails="",
    warns="the controller's name can't be resolved",
    remedy="look at the cluster's DNS and the Kubernetes node's network",
    seconds=SECONDS,
)
