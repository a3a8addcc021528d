"""Looks at a cluster without kubectl and SSH, whose start costs more than the answer: tests look hundreds of times."""

from __future__ import annotations

import functools
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from devcluster.node import processes
from devcluster.standin import kubeconfig

SECONDS = 60
CONTROLLER = "slurm-controller-0"
GROUPS = {
    "api/v1": ("configmap", "persistentvolumeclaim", "pod", "secret", "service"),
    "apis/apps/v1": ("deployment", "statefulset"),
    "apis/networking.k8s.io/v1": ("networkpolicy",),
    "apis/coordination.k8s.io/v1": ("lease",),
    "apis/pulumi-slurm.dev/v1alpha1": ("nodeset", "slurmcluster"),
}
FOLDERS = {kind: f"{group}/namespaces/{{}}/{kind}s" for group, kinds in GROUPS.items() for kind in kinds}
FOLDERS["networkpolicy"] = FOLDERS["networkpolicy"].replace("policys", "policies")
FOLDERS["events.events.k8s.io"] = "apis/events.k8s.io/v1/namespaces/{}/events"
FOLDERS["node"] = "api/v1/nodes"


def path_of(words: Sequence[str], namespace: str) -> str | None:
    """Return the API server's path for the words after `kubectl get`; None for those that only kubectl knows."""
    match words:
        case [kind, *rest] if (folder := FOLDERS.get(kind.removesuffix("s"))) is not None:
            base = f"/{folder.format(namespace)}"
        case _:
            return None
    match rest:
        case []:
            return base
        case ["-l", labels]:
            return f"{base}?labelSelector={labels}"
        case [name] if not name.startswith("-"):
            return f"{base}/{name}"
    return None


@dataclass(frozen=True)
class Looks:
    """Looks at one cluster.

    Args:
        kubeconfig: its administrator's.
        namespace: of Slurm.
    """

    kubeconfig: Path
    namespace: str

    @functools.cached_property
    def _connection(self) -> kubeconfig.Connection:
        return kubeconfig.read(str(self.kubeconfig))

    def get(self, path: str) -> Any:
        """Return an object or a list.

        Raises:
            AssertionError: There is none, or no answer.
        """
        connection = self._connection
        try:
            # A connection of its own each time: tests stop the API server.
            answer = httpx.get(f"{connection.server}{path}", verify=connection.tls, timeout=SECONDS, trust_env=False)
        except httpx.HTTPError as error:
            raise AssertionError(f"{path}: {error!r}") from error
        assert answer.is_success, answer.text
        return answer.json()

    def nodes(self) -> dict[str, str]:
        """Return the state of each Slurm node by name, from sinfo in slurmctld's pod.

        Raises:
            AssertionError: slurmctld does not run or does not answer.
        """
        uid = self.get(f"/{FOLDERS['pod'].format(self.namespace)}/{CONTROLLER}")["metadata"]["uid"]
        found = processes.of_pods([uid], "slurmctld")
        assert found, "slurmctld does not run"
        enter = ["nsenter", "--target", str(found[0]), "--mount", "--net", "--ipc", "--uts", "--pid"]
        command = [*enter, "/opt/slurm/bin/sinfo", "-h", "-N", "-o", "%N %T"]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False, env={})
        except subprocess.TimeoutExpired as late:
            raise AssertionError("slurmctld does not answer") from late
        assert done.returncode == 0, done.stderr
        return dict(line.split() for line in done.stdout.splitlines())
