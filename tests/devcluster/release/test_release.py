"""Promises of `make release` about what it makes: the archives' own content, the same digests each time, whole SBOMs.

Images are tiny docker-archives in a cache of the test; skopeo and git are real, the registry is served by the test.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
import subprocess
import tarfile
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from devcluster.images import images
from devcluster.images.image_recipe import NAMES
from devcluster.machine.bootstrap import CHECKOUT
from devcluster.machine.progress import StepFailed
from devcluster.release import make

CHANGELOG = "# Changelog\n\n## 1.2.0 (2026-11-23)\n\n* Nodes are blue.\n"
STATUS = """Package: tini
Status: install ok installed
Architecture: amd64
Version: 0.19.0-1
Description: first process
 of containers

Package: gone
Status: deinstall ok config-files
Architecture: all
Version: 1
"""
SLURMD = "Package: slurmd\nStatus: install ok installed\nArchitecture: amd64\nVersion: 26.05.5-1\n"
KOPF = "Metadata-Version: 2.1\nName: Kopf_Test\nVersion: 1.38.0\n\nText with\nName: nothing\n"


def tar(files: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()


def docker_archive(reference: str, *layers: dict[str, str]) -> bytes:
    contents = [tar({name: text.encode() for name, text in layer.items()}) for layer in layers]
    sums = [hashlib.sha256(content).hexdigest() for content in contents]
    config = {
        "architecture": "amd64", "os": "linux", "config": {"Labels": {"kept": "yes"}},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{each}" for each in sums]},
    }  # fmt: skip
    manifest = [{"Config": "config.json", "RepoTags": [reference], "Layers": [f"{each}.tar" for each in sums]}]
    named = {f"{each}.tar": content for each, content in zip(sums, contents, strict=True)}
    return tar(named | {"config.json": json.dumps(config).encode(), "manifest.json": json.dumps(manifest).encode()})


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Archives under the names that this checkout's images have: nothing is built."""
    cache = tmp_path_factory.mktemp("cache")
    (cache / "images").mkdir()
    for name, image in images.planned(cache).items():
        base = {"var/lib/dpkg/status": "Package: old\nStatus: install ok installed\nVersion: 0\nArchitecture: all\n"}
        layer = {
            "var/lib/dpkg/status": STATUS,
            "var/lib/dpkg/status.d/slurmd": SLURMD,
            "usr/local/lib/python3.14/dist-packages/kopf-1.38.0.dist-info/METADATA": KOPF,
            "etc/name": name,
        }
        image.archive.write_bytes(docker_archive(image.reference, base, layer))
    return cache


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    checkout = tmp_path / "checkout"
    checkout.mkdir()
    (checkout / "pyproject.toml").write_text('[project]\nversion = "1.2.0"\n')
    (checkout / "CHANGELOG.md").write_text(CHANGELOG)
    (checkout / "requirements.txt").write_text("PyYAML==6.0.3 \\\n    --hash=sha256:00\n    # via x==1\n")
    (checkout / ".gitignore").write_text("build\n")
    for command in (["init", "--quiet"], ["add", "--all"], ["commit", "--quiet", "--message=all"]):
        git(checkout, *command)
    return checkout


def git(checkout: Path, *arguments: str) -> None:
    author = ["-c", "user.name=test", "-c", "user.email=test@example.org"]
    subprocess.run(["git", "-C", checkout, *author, *arguments], check=True, timeout=60)


def release(cache: Path, checkout: Path, registry: str | None = None) -> Path:
    return make.release(cache, registry, checkout=checkout, folder=checkout / "build/release")


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_two_releases_of_one_commit_are_the_same_byte_for_byte(cache, checkout):
    first = files(release(cache, checkout))
    assert files(release(cache, checkout)) == first
    assert {name for name in first if not name.startswith("images/")} == {
        "images.json",
        "notes.md",
        "pulumi-slurm-1.2.0.tar.gz",
        *(f"{name}.cdx.json" for name in ("program", *NAMES)),
    }


def test_each_image_carries_the_version_and_the_commit_under_the_digest_that_is_told(cache, checkout):
    folder = release(cache, checkout)
    for name, digest in make.digests(folder).items():
        layout = f"oci:{folder}/images/{name}:1.2.0"
        shown = json.loads(subprocess.check_output(["skopeo", "inspect", layout], timeout=60))
        assert shown["Digest"] == digest
        assert shown["Labels"]["org.opencontainers.image.version"] == "1.2.0"
        assert re.fullmatch("[0-9a-f]{40}", shown["Labels"]["org.opencontainers.image.revision"])
        assert shown["Labels"]["kept"] == "yes"
        assert f"`{name}@{digest}`" in (folder / "notes.md").read_text()
        # skopeo reads every blob against its digest.
        subprocess.run(["skopeo", "copy", "--quiet", layout, f"dir:{folder}/copy-{name}"], check=True, timeout=60)


def test_an_sbom_is_valid_and_has_what_dpkg_and_pip_say(cache, checkout):
    folder = release(cache, checkout)
    for file in folder.glob("*.cdx.json"):
        assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(file.read_text()) is None
    suite = (CHECKOUT / "images/suite").read_text().strip()
    assert purls(folder / "slurm.cdx.json") == {
        f"pkg:deb/debian/tini@0.19.0-1?arch=amd64&distro={suite}",
        f"pkg:deb/debian/slurmd@26.05.5-1?arch=amd64&distro={suite}",
        "pkg:pypi/kopf-test@1.38.0",
    }
    assert purls(folder / "program.cdx.json") == {"pkg:pypi/pyyaml@6.0.3"}


def purls(file: Path) -> set[str]:
    return {component["purl"] for component in json.loads(file.read_text())["components"]}


def test_a_refused_release_and_a_dry_run_leave_nothing(cache, checkout, capsys):
    make.dry_run(cache, None, checkout=checkout, folder=checkout / "build/release")
    assert "would be pushed: nothing" in capsys.readouterr().out
    (checkout / "new").write_text("")
    git(checkout, "tag", "v1.2.0")
    for attempt in (
        release,
        lambda *_: make.dry_run(cache, None, checkout=checkout, folder=checkout / "build/release"),
    ):
        with pytest.raises(StepFailed, match=r"(?s)differs from the last commit \(new\).*has tag v1.2.0"):
            attempt(cache, checkout)
    assert not (checkout / "build").exists()


@pytest.fixture
def registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, dict[str, bytes]]]:
    """A registry that takes pushes: its name, and what it holds by path."""
    held: dict[str, bytes] = {}

    class Requests(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            if self.path == "/v2/":
                self.reply(200)
            elif (content := held.get(self.path)) is None:
                self.reply(404, b'{"errors":[{"code":"MANIFEST_UNKNOWN","message":"manifest unknown"}]}')
            else:
                kind = json.loads(content)["mediaType"] if "/manifests/" in self.path else "application/octet-stream"
                self.reply(200, content, {"Content-Type": kind, "Docker-Content-Digest": digest_of(content)})

        do_HEAD = do_GET  # noqa: N815 - http.server calls it

        def do_POST(self) -> None:
            self.reply(202, headers={"Location": f"{self.path}upload"})

        def do_PATCH(self) -> None:
            held[self.path] = held.get(self.path, b"") + self.body()
            self.reply(202, headers={"Location": self.path})

        def do_PUT(self) -> None:
            path, _, query = self.path.partition("?")
            if "/blobs/uploads/" in path:
                content = held.pop(path, b"") + self.body()
                path = f"{path.removesuffix('uploads/upload')}{query.removeprefix('digest=').replace('%3A', ':')}"
                assert path.endswith(digest_of(content))
            else:
                content = self.body()
                held[f"{path.rpartition('/')[0]}/{digest_of(content)}"] = content
            held[path] = content
            self.reply(201, headers={"Docker-Content-Digest": digest_of(content)})

        def body(self) -> bytes:
            if self.headers["Transfer-Encoding"] != "chunked":
                return self.rfile.read(int(self.headers["Content-Length"] or 0))
            parts = []
            while size := int(self.rfile.readline(), 16):
                parts.append(self.rfile.read(size))
                self.rfile.readline()
            self.rfile.readline()
            return b"".join(parts)

        def reply(self, status: int, body: bytes = b"", headers: dict[str, str] | None = None) -> None:
            self.send_response(status)
            for header, value in {"Content-Length": str(len(body)), **(headers or {})}.items():
                self.send_header(header, value)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Says nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Requests) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        name = f"127.0.0.1:{server.server_address[1]}"
        # skopeo speaks plain HTTP to what this file names only.
        settings = tmp_path / "home/.config/containers/registries.conf"
        settings.parent.mkdir(parents=True)
        settings.write_text(f'[[registry]]\nlocation = "{name}"\ninsecure = true\n')
        monkeypatch.setenv("HOME", str(tmp_path / "home"))
        yield f"{name}/team", held
        server.shutdown()


def digest_of(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def test_a_named_registry_gets_each_image_under_its_digest_and_no_other_ever_under_its_version(
    cache, checkout, registry
):
    name, held = registry
    folder = release(cache, checkout, name)
    pushed = {image: digest_of(held[f"/v2/team/{image}/manifests/1.2.0"]) for image in NAMES}
    assert pushed == make.digests(folder)
    release(cache, checkout, name)  # The same again is no other.
    git(checkout, "commit", "--quiet", "--allow-empty", "--message=more", "--date=2030-01-01T00:00:00Z")
    (folder / make.DIGESTS).unlink()
    with pytest.raises(StepFailed, match=r"(?s)slurm:1.2.0 is another image already.*database:1.2.0 is another"):
        release(cache, checkout, name)


def test_a_registry_that_cannot_be_asked_is_named_before_anything_is_made(cache, checkout):
    with pytest.raises(StepFailed, match=r"127.0.0.1:9/team/slurm: the registry gives no answer"):
        release(cache, checkout, "127.0.0.1:9/team")
    assert not (checkout / "build").exists()
