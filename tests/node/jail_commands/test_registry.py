"""`slurm-image pull docker://…`: from a registry that speaks Docker's HTTP API v2, by the real skopeo.

umoci is played by a script: what it unpacks is what skopeo brought.
"""

from __future__ import annotations

import base64
import json
import os
import re
import ssl
import subprocess
import sys
import tarfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from devcluster.apiserver.pki import Authority, Subject
from devcluster.machine.bootstrap import CHECKOUT

UMOCI = """#!/bin/sh
for last; do :; done
mkdir -p "$last/rootfs"
cp -r "${last%/bundle}/image/blobs/sha256" "$last/blobs"
"""
COMMAND = "import sys; from jail_commands import image; sys.exit(image.main())"
PASSWORD = "user:secret of the registry"


@contextmanager
def registry(folder: Path, password: str = "", tls: ssl.SSLContext | None = None) -> Iterator[str]:
    """Serves an image in a folder (skopeo's dir:) as team/tiny:1; gives the registry's name."""
    wanted = f"Basic {base64.b64encode(password.encode()).decode()}" if password else None

    class Requests(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            *_, kind, name = self.path.split("/")
            file = folder / ("manifest.json" if kind == "manifests" else name.removeprefix("sha256:"))
            if wanted and self.headers["Authorization"] != wanted:
                self.reply(401, error("UNAUTHORIZED"), {"WWW-Authenticate": 'Basic realm="test"'})
            elif self.path == "/v2/":
                self.reply(200, b"{}")
            elif "/team/tiny/" in self.path and file.is_file() and (kind, name) != ("manifests", "2"):
                content = file.read_bytes()
                kind = json.loads(content)["mediaType"] if kind == "manifests" else "application/octet-stream"
                self.reply(200, content, {"Content-Type": kind})
            else:
                self.reply(404, error("MANIFEST_UNKNOWN" if kind == "manifests" else "BLOB_UNKNOWN"))

        def do_HEAD(self) -> None:
            self.do_GET()

        def reply(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
            self.send_response(status)
            for header, value in {**(headers or {}), "Content-Length": str(len(body))}.items():
                self.send_header(header, value)
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Says nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Requests) as server:
        if tls:
            server.socket = tls.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def error(code: str) -> bytes:
    return json.dumps({"errors": [{"code": code, "message": code.lower().replace("_", " ")}]}).encode()


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An image as a registry has it: manifest.json, and blobs by their sums."""
    folder = tmp_path_factory.mktemp("tiny")
    maker = CHECKOUT / "tests/e2e/jail/tiny_image.py"
    subprocess.run([sys.executable, maker, folder / "tiny.tar"], check=True, timeout=60)
    copy = ["skopeo", "copy", "--quiet", f"docker-archive:{folder}/tiny.tar", f"dir:{folder}/registry"]
    subprocess.run(copy, check=True, timeout=60)
    return folder / "registry"


Pull = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    home = tmp_path / "home"
    (home / ".docker").mkdir(parents=True)
    return home


@pytest.fixture
def pull(tmp_path: Path, home: Path) -> Pull:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/umoci").write_text(UMOCI)
    (tmp_path / "bin/umoci").chmod(0o755)
    environment = {
        "PATH": f"{tmp_path}/bin:{os.environ['PATH']}",
        "PYTHONPATH": f"{CHECKOUT}/images/slurm:{CHECKOUT}",
        "HOME": str(home),
        "XDG_RUNTIME_DIR": str(tmp_path),
    }

    def run(source: str, *options: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", COMMAND, "pull", source, *options]
        return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)

    return run


def test_an_image_comes_from_a_registry_and_is_named_after_its_last_part(tiny: Path, home: Path, pull: Pull) -> None:
    with registry(tiny) as name:
        pulled = pull(f"docker://{name}/team/tiny:1", "--insecure")
    assert pulled.returncode == 0, pulled.stderr
    bundle = home / ".local/share/slurm-images/tiny-1"
    assert pulled.stdout == f"{bundle}\n"
    (layer,) = (blob for blob in (bundle / "blobs").iterdir() if tarfile.is_tarfile(blob))
    with tarfile.open(layer) as files:
        assert "etc/greeting" in files.getnames()
    again = pull(f"docker://{name}/team/tiny:1")
    assert (again.stdout, again.stderr) == (pulled.stdout, ""), "the registry is gone, and is not asked"


def test_a_password_is_taken_from_the_file_that_skopeo_login_writes(tiny: Path, home: Path, pull: Pull) -> None:
    with registry(tiny, PASSWORD) as name:
        source = f"docker://{name}/team/tiny:1"
        refused = pull(source, "--insecure")
        assert refused.returncode == 1
        assert "unauthorized" in refused.stderr
        assert not list((home / ".local/share/slurm-images").iterdir()), "nothing is left of it"
        user, _, password = PASSWORD.partition(":")
        login = ["skopeo", "login", "--tls-verify=false", "--authfile", str(home / ".docker/config.json")]
        subprocess.run(
            [*login, "-u", user, "--password-stdin", name], input=password, text=True, check=True, timeout=60
        )
        allowed = pull(source, "--insecure")
    assert allowed.returncode == 0, allowed.stderr


def test_what_a_registry_lacks_is_said(tiny: Path, pull: Pull) -> None:
    with registry(tiny) as name:
        for source in ("team/tiny:2", "team/other:1"):
            refused = pull(f"docker://{name}/{source}", "--insecure")
            assert refused.returncode == 1
            assert "manifest unknown" in refused.stderr
            assert "slurm-image: skopeo failed, nothing was kept: skopeo copy" in refused.stderr


def test_a_registry_that_can_not_be_trusted_is_refused_unless_that_is_asked_for(
    tiny: Path, tmp_path: Path, pull: Pull
) -> None:
    pair = Authority(tmp_path / "authority").issue("registry", Subject("registry", addresses=("127.0.0.1",)))
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(pair.certificate, pair.key)
    for served, sentence in (
        (registry(tiny), "(server gave HTTP response to HTTPS client|not look like a TLS handshake)"),
        (registry(tiny, tls=tls), "certificate signed by unknown authority"),
    ):
        with served as name:
            source = f"docker://{name}/team/tiny:1"
            refused = pull(source, "--replace")
            assert refused.returncode == 1
            assert re.search(sentence, refused.stderr)
            assert pull(source, "--insecure", "--replace").returncode == 0
