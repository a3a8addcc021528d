"""The note about a root's image, beside the root: its packages, and its own files of sudoers.d."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from slurm_node.pod import paths
from slurm_node.pod.durable import write_durably


@dataclass(frozen=True, slots=True)
class Image:
    """Note about the image of a root."""

    packages: Mapping[str, str]
    sudoers: tuple[str, ...]


def save(volume: Path, revision: str, image: Image) -> None:
    """Writes the note of a root's image."""
    folder = paths.facts_of(volume, revision)
    folder.mkdir(parents=True, exist_ok=True)
    note = {"packages": dict(image.packages), "sudoers": list(image.sudoers)}
    write_durably(folder / "image.json", json.dumps(note) + "\n")


def load(volume: Path, revision: str) -> Image | None:
    """Reads the note about a root's image; None for an old root without one."""
    path = paths.facts_of(volume, revision) / "image.json"
    if not path.exists():
        return None
    noted = json.loads(path.read_text())
    return Image(noted["packages"], tuple(noted["sudoers"]))
