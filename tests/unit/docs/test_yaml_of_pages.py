"""Each YAML of the pages is a configuration that the program takes, or an object of Kubernetes."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from components.config import parse
from components.slurm.conf import slurm_conf
from contract import names
from devcluster.machine.bootstrap import CHECKOUT
from tests.unit.samples import DIGEST, GPU_SET, SMALL, SSH_KEY, changed

PREFIX = f"{names.PROJECT}:"
BLOCK = re.compile(r"^( *)```yaml\n(.*?)^ *```", re.MULTILINE | re.DOTALL)
LEFT_OUT = re.compile(r"^ *…\n", re.MULTILINE)
FILE = re.compile(r"path: ([\w-]+/[\w./-]+)")
PAGES = [CHECKOUT / "README.md", CHECKOUT / "CONTRIBUTING.md", *sorted(CHECKOUT.glob("docs/**/*.md"))]
BLOCKS = [
    (page, page.read_text()[: found.start()].count("\n") + 2, found[2])
    for page in PAGES
    for found in BLOCK.finditer(page.read_text())
]

CLUSTER: dict[str, Any] = {
    **SMALL,
    "nodeSets": [
        *({**SMALL["nodeSets"][0], "name": name} for name in ("cpu", "canary")),
        *({**GPU_SET, "name": name} for name in ("h100", "gb200")),
        {**GPU_SET, "name": "mig", "gpus": {"type": "1g.10gb", "perNode": 2}},
    ],
    "networkOperator": {"mode": "existing", "pools": [{"name": "fabric"}]},
}
"""The cluster that a page's example changes."""
OF_OTHERS = ({"apiVersion", "kind", "metadata", "spec"}, {"rules"})
"""Keys of examples for Kubernetes and Prometheus; test_autoscaling_examples.py reads those."""
PARTS = {"multipleFiles": "nodeSets.4.gpus.multipleFiles", "network": "nodeSets.0.network"}
"""Only key of a part of an example → where it stands."""


def with_example(base: Any, example: Any) -> Any:
    """The configuration with what an example says."""
    if isinstance(base, dict) and isinstance(example, dict):
        return {**base, **{key: with_example(base.get(key), value) for key, value in example.items()}}
    rows = isinstance(example, list) and all(isinstance(row, dict) and "name" in row for row in example)
    if rows and base:
        known = {row.get("name"): row for row in base}
        return list({**known, **{row["name"]: with_example(known.get(row["name"]), row) for row in example}}.values())
    return example


def configuration(text: str) -> dict[str, Any] | None:
    """The configuration that an example makes; None if it is for another program."""
    text = LEFT_OUT.sub("", text).replace("sha256:…", DIGEST).replace("ssh-ed25519 AAAA…", SSH_KEY.rpartition(" ")[0])
    example = yaml.safe_load(text)
    if isinstance(example, list):
        return changed("nodeSets", [*CLUSTER["nodeSets"], *example], CLUSTER)
    if set(example) in OF_OTHERS:
        return None
    if not example.keys() - PARTS.keys():
        ((key, value),) = example.items()
        return changed(PARTS[key], value, CLUSTER)
    sections = example.get("config", example)
    assert [key for key in sections if not key.startswith(PREFIX)] == []
    raw = {key.removeprefix(PREFIX): value for key, value in sections.items()}
    return {**CLUSTER, **{key: with_example(CLUSTER.get(key), value) for key, value in raw.items()}}


@pytest.mark.parametrize(("page", "line", "text"), BLOCKS, ids=[f"{page.name}:{line}" for page, line, _ in BLOCKS])
def test_an_example_of_a_page_is_taken_as_it_stands(
    page: Path, line: int, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for file in FILE.findall(text):
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_text("#!/bin/bash\n")
    raw = configuration(text)
    assert raw is None or slurm_conf.files(parse(raw))


def test_the_pages_have_examples() -> None:
    assert len(BLOCKS) > 30
