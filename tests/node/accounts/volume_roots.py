"""Roots on a volume, with the accounts of an image."""

from __future__ import annotations

from pathlib import Path

from slurm_node.roots import inventory

PASSWD = "root:x:0:0::/root:/bin/sh\n"


def make_root(volume: Path, revision: str, *, complete: bool = True) -> Path:
    etc = volume / "roots" / revision / "etc"
    (etc / "sudoers.d").mkdir(parents=True)
    (etc / "passwd").write_text(PASSWD)
    (etc / "group").write_text("root:x:0:\nsudo:x:27:\n")
    (etc / "shadow").write_text("root:*:1::::::\n")
    (etc / "sudoers.d/README").write_text(f"of the image {revision}\n")
    inventory.note_image(volume / "roots" / revision, volume, revision)
    if complete:
        (volume / "manifests" / f"{revision}.json").write_text("{}")
    return etc
