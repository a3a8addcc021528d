"""The node's own images, each one static program: the sandbox's pause and CoreDNS, as docker archives."""

from __future__ import annotations

import hashlib
import io
import json
import platform
import tarfile
from pathlib import Path

ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


def archive(program: Path, name: str, target: Path, *, user: str = "65534:65534") -> Path:
    """Write an image that holds nothing but a static program, which is also its entry point.

    Args:
        program: The program; its base name is kept, at the root of the image.
        name: The image's name and tag.
        target: The file to write.
        user: Who runs it.
    """
    layer = _tar({program.name: program.read_bytes()}, mode=0o755)
    config = json.dumps(
        {
            "architecture": ARCHITECTURES[platform.machine()],
            "os": "linux",
            "config": {"Entrypoint": [f"/{program.name}"], "User": user, "WorkingDir": "/"},
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}"]},
        }
    ).encode()
    manifest = json.dumps([{"Config": "config.json", "RepoTags": [name], "Layers": ["layer.tar"]}]).encode()
    beside = target.with_name(f".{target.name}.new")
    beside.write_bytes(_tar({"manifest.json": manifest, "config.json": config, "layer.tar": layer}, mode=0o644))
    beside.replace(target)
    return target


def _tar(files: dict[str, bytes], mode: int) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(content), mode
            tar.addfile(member, io.BytesIO(content))
    return buffer.getvalue()
