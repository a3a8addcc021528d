"""Plays cert-manager's controller in the dev cluster while a test runs."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Iterator
from typing import Any

from devcluster.fakes import cert_manager

PAUSE_SECONDS = 1.5
"""Between two looks of which the former found nothing to do: each starts kubectl, on cores that others need."""


class Played:
    """Answers the Issuers and Certificates of the cluster's namespace; see devcluster/fakes/cert_manager.py."""

    def __init__(self, slurm: Any) -> None:
        self.slurm = slurm
        self.trouble: Exception | None = None
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def secret(self, name: str) -> dict[str, Any] | None:
        found = self.slurm.kubectl("get", "secret", name, "--ignore-not-found", "-o", "json").ok()
        return json.loads(found) if found else None

    def put(self, resource: dict[str, Any]) -> None:
        self.slurm.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", text=json.dumps(resource)).ok()

    def renew(self, certificate: str) -> None:
        """Issue a Certificate anew, as when its end comes near."""
        wanted = self.slurm.get("certificate", certificate)
        issuers = self.slurm.get("issuers")["items"]
        for each in cert_manager.issue(issuers, [{**wanted, "status": {}}], self.secret):
            if each["kind"] == "Secret":
                self.put(each)

    def _run(self) -> None:
        pause = 0.0
        while not self._end.wait(pause):
            pause = PAUSE_SECONDS
            try:
                pause = 0.0 if self._answer() else pause
            except Exception as error:  # the test looks at it
                self.trouble = error

    def _answer(self) -> bool:
        """Answer what is open, and return whether there was something to do."""
        found = self.slurm.get("issuers,certificates")["items"]
        by_kind = {kind: [each for each in found if each["kind"] == kind] for kind in ("Issuer", "Certificate")}
        answers = cert_manager.issue(by_kind["Issuer"], by_kind["Certificate"], self.secret)
        for each in answers:
            if each["kind"] == "Secret":
                self.put(each)
                continue
            name, status = f"{each['kind']}/{each['metadata']['name']}", json.dumps({"status": each["status"]})
            self.slurm.kubectl("patch", name, "--subresource=status", "--type=merge", "-p", status).ok()
        return bool(answers)

    @contextlib.contextmanager
    def playing(self) -> Iterator[Played]:
        bundle = {"apiVersion": "v1", "kind": "List", "items": cert_manager.crds()}
        names = [each["metadata"]["name"] for each in cert_manager.crds()]
        self.slurm.kubectl("apply", "-f", "-", text=json.dumps(bundle)).ok()
        self.slurm.kubectl("wait", "--for=condition=Established", *(f"crd/{name}" for name in names)).ok()
        self._thread.start()
        try:
            yield self
        finally:
            self._end.set()
            self._thread.join(60)
            self.slurm.kubectl("delete", "crd", *names).ok()
