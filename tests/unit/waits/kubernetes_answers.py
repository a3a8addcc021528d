"""Kubernetes' answers for the program's own reads, by path."""

from collections.abc import Mapping
from typing import Any

import httpx
import pytest

from components import wait_provider
from components.kubernetes import kubernetes_reader


def give(monkeypatch: pytest.MonkeyPatch, listed: Mapping[str, Any]) -> None:
    """Have the waits of the program read these answers, as they are when it asks."""

    def answer(request: httpx.Request) -> httpx.Response:
        return httpx.Response(200, json=listed[request.url.path])

    def client(_: object) -> httpx.Client:
        return httpx.Client(base_url="http://kubernetes", transport=httpx.MockTransport(answer))

    monkeypatch.setattr(wait_provider.kubeconfig, "read", lambda *_: None)
    monkeypatch.setattr(kubernetes_reader, "client", client)
