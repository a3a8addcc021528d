"""Images of containers as a user has pulled them."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from tests.image.small_cluster import ALICE


def make_bundle(jail: Path, bundle: Path) -> None:
    """An image with the jail's programs, alice's as one that she pulled."""
    root = bundle / "rootfs"
    for name in ("etc", "dev", "proc", "sys", "tmp", "home"):
        (root / name).mkdir(parents=True)
    (root / "of-the-image").touch()
    (bundle / "config.json").write_text(json.dumps({"ociVersion": "1.0.2", "root": {"path": "rootfs"}}))
    subprocess.run(["chown", "-R", f"{ALICE}:{ALICE}", bundle], check=True)
    for name in ("bin", "lib", "lib64"):
        (root / name).symlink_to(f"usr/{name}")
    subprocess.run(["cp", "-al", jail / "usr", root], check=True)
