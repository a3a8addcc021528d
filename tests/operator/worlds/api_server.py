"""An administrator's view of a real API server, for the operator's tests."""

from __future__ import annotations

import functools
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import httpx
import kopf
import yaml
from slurm_operator.clients import access

from devcluster.machine.bootstrap import CHECKOUT

CRDS = CHECKOUT / "operator" / "crds"
STRATEGIC = {"Content-Type": "application/merge-patch+json"}
WAIT_SECONDS = 120.0
"""Deadline of a wait for some passes of an operator, on cores that all lanes of the suite share."""


def access_by(kubeconfig: Path) -> kopf.ConnectionInfo:
    """Return the access to the API server that an operator with that kubeconfig has."""
    with mock.patch.dict(os.environ, KUBECONFIG=str(kubeconfig)):
        return access.find()


class Admin:
    """An administrator's view of the API server."""

    def __init__(self, kubeconfig: Path) -> None:
        self.access = access_by(kubeconfig)
        self._threads = threading.local()

    @property
    def client(self) -> httpx.Client:
        """A client of this thread's own: connections that two threads share are closed under one by the other."""
        if not hasattr(self._threads, "client"):
            found = self.access
            self._threads.client = httpx.Client(
                base_url=found.server, verify=access.tls(found), timeout=60, trust_env=False
            )
        client: httpx.Client = self._threads.client
        return client

    def call(self, method: str, path: str, body: Any = None, **options: Any) -> dict[str, Any]:
        """Call and return the object; an error raises with the API server's words."""
        answer = self.client.request(method, path, json=body, **options)
        if answer.is_error:
            raise RuntimeError(f"{answer.status_code} {answer.json().get('message')}")
        result: dict[str, Any] = answer.json()
        return result

    def install_crds(self) -> None:
        """Create the operator's CRDs if they are missing, and wait until they are served."""
        for path in sorted(CRDS.glob("*.yaml")):
            body = yaml.safe_load(path.read_text())
            try:
                self.call("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", body)
            except RuntimeError as error:
                if not str(error).startswith("409"):
                    raise
            until(functools.partial(self._established, body["metadata"]["name"]), "the CRD is established")

    def _established(self, name: str) -> bool:
        found = self.call("GET", f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}")
        conditions = {item["type"]: item["status"] for item in found.get("status", {}).get("conditions") or []}
        return conditions.get("Established") == "True"


def until(condition: Callable[[], Any], what: str, seconds: float = WAIT_SECONDS) -> Any:
    """Wait for a condition and return its value.

    It is asked less often the longer it takes: most conditions are a call to the API server, on cores that all share.
    """
    end, pause = time.monotonic() + seconds, 0.05
    while time.monotonic() < end:
        value = condition()
        if value:
            return value
        time.sleep(pause)  # Between two questions: the API server tells of no condition that is made of several.
        pause = min(pause * 1.2, 0.25)
    raise AssertionError(f"not within {seconds} s: {what}")
