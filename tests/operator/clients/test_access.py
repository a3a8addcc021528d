"""The operator finds the API server as pods do: by its service account, without DNS, with the present token."""

from __future__ import annotations

import asyncio
import base64
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from slurm_operator.clients import access
from slurm_operator.clients.kubernetes import KubernetesApi, KubernetesError

from tests.operator.worlds import world


def test_a_pod_reaches_the_api_server_by_its_service_account_and_reads_a_renewed_token(
    cluster: world.World, kubeconfig: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    by_file = world.access_by(kubeconfig)
    (tmp_path / "ca.crt").write_bytes(base64.b64decode(by_file.ca_data or b""))
    (tmp_path / "token").write_text("stale")
    address = urlsplit(by_file.server)
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", address.hostname or "")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", str(address.port))
    monkeypatch.setattr(access, "SERVICE_ACCOUNT", tmp_path)

    async def ask() -> None:
        api = KubernetesApi(access.find, cluster.namespace)
        try:
            with pytest.raises(KubernetesError, match="Unauthorized"):
                await api.list("v1", "pods")
            (tmp_path / "token").write_text(f"{by_file.token}\n")
            assert await api.list("v1", "pods") == []
        finally:
            await api.close()

    asyncio.run(ask())
