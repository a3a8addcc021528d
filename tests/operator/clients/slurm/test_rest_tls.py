"""The operator speaks HTTPS with the slurmrestd whose certificate its CA signed, and says why with no other."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest
from slurm_operator.clients.slurm import slurmrestd
from slurm_operator.clients.slurm.rest_renewal import RenewedRest
from slurm_operator.clients.slurm.slurm_error import Trouble

from contract import paths
from devcluster.fakes import cert_manager
from tests.operator.fakes.fake_slurmrestd import FakeSlurmrestd, raises, running
from tests.operator.worlds.world import KEY

AUTHORITY = cert_manager.make({"isCA": True, "commonName": "the cluster's"}, None)
ANOTHER = cert_manager.make({"isCA": True, "commonName": "another"}, None)


def server_side(folder: Path, name: str, signer: cert_manager.Pair) -> ssl.SSLContext:
    """TLS of a server whose certificate holds for a name."""
    pair = cert_manager.make({"dnsNames": [name], "usages": ["server auth"]}, signer)
    (folder / "pair.pem").write_bytes(pair.certificate + pair.key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "pair.pem")
    return context


@pytest.fixture
def fake(tmp_path: Path) -> Iterator[FakeSlurmrestd]:
    with running(KEY, server_side(tmp_path, "localhost", AUTHORITY)) as served:
        served.slurm.register("cpu-0", features=("cpu",))
        yield served


def listed(url: str, key_file: Path, authority: bytes | None) -> list[str]:
    """Names of the nodes, read over a new connection."""

    async def run() -> list[str]:
        rest = slurmrestd.SlurmRest(url, key_file, authority)
        try:
            return sorted(await rest.nodes(full=True))
        finally:
            await rest.close()

    return asyncio.run(run())


def test_a_certificate_that_our_ca_signed_is_trusted(fake: FakeSlurmrestd, key_file: Path) -> None:
    assert listed(fake.url, key_file, AUTHORITY.certificate) == ["cpu-0"]


@pytest.mark.parametrize(
    ("authority", "said"),
    [
        (ANOTHER.certificate, "its certificate is not trusted: unable to get local issuer certificate"),
        (b"", "its certificate is not trusted"),
        (b"no PEM \xff", "its certificate is not trusted"),
        (None, f"there is no CA in {paths.REST_AUTHORITY_FILE} to trust"),
    ],
    ids=["another", "empty", "no certificate", "no file"],
)
def test_another_ca_or_none_is_told_and_no_token_is_sent(
    fake: FakeSlurmrestd, key_file: Path, authority: bytes | None, said: str
) -> None:
    with raises(Trouble.UNTRUSTED) as refused:
        listed(fake.url, key_file, authority)
    assert said in str(refused.value)
    assert fake.url in str(refused.value)
    assert refused.value.reason == "RestUntrusted"
    assert fake.slurm.calls == []


def test_a_certificate_for_another_name_is_refused(tmp_path: Path, key_file: Path) -> None:
    with (
        running(KEY, server_side(tmp_path, "slurm-rest", AUTHORITY)) as served,
        raises(Trouble.UNTRUSTED, match="Hostname mismatch"),
    ):
        listed(served.url, key_file, AUTHORITY.certificate)


def test_plain_http_where_tls_is_spoken_is_unreachable(fake: FakeSlurmrestd, key_file: Path) -> None:
    with raises(Trouble.UNREACHABLE):
        listed(fake.url.replace("https", "http"), key_file, None)


def test_a_ca_that_changes_is_read_anew(tmp_path: Path, key_file: Path) -> None:
    file = tmp_path / "ca.crt"

    async def clients() -> list[bytes | None]:
        rest = RenewedRest(key_file, file)
        seen = []
        for content in (None, b"one", b"one", b"two"):
            if content is not None:
                file.write_bytes(content)
            client = await rest.at("https://localhost:1")
            seen.append(client)
        plain = await rest.at("http://localhost:1")
        await rest.close()
        assert seen[1] is seen[2], "an unchanged CA keeps the connections"
        return [each.authority for each in (*seen, plain)]

    assert asyncio.run(clients()) == [None, b"one", b"one", b"two", None]
