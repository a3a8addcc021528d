"""Submounts of all kinds that need no storage class: a claim's folder, the Kubernetes node's folder, its disk, memory.

Jobs may read the claim and logins write it, as docs/node-local-storage.md shows.
"""

from __future__ import annotations

import json
import shlex
import subprocess
from typing import Any

SIZE = "16Mi"
SECONDS = 60
LOOK = "cat /datasets/hello /host/hello && stat -c %a /disk /memory && hostname | tee /disk/own /memory/own"
LOGIN_AND_JOB = f"echo from a login node | sudo tee /datasets/hello && {LOOK} && srun -n1 sh -c '{LOOK}' && cat /*/own"
REFUSED = {
    "srun -n1 sudo touch /datasets/hello": "Read-only file system",
    "srun -n1 touch /host/hello": "Permission denied",
    "srun -n1 dd if=/dev/zero of=/memory/own bs=1M count=32": "No space left on device",
    "dd if=/dev/zero of=/memory/own bs=1M count=32": "No space left on device",
}
ATTEMPTS = "; ".join(f"{attempt} && echo {shlex.quote(attempt)} was allowed" for attempt in REFUSED)


def declare(slurm: Any, facts: dict[str, Any]) -> None:
    """Make what submounts show, and ask for them in a configuration: on nodes of its first set, and on logins."""
    namespace = facts["cluster"]["namespace"]
    folder = slurm.cluster.instance.state / "of-the-node"
    folder.mkdir(exist_ok=True)
    (folder / "hello").write_text("from the Kubernetes node\n")
    claim = {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Mi"}}}
    items = [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}},
        {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data"}, "spec": claim},
    ]
    written = json.dumps({"apiVersion": "v1", "kind": "List", "items": items})
    slurm.kubectl("apply", "--namespace", namespace, "-f", "-", text=written).ok()
    facts["jail"]["allowedHostPaths"] = [str(folder.parent)]
    facts["nodeSets"][0]["submounts"] = _submounts(str(folder), {"readOnly": True})
    facts["login"]["submounts"] = _submounts(str(folder), {})


def _submounts(folder: str, access: dict[str, bool]) -> list[dict[str, Any]]:
    return [
        {"path": "/datasets", "claim": {"name": "data", "subPath": "of/all", **access}},
        {"path": "/host", "hostPath": folder},
        {"path": "/disk", "emptyDir": SIZE},
        {"path": "/memory", "memory": SIZE},
    ]


def session(slurm: Any, port: int, script: str) -> subprocess.CompletedProcess[str]:
    """A script in a real login as the ordinary user, at a port of the Kubernetes node."""
    login = slurm.cluster.login
    once = ["-o", "UserKnownHostsFile=/dev/null", "-o", "BatchMode=yes"]
    to = ["-p", str(port), f"dev@{login.address()[0]}", f"timeout {SECONDS} bash -c {shlex.quote(script)}"]
    command = ["ssh", *once, *login.options(), *to]
    return subprocess.run(command, capture_output=True, text=True, timeout=SECONDS + 20, check=False, input="")
