"""A node under test: the small tools that these tests use it with."""

from __future__ import annotations

import json
import subprocess
import time
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from devcluster.node import node_cli
from devcluster.node.instance import Instance

IMAGE = "localhost/probe:1"


@dataclass(frozen=True)
class Node:
    """A running instance and the kubectl for it."""

    instance: Instance
    binaries: Path

    def kubectl(self, *arguments: str, stdin: str | None = None) -> str:
        return node_cli.kubectl(self.instance, self.binaries, arguments, stdin=stdin)

    def apply(self, *objects: dict[str, Any]) -> None:
        content = json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})
        self.kubectl("apply", "-f", "-", stdin=content)

    def get(self, *arguments: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.kubectl("get", *arguments, "-o", "json"))
        return found

    def run_in(self, namespace: str, pod: str, *command: str) -> subprocess.CompletedProcess[str]:
        """Run the probe in a running pod."""
        return subprocess.run(
            [
                *(str(self.binaries / "kubectl"), "--kubeconfig", str(self.instance.kubeconfig)),
                *("-n", namespace, "exec", pod, "--", "/probe", *command),
            ],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )


def eventually(condition: Callable[[], bool], what: str, seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not within {seconds} s: {what}"
        time.sleep(0.1)  # Between two looks at an instance's processes.


def fetch(url: str) -> str:
    """Return what a URL answers to the host, in one attempt; empty when it does not."""
    try:
        with urllib.request.urlopen(url, timeout=3) as answer:
            content: bytes = answer.read()
    except OSError:
        return ""
    return content.decode()


def probe_pod(name: str, *arguments: str, **spec: Any) -> dict[str, Any]:
    """A pod that runs the probe; serves on port 8080 unless told otherwise."""
    container = {
        "name": "probe",
        "image": IMAGE,
        "imagePullPolicy": "Never",
        "args": list(arguments) or ["serve", ":8080"],
        **spec.pop("container", {}),
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": name}},
        "spec": {"terminationGracePeriodSeconds": 5, "containers": [container], **spec},
    }


def in_namespace(namespace: str, *objects: dict[str, Any]) -> list[dict[str, Any]]:
    return [{**each, "metadata": {**each["metadata"], "namespace": namespace}} for each in objects]


STATIC = {"cpuManagerPolicy": "static", "kubeReserved": {"cpu": "500m"}, "cpuManagerReconcilePeriod": "1s"}
"""The manager reserves whole CPUs: the first one. Of it, half stays for pods that own none."""
