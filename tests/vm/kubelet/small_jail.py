"""A jail image of a tenth of the real one's size: a guest takes longer for the real one than for all of its tests.

`python -m tests.vm.kubelet.small_jail` puts it into the build cache, for a guest, which has no network.
"""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
import tempfile
from pathlib import Path

from contract import names
from devcluster.images.images import Image
from devcluster.machine.bootstrap import CHECKOUT, cache_folder
from tests.image import roots

ROOTFS = CHECKOUT / "images/jail/rootfs"
ACCOUNTS = {
    "etc/passwd": f"slurm:x:{names.SLURM_UID}:{names.SLURM_UID}:Slurm:/nonexistent:/usr/sbin/nologin\n",
    "etc/group": f"slurm:x:{names.SLURM_UID}:\n",
    "etc/shadow": "slurm:!:1::::::\n",
}
"""Lines that images/jail/Containerfile appends."""


def image() -> Image:
    """The image in the build cache; it is made there first if it is missing."""
    root = roots.packed("jail")
    key = root.stem.rpartition("-")[2]
    built = Image(f"localhost/pulumi-slurm/small-jail:{key}", cache_folder() / f"small-jail-{key}.tar")
    if not built.archive.exists():
        with tempfile.TemporaryDirectory(dir=built.archive.parent) as scratch:
            unfinished = Path(scratch) / "image.tar"
            _pack(root, _upper(root), built.reference, unfinished)
            unfinished.rename(built.archive)
    return built


def _upper(root: Path) -> bytes:
    """The layer above Debian's: what the Containerfile of the real image changes."""
    made = io.BytesIO()
    with tarfile.open(root) as lower, tarfile.open(fileobj=made, mode="w") as upper:
        for name, line in ACCOUNTS.items():
            member = lower.getmember(f"./{name}")
            content = lower.extractfile(member)
            assert content is not None
            body = content.read() + line.encode()
            member.size = len(body)
            upper.addfile(member, io.BytesIO(body))
        for path in sorted(path for path in ROOTFS.rglob("*") if path.is_file()):
            member = tarfile.TarInfo(f"./{path.relative_to(ROOTFS)}")
            member.size, member.mode = path.stat().st_size, 0o440 if "sudoers.d" in path.parts else 0o644
            upper.addfile(member, io.BytesIO(path.read_bytes()))
    return made.getvalue()


def _pack(root: Path, upper: bytes, reference: str, archive: Path) -> None:
    """Writes a docker-archive of two layers."""
    with root.open("rb") as lower:
        digests = [hashlib.file_digest(lower, "sha256").hexdigest(), hashlib.sha256(upper).hexdigest()]
    config = {
        "architecture": "amd64", "os": "linux", "config": {"Cmd": ["/bin/bash"]},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}" for digest in digests]},
    }  # fmt: skip
    manifest = [{"Config": "config.json", "RepoTags": [reference], "Layers": ["lower.tar", "upper.tar"]}]
    with tarfile.open(archive, mode="w") as packed:
        packed.add(root, "lower.tar")
        parts = {"upper.tar": upper, "config.json": json.dumps(config).encode()}
        for name, body in {**parts, "manifest.json": json.dumps(manifest).encode()}.items():
            member = tarfile.TarInfo(name)
            member.size = len(body)
            packed.addfile(member, io.BytesIO(body))


if __name__ == "__main__":
    image()
