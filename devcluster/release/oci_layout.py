"""Labels on an image in an OCI layout: the content stays, config and manifest get new digests.

Development images carry their content tag. A release adds its version to the same content, without a build. So it ships
the tested content, with the same digests each time.

Format: the OCI image layout, image-spec 1.0.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def label(layout: Path, labels: Mapping[str, str]) -> str:
    """Add labels to the one image of an OCI layout.

    Args:
        layout: The layout's folder, with index.json and blobs/.
        labels: name → value; others that the image has stay.

    Returns:
        Digest of the image's new manifest, such as sha256:….
    """
    index = json.loads((layout / "index.json").read_text())
    (entry,) = index["manifests"]
    manifest = _take(layout, entry["digest"])
    config = _take(layout, manifest["config"]["digest"])
    config["config"]["Labels"] = {**(config["config"].get("Labels") or {}), **labels}
    manifest["config"] |= _put(layout, config)
    entry |= _put(layout, manifest)
    (layout / "index.json").write_text(json.dumps(index))
    digest: str = entry["digest"]
    return digest


def _take(layout: Path, digest: str) -> dict[str, Any]:
    """Read a JSON blob, and remove it, since another one replaces it."""
    blob = _blob(layout, digest)
    content: dict[str, Any] = json.loads(blob.read_text())
    blob.unlink()
    return content


def _put(layout: Path, content: dict[str, Any]) -> dict[str, Any]:
    text = json.dumps(content, sort_keys=True, separators=(",", ":")).encode()
    digest = f"sha256:{hashlib.sha256(text).hexdigest()}"
    _blob(layout, digest).write_bytes(text)
    return {"digest": digest, "size": len(text)}


def _blob(layout: Path, digest: str) -> Path:
    return layout / "blobs" / digest.replace(":", "/")
