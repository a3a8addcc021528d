"""The network of a cluster's node, for the report of a failure: who may reach whom, and which component is late."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

from devcluster.node import node_cli
from devcluster.node.instance import Instance, enter_command

SECONDS = 20
POLICIES = ("nft", "list", "table", "inet", "devcluster_policy")
SERVICES = ("sh", "-c", "iptables-save -t nat | grep -e DNAT -e REJECT")
NEIGHBOURS = ("ip", "neigh")
BRIDGE = ("bridge", "link")
LOGS = ("network-policy", "kube-proxy")
LINES = 12


def of(instance: Instance) -> str:
    """Return the facts."""
    if instance.runtime() is None:
        return "the node does not run"
    load = ", ".join(f"{load:.1f}" for load in os.getloadavg())
    seen = [f"load {load}, {os.cpu_count()} cores", *_components(instance)]
    seen += [f"--- {name}.log\n{last_lines(instance.logs / f'{name}.log')}" for name in LOGS]
    seen += [_seen(instance, command) for command in (POLICIES, SERVICES, NEIGHBOURS, BRIDGE)]
    return "\n".join(seen)


def last_lines(log: Path) -> str:
    """Return the end of a component's log."""
    return "\n".join(log.read_text(errors="replace").splitlines()[-LINES:]) if log.exists() else "(there is none)"


def _components(instance: Instance) -> list[str]:
    return [
        f"{each.state.name}: {each.state.restarts} restarts {each.state.last_exit}; last error: {each.last_error}"
        for each in node_cli.status(instance).components
        if each.state.restarts or each.last_error
    ]


def _seen(instance: Instance, command: Sequence[str]) -> str:
    try:
        done = subprocess.run(
            enter_command(instance, command), capture_output=True, text=True, timeout=SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        return f"--- {' '.join(command)}: not done within {SECONDS} s"
    return f"--- {' '.join(command)}\n{done.stdout}{done.stderr}"
