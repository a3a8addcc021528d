"""The files that the stacks of this checkout render, as `tests/unit/golden` keeps them, and how they are made anew.

Usage: .venv/bin/python -m tests.unit.golden_files
Writes these files, operator/crds, docs/config.md, docs/slurm-keys.md and native/contract.h. `git diff` then shows what
a change of the program does to them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from components.config import Config, parse
from components.config.pages import key_table, reference
from components.control.crds import files
from components.slurm.conf import slurm_conf
from contract import native
from devcluster.machine.bootstrap import CHECKOUT

FOLDER = Path(__file__).parent / "golden"
STACKS = ("dev", "gpu.example")
REFERENCE = CHECKOUT / "docs" / "config.md"
KEY_TABLE = CHECKOUT / "docs" / "slurm-keys.md"
NATIVE_HEADER = CHECKOUT / "native" / "contract.h"
AGAIN = "run `.venv/bin/python -m tests.unit.golden_files`, and look at `git diff`"
_IMAGE = "localhost/pulumi-slurm/{}:0123456789abcdef"


def raw_stack(name: str) -> dict[str, Any]:
    """Return what a stack file says, with the facts that devcluster adds."""
    content = yaml.safe_load((CHECKOUT / f"Pulumi.{name}.yaml").read_text())["config"]
    raw: dict[str, Any] = {key.removeprefix("pulumi-slurm:"): value for key, value in content.items()}
    raw.setdefault("login", {})
    for path, image in (
        ("images.slurm", "slurm"),
        ("images.operator", "operator"),
        ("images.database", "database"),
        ("jail.image", "jail"),
    ):
        part, key = path.split(".")
        raw[part].setdefault(key, _IMAGE.format(image))
    return raw


def stack(name: str) -> Config:
    """The configuration of a stack file, parsed."""
    return parse(raw_stack(name))


def write() -> None:
    """Write all of them anew."""
    for name in STACKS:
        folder = FOLDER / name
        for old in folder.iterdir():
            old.unlink()
        for file, text in slurm_conf.files(stack(name)).items():
            (folder / file).write_text(text)
    for file, text in files.files().items():
        (files.FOLDER / file).write_text(text)
    REFERENCE.write_text(reference.text())
    KEY_TABLE.write_text(key_table.text())
    NATIVE_HEADER.write_text(native.header())


if __name__ == "__main__":
    write()
